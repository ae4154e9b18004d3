"""Having worker processes replaced, from another shell."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import Literal

import msgspec

from leasehold.cli.workers.pidfile import PidFile, pid_files
from leasehold.cli.workers.stopping import LOOK_SECONDS
from leasehold.env import SYSTEM


class CrewRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a crew that was to replace its workers."""

    pid: int
    restarted: bool
    why_not: Literal["", "failed", "timeout", "gone"] = ""


def renew(crews: Sequence[PidFile], folder: str, *, timeout_seconds: float) -> list[CrewRenewal]:
    """Ask these crews to replace their workers, and wait until they have, or cannot."""
    for crew in crews:
        crew.send_signal(signal.SIGUSR1)
    clock, pause = SYSTEM.clock, threading.Condition()
    end = clock.monotonic() + timeout_seconds
    ended: dict[int, CrewRenewal] = {}
    while True:
        now = {file.record.pid: file for file in pid_files(folder) if not file.is_stale}
        for crew in crews:
            found = _found(crew, now.get(crew.record.pid))
            if found is not None:
                ended.setdefault(found.pid, found)
        if len(ended) == len(crews) or clock.monotonic() >= end:
            break
        with pause:
            clock.wait(pause, LOOK_SECONDS)
    return [
        ended.get(crew.record.pid)
        or CrewRenewal(pid=crew.record.pid, restarted=False, why_not="timeout")
        for crew in crews
    ]


def _found(before: PidFile, now: PidFile | None) -> CrewRenewal | None:
    """The result of a crew so far; None while it is at it."""
    pid = before.record.pid
    if now is None:
        return CrewRenewal(pid=pid, restarted=False, why_not="gone")
    if now.record.failed_renewals > before.record.failed_renewals:
        return CrewRenewal(pid=pid, restarted=False, why_not="failed")
    if now.record.renewals > before.record.renewals:
        return CrewRenewal(pid=pid, restarted=True)
    return None
