"""The help of every command, at 80 columns, as a person reads it."""

from __future__ import annotations

import re
from functools import cache

import click
import pytest

from leasehold.cli.reference import commands
from leasehold.cli.root import root

COMMANDS: dict[str, click.Command] = {"": root, **dict(commands())}


@cache
def text(path: str, width: int = 80) -> str:
    command = COMMANDS[path]
    parent = click.Context(root, info_name="queuectl", terminal_width=width)
    context = command.make_context(path, ["--help"], parent=parent, resilient_parsing=True)
    return command.get_help(context)


@pytest.mark.parametrize("path", COMMANDS)
class TestHelp:
    def test_no_line_is_longer_than_the_terminal_is_wide(self, path: str) -> None:
        assert [line for line in text(path).splitlines() if len(line) > 80] == []

    def test_no_name_is_broken_at_a_hyphen(self, path: str) -> None:
        assert [line for line in text(path).splitlines() if re.search(r"\w-$", line)] == []

    def test_no_command_in_a_list_is_cut_short(self, path: str) -> None:
        listed = text(path).partition("\nCommands:\n")[2]
        assert [line for line in listed.splitlines() if line.endswith("...")] == []

    def test_every_option_is_explained(self, path: str) -> None:
        options = [each for each in COMMANDS[path].params if isinstance(each, click.Option)]
        assert [each.name for each in options if not each.help] == []

    @pytest.mark.parametrize(
        ("kind", "example"), [("DURATION", "2h30m"), ("TIME", "2026-01-31T12:00")]
    )
    def test_values_with_a_form_of_their_own_say_which(
        self, path: str, kind: str, example: str
    ) -> None:
        shown = text(path)
        options = shown.partition("\nOptions:\n")[2]
        if re.search(rf"^ +-.* {kind}\b", options, re.MULTILINE):
            assert example in shown
