"""How the worker processes of a crew end: in good order, crashed, or killed because they hang."""

from __future__ import annotations

import contextlib
import math
import signal
import subprocess
from typing import Final

PAUSE_SECONDS_FIRST: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0
REAP_SECONDS: Final = 10.0
MARGIN_SECONDS: Final = 14.0
"""How long, after its grace, a process may take to hand back its jobs and close its store. With the
grace that is the default it is less than the 45 s that the guide gives to systemd and containers.
"""
LOOK_SECONDS_MAX: Final = 3600.0


class Deadlines:
    """When the processes that were told to stop have to be gone."""

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._ends: dict[int, float] = {}

    def told(self, pid: int, now: float, *, at_once: bool = False) -> None:
        """A process was told to stop; a second time never gives it longer."""
        end = now + MARGIN_SECONDS + (0.0 if at_once else self._grace_seconds)
        self._ends[pid] = min(end, self._ends.get(pid, end))

    def forget(self, pid: int) -> None:
        self._ends.pop(pid, None)

    def next_look(self, now: float) -> float | None:
        """When to look for missed ones; None if none can be missed."""
        if not self._ends:
            return None
        # The system refuses to wait for weeks at once.
        return min(*self._ends.values(), now + LOOK_SECONDS_MAX)

    def missed(self, now: float) -> list[int]:
        """The processes that should be gone by now."""
        return [pid for pid, end in self._ends.items() if end <= now]


def pause_after(crashes: int) -> float:
    return min(math.ldexp(PAUSE_SECONDS_FIRST, min(crashes, 16)), PAUSE_SECONDS_MAX)


def reap(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        # It has said good-bye, and something in it does not let go.
        process.kill()
        return process.wait()


def how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
