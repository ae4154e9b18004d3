"""Commands offered for pasting: a name in one is a word of it, whoever chose the name."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import leasehold
from leasehold import TaskQueue
from leasehold.core.model.advice import word, words
from leasehold.queue.health import findings_of

SOURCE = Path(leasehold.__file__).parent
HOSTILE = ("x;touch$IFS/tmp/p", "--help", "a'b", "a\nb\\n'c", "$(reboot)", "\u202ex", "a`id`")
TRUSTED = {"shown", "self.other", "source.shown"}
"""Addresses of stores: whoever runs a command has given them, or made the store."""
MAKERS = {"word", "words", "_name"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_the_name_that_was_meant(name: str) -> None:
    read = _as_bash_reads(f"first --option {word(name)} {words(name, 'mail')}")
    ending = ["--", name, "mail"] if name.startswith("-") else [name, "mail"]
    assert read == ["first", "--option", name, *ending]
    assert len(words(name).splitlines()) == 1


@pytest.mark.parametrize("name", [each for each in HOSTILE if each.isprintable()])
def test_advice_about_a_queue_names_it_as_words(name: str) -> None:
    with TaskQueue("memory://", num_workers=0) as queue:
        queue.create_queue(name, max_depth=1)
        queue.submit("a", queue=name)
        queue.pause_queue(name)
        advice = [each.advice for each in findings_of(queue)]
        assert any(f"queuectl queue resume {words(name)}" in each for each in advice)


def test_every_command_in_the_code_makes_words_of_its_names() -> None:
    """Found in the source, so that a new piece of advice is held to it, too."""
    bare = [
        f"{path.relative_to(SOURCE)}:{value.lineno}: {ast.unparse(value.value)}"
        for path in SOURCE.rglob("*.py")
        for value in _bare(ast.parse(path.read_text()))
    ]
    assert not bare


def test_every_command_in_a_template_makes_words_of_its_names() -> None:
    names = [
        (path.name, name)
        for path in SOURCE.rglob("*.html")
        for command in re.findall(r"queuectl [^<\n]*", path.read_text())
        for name in re.findall(r"{{(.*?)}}", command)
    ]
    assert names
    assert [
        each for each in names if not each[1].strip().endswith(("|shell", "|shell_value"))
    ] == []


def test_no_alert_of_another_program_puts_a_name_into_a_command() -> None:
    """Its templates can not quote for a shell."""
    rules = (SOURCE / "observe/files/alerts.rules.yml").read_text()
    assert re.findall(r"queuectl [^;.\n]*{{.*", rules) == []


def _as_bash_reads(command: str) -> list[str]:
    shown = f"set -- {command}; printf '%s\\0' \"$@\""
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", shown], capture_output=True, check=True, env=environment)
    return done.stdout.decode().split("\0")[:-1]


def _bare(tree: ast.Module) -> Iterator[ast.FormattedValue]:
    """The values in texts with a command that are not made words."""
    made = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_made(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            before = ""
            for part in node.values:
                if isinstance(part, ast.Constant):
                    before += str(part.value)
                elif (
                    isinstance(part, ast.FormattedValue)
                    and _is_in_command(before)
                    and not _is_made(part.value, made)
                ):
                    yield part


def _is_in_command(before: str) -> bool:
    _, found, rest = before.rpartition("queuectl ")
    return bool(found) and "`" not in rest and ";" not in rest and "\n" not in rest


def _is_made(value: ast.expr, made: set[str]) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in MAKERS
    return ast.unparse(value) in made | TRUSTED
