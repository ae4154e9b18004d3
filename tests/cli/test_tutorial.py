"""The tutorial is carried out, command by command, and prints what it promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.conftest import Shell

PAGE = Path(__file__).parent.parent.parent / "docs" / "tutorial.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "-- so far --"
"""Tells the end of what one command has printed."""


def commands_of(page: str) -> list[tuple[str, str]]:
    """Each command of a page's console blocks, and what it is said to print."""
    found: list[tuple[str, str]] = []
    for block in CONSOLE.findall(page):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, output = found[-1]
                found[-1] = (command, f"{output}{line}\n")
    return found


def fits(promised: str, printed: str) -> bool:
    """Whether an output is as promised; `...` stands for anything, alone for any lines.

    How many spaces there are is not compared: a table is as wide as what stands in it.
    """
    pattern = "".join(
        "(?s:.*)" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + "\n"
        for line in _narrow(promised).splitlines()
    )
    return re.fullmatch(pattern, _narrow(printed)) is not None


def _narrow(text: str) -> str:
    return "".join(re.sub(" +", " ", line).rstrip() + "\n" for line in text.splitlines())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_tutorial_is_true(shell: Shell, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    shell.nursery.install(programs)
    folder = tmp_path / "jobs"
    folder.mkdir()
    told = commands_of(PAGE.read_text(encoding="utf-8"))
    # One shell for the whole page, as the reader has it. A command's code is kept for the next one.
    # Workers in the background are stopped however it ends.
    script = "trap 'queuectl worker stop --timeout 5 --force > /dev/null 2>&1' EXIT\n" + "".join(
        f"{{ {command}\n}} < /dev/null; __code=$?; echo '{MARK}'; (exit $__code)\n"
        for command, _ in told
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**shell.environment, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=True,
    )
    printed = done.stdout.split(f"{MARK}\n")
    assert printed.pop() == ""
    for (command, promised), output in zip(told, printed, strict=True):
        assert fits(promised, output), f"$ {command}\n{output}"


def test_what_is_not_promised_does_not_fit() -> None:
    assert fits("a   1\n", "a      1  \n")
    assert not fits("a 1\n", "a 2\n")
    assert fits("one ... three\n...\n", "one two three\nfour\nfive\n")
    assert not fits("one ... three\n", "one two four\n")
    assert not fits("one\n", "one\ntwo\n")
    assert not fits("", "one\n")
    assert len(commands_of(PAGE.read_text(encoding="utf-8"))) > 20
