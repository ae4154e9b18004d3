"""Entering a worker into the registry, together with its sign of life."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.core.model.records import WorkerInfo
from leasehold.stores.sqlite.disk.life import LockedLife
from leasehold.stores.sqlite.leasing.recover import FORGET_WORKER
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step

ADD: Final = "INSERT OR REPLACE INTO worker VALUES (?, ?, ?, ?, ?, ?, ?)"


def register(database: Database, info: WorkerInfo) -> LockedLife:
    """Enter a worker; it is in the registry until its life is closed, or proved to be over."""

    def enter(step: Step) -> None:
        queues = msgspec.json.encode(info.queues).decode()
        row = (info.id, info.host, info.pid, queues, info.slots, step.now, step.now)
        step.execute(ADD, row)

    def leave() -> None:
        database.write(lambda step: step.execute(FORGET_WORKER, (info.id,)).fetchall())

    life = LockedLife(database.files.workers, info.id, leave)
    try:
        database.write(enter)
    except BaseException:
        life.let_go()
        raise
    return life
