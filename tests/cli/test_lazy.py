"""Start-up time counts: what draws tables is not loaded before a table is drawn."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from leasehold.cli.commands import COMMANDS
from leasehold.cli.root import load
for entry in COMMANDS.values():
    load(entry)
    assert "rich" not in sys.modules, entry
"""


def test_no_command_loads_rich_before_it_needs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
