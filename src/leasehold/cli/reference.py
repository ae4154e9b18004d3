"""The reference page of the command line, made from the commands themselves.

`python -m leasehold.cli.reference > docs/cli-reference.md` writes it; a test compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

import click

from leasehold.cli.command import FORMS
from leasehold.cli.commands import COMMANDS
from leasehold.cli.root import load, root

PROGRAM = "queuectl"
HEAD = """\
# Command line reference

This page covers every command and option, made from the program itself (`python -m
leasehold.cli.reference`). [The command line](cli.md) explains how they work together.

"""
END = "Next: [the service](service.md)."


def page() -> str:
    """The whole page, in Markdown."""
    parts = [HEAD, _common(), *(_section(path, made) for path, made in commands()), END]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its path: `worker`, `worker start`, ..."""
    for name, entry in COMMANDS.items():
        command = load(entry)
        yield name, command
        if isinstance(command, click.Group):
            for each, part in command.commands.items():
                yield f"{name} {each}", part


def _common() -> str:
    return (
        "## Options of every command\n\nThey go before the command's name or after it.\n\n"
        + _table(root, [each for each in root.params if _is_common(each)])
        + "\n\nValues:\n\n"
        + "\n".join(f"- `{name}`: {form}" for name, form in FORMS.items())
    )


def _section(path: str, command: click.Command) -> str:
    level = "##" if " " not in path else "###"
    context = click.Context(command, info_name=f"{PROGRAM} {path}")
    usage = " ".join(command.collect_usage_pieces(context))
    own = [each for each in command.params if not _is_common(each)]
    return "\n\n".join(
        text
        for text in (
            f"{level} {PROGRAM} {path}",
            f"`{PROGRAM} {path} {usage}`",
            _prose(command.help or ""),
            _table(command, own),
        )
        if text
    )


def _prose(text: str) -> str:
    """Help as Markdown; what click is told to leave alone becomes a block."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        f"```text\n{each.removeprefix(chr(8)).strip(chr(10))}\n```"
        if each.startswith("\b")
        else each
        for each in paragraphs
    )


def _table(command: click.Command, parameters: list[click.Parameter]) -> str:
    context = click.Context(command)
    rows = [each.get_help_record(context) for each in parameters if isinstance(each, click.Option)]
    shown = [row for row in rows if row is not None]
    if not shown:
        return ""
    lines = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in shown]
    return "\n".join(["| option | meaning |", "| --- | --- |", *lines])


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _is_common(parameter: click.Parameter) -> bool:
    return bool({"--store", "--output", "--utc"} & set(parameter.opts))


if __name__ == "__main__":
    sys.stdout.write(page())
