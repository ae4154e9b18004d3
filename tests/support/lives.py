"""Workers that live and die inside one process."""

from __future__ import annotations

import os

from leasehold.core.model.records import WorkerInfo
from leasehold.env import EPOCH
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.life import LockedLife


def enter(store: SQLiteStore, worker: str) -> LockedLife:
    """Register a worker."""
    info = WorkerInfo(
        id=worker,
        host="h",
        pid=1,
        queues=("default",),
        slots=1,
        started_at=EPOCH,
        heartbeat_at=EPOCH,
    )
    life = store.register_worker(info)
    assert isinstance(life, LockedLife)
    return life


def die(life: LockedLife) -> None:
    """Let go of its lock without a word, as the kernel does when a process is killed."""
    assert life._fd is not None
    os.close(life._fd)
    life._fd = None
