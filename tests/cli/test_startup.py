"""What the quick commands must not load: start-up time is counted in imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Shell
from leasehold.cli.exits import Exit

HEAVY = {"rich", "asyncio", "multiprocessing", "importlib.metadata", "sqlite3", "subprocess"}


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--version"], HEAVY | {"apsw", "msgspec", "leasehold.core", "leasehold.queue"}),
        (["enqueue", "--", "true"], HEAVY | {"leasehold.worker.worker", "importlib.resources"}),
    ],
    ids=["version", "enqueue"],
)
def test_quick_commands_load_little(shell: Shell, arguments: list[str], unneeded: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "leasehold.cli", *arguments],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(re.findall(r"\|\s+([\w.]+)$", done.stderr, re.MULTILINE))
    assert "leasehold.cli.root" in loaded
    assert not loaded & unneeded


INTERRUPTED_IMPORT = """
import signal, sys

class Ring:
    def find_spec(self, name, path=None, target=None):
        if name == {inside!r}:
            signal.raise_signal(signal.SIGINT)

from leasehold.cli.main import main
sys.meta_path.insert(0, Ring())
main(["status"])
"""


@pytest.mark.parametrize("inside", ["click", "leasehold.cli.root"])
def test_ctrl_c_while_the_command_line_is_imported_shows_no_traceback(
    tmp_path: Path, inside: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT.format(inside=inside)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (ran.stderr, ran.returncode) == ("leasehold: interrupted\n", Exit.INTERRUPTED)
