"""docs/cli.md on queueing and running: every command is executed, and prints what it says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
from pathlib import Path

from cli.conftest import Shell
from cli.crews import crews

__all__ = ["crews"]

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
PART = PAGE[PAGE.index("## Queue a command") : PAGE.index("## Status")]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_every_command_prints_what_the_page_says(crews: Shell) -> None:
    place = crews.folder / "bin"
    crews.nursery.install(place)
    environment = {**crews.environment, "PATH": f"{place}:{os.environ['PATH']}"}
    ran = 0
    for kind, text in BLOCK.findall(PART):
        if kind == "python":
            name, _, code = text.partition("\n")
            (crews.folder / name.removeprefix("# ")).write_text(code)
            continue
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, promised = step.partition("\n")
            said = subprocess.run(
                command,
                shell=True,
                cwd=crews.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            ).stdout
            assert doctest.OutputChecker().check_output(promised, said, OPTIONS), (command, said)
            ran += 1
    assert ran > 15
