"""Golden screens: every table as a person sees it, on terminals of 80 and of 120 columns.

After a change on purpose: `WRITE_SCREENS=1 python -m pytest tests/cli/test_screens.py`, and read
the difference.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cli.conftest import Shell
from cli.terminal import Terminal

HERE = Path(__file__).parent
LINES = 900


@pytest.mark.parametrize("columns", [80, 120])
def test_every_table_is_as_it_was(shell: Shell, columns: int) -> None:
    with Terminal(
        [sys.executable, str(HERE / "screens.py")],
        cwd=shell.folder,
        env=shell.environment,
        columns=columns,
        lines=LINES,
    ) as terminal:
        assert terminal.end() == 0, terminal.text
        seen = terminal.text + "\n"
    written = HERE / "screens" / f"{columns}.txt"
    if os.environ.get("WRITE_SCREENS"):
        written.write_text(seen, encoding="utf-8")
    assert seen == written.read_text(encoding="utf-8")
