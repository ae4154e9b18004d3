"""A process that moves a store and is killed on its way."""

from __future__ import annotations

import os
import signal
import sys

from leasehold.connect import connect
from leasehold.core.rules import moving
from leasehold.env import SYSTEM


def main(source: str, target: str, kill_at: str) -> None:
    left = int(kill_at)

    def progress(phase: str, table: str, rows: int) -> None:  # its own names
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    moving.ROWS_AT_ONCE = 3  # type: ignore[misc]  # small steps, so that there are many
    moving.move(
        connect(source), connect(target), env=SYSTEM, actor="me", running="copy", progress=progress
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
