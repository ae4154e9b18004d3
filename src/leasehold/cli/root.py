"""The root command: finds the others by name and loads only the one that is called."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from leasehold.cli.command import CONTEXT, Group
from leasehold.cli.commands import COMMANDS, SECTIONS, LazyCommand
from leasehold.cli.session import Session, common_options


class Lazy(Group):
    """A group whose commands are named in a table, and imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else load(entry)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        # From the table: a shell that waits must not wait for all of them to be imported.
        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        placed = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in COMMANDS if name not in placed)
        # One width for all, so that the parts read as one list.
        width = max(map(len, COMMANDS))
        for title, names in {**SECTIONS, "More": others}.items():
            rows = [(name.ljust(width), COMMANDS[name].help) for name in names if name in COMMANDS]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def load(entry: LazyCommand) -> click.Command:
    """Import one command."""
    command: click.Command = getattr(import_module(entry.module), entry.attribute)
    return command


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from leasehold import __version__

        click.echo(f"leasehold {__version__}")
        ctx.exit()


@click.group(cls=Lazy, context_settings=CONTEXT, no_args_is_help=True)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
@common_options
@click.pass_context
def root(ctx: click.Context) -> None:
    """Background jobs: queue them, run them, see what became of them.

    The store is named by --store, by LEASEHOLD_STORE, or is ./leasehold.db. Data goes to standard
    output, messages to standard error. Exit codes: 0 ok, 1 failure, 2 usage, 3 not found,
    5 conflict, 6 store unreachable, 7 job failed, 8 partial, 124 timeout, 130 interrupted.
    """
    ctx.ensure_object(Session)
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False
