"""What the quick commands must not load: start-up time is counted in imports."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from cli.conftest import Shell

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
