"""A forked child of an application with workers: they, and all they hold, stay the parent's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("what", ["exit", "shut down", "leave the block", "multiprocessing", "use"])
def test_the_child_ends_at_once_and_the_parents_workers_go_on(
    tmp_path: Path, store: str, what: str
) -> None:
    folder = tmp_path / "child"
    folder.mkdir()
    url = "memory://" if store == "memory" else str(tmp_path / "jobs.db")
    subprocess.run(
        [sys.executable, "-m", "support.forked_application", url, str(folder), what],
        cwd=TESTS,
        check=True,
        timeout=60,
    )
