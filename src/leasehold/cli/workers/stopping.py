"""Stopping worker processes from another shell."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from leasehold.cli.workers.pidfile import PidFile
from leasehold.env import SYSTEM

LOOK_SECONDS: Final = 0.05
SILENT_SECONDS: Final = 1.0
"""How long somebody waits without a word."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one process that was to stop."""

    pid: int
    role: str
    worker_id: str | None
    stopped: bool
    """Whether it is gone by now."""
    killed: bool
    """Whether it had to be killed: its jobs are taken back by the next sweep."""


def stop(
    targets: Sequence[PidFile],
    everything: Sequence[PidFile],
    *,
    timeout_seconds: float,
    force: bool,
    on_wait: Callable[[], None],
) -> list[Stopped]:
    """Ask these processes to stop and wait until they are gone; with `force`, kill the rest.

    `everything` is where the workers of a crew are found, when it must be killed; `on_wait` is
    called if they are not gone at once.
    """
    for target in targets:
        target.send_signal(signal.SIGTERM)
    left = _wait_until_gone(targets, min(timeout_seconds, SILENT_SECONDS))
    if left and timeout_seconds > SILENT_SECONDS:
        on_wait()
        left = _wait_until_gone(left, timeout_seconds - SILENT_SECONDS)
    killed: list[PidFile] = []
    if left and force:
        # The crew first: it would start others in place of its workers.
        pids = {target.record.pid for target in left}
        members = [file for file in everything if file.record.crew_pid in pids]
        killed = [*left, *(file for file in members if file not in left)]
        for target in killed:
            target.send_signal(signal.SIGKILL)
        left = _wait_until_gone(killed, timeout_seconds=max(timeout_seconds, 10))
        for target in killed:
            if target not in left:
                target.remove()
    return [
        Stopped(
            pid=target.record.pid,
            role=target.record.role,
            worker_id=target.record.worker_id,
            stopped=target not in left,
            killed=target in killed,
        )
        for target in targets
    ]


def _wait_until_gone(targets: Iterable[PidFile], timeout_seconds: float) -> list[PidFile]:
    """The processes that are still there when the time is up."""
    clock, pause = SYSTEM.clock, threading.Condition()
    end = clock.monotonic() + timeout_seconds
    left = [target for target in targets if not target.is_stale]
    while left and clock.monotonic() < end:
        with pause:
            clock.wait(pause, LOOK_SECONDS)
        left = [target for target in left if not target.is_stale]
    return left
