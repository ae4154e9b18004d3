"""docs/cli.md on looking and giving orders: its commands are run, and say what it says."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from cli.conftest import Shell
from cli.seed import golden
from cli.test_tutorial import fits
from leasehold.cli.main import run

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
PART = PAGE[PAGE.index("## Status") : PAGE.index("## doctor")]
BLOCK = re.compile(r"^```(python|text|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ queuectl (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def seen(shell: Shell, line: str) -> str:
    """What a person sees: both streams, in order, and an exit code other than 0."""
    screen = StringIO()
    with (
        patch.object(sys, "argv", ["queuectl"]),
        chdir(shell.folder),
        redirect_stdout(screen),
        redirect_stderr(screen),
    ):
        code = run(shlex.split(line))
    return screen.getvalue() + (f"[exit {code}]" if code else "")


def test_the_page_says_what_happens(shell: Shell) -> None:
    commands, printed, names = 0, "", dict[str, object]()
    for kind, text in BLOCK.findall(PART):
        if kind == "text":
            assert printed == text
        elif kind == "python":
            with chdir(shell.folder), redirect_stdout(StringIO()) as out:
                exec(text, names)
            printed = out.getvalue()
        else:
            for line, promised in COMMAND.findall(text):
                printed_now = golden(seen(shell, line)).replace(str(shell.folder), "/srv/shop")
                if "..." in promised:
                    assert fits(golden(promised), printed_now), (line, printed_now)
                else:
                    assert printed_now == golden(promised), line
                commands += 1
    assert (commands > 10, bool(printed)) == (True, True)
