"""The registry: workers, which enter it themselves, and consumers, which their leases enter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.lives import Life, remote_life
from leasehold.core.model.records import WorkerInfo
from leasehold.stores.sqlite.disk.failures import of_files
from leasehold.stores.sqlite.disk.life import LockedLife
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step

ADD: Final = "INSERT OR REPLACE INTO worker VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)"
# Guard: the entry is that life's own, and not one of its successor under the same name.
FORGET_WORKER: Final = "DELETE FROM worker WHERE id = ? AND life = ?"
# Guard: the entry is that consumer's own, and not one of its successor under the same name; nor
# does another consumer of that name hold a job.
FORGET_CONSUMER: Final = """
    DELETE FROM worker WHERE id = ? AND is_consumer AND host IS ? AND pid IS ?
        AND id NOT IN (SELECT worker FROM running)
"""
# Guard of the update: the entry is not a registered worker's.
NOTE_CONSUMER: Final = """
    INSERT INTO worker VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, 0, NULL)
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid,
        queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots,
        heartbeat_at = excluded.heartbeat_at
    WHERE is_consumer
"""

LIFE_BITS: Final = 48
"""So many bits of chance tell the lives of one name apart."""


def register_worker(database: Database, info: WorkerInfo) -> LockedLife:
    """Enter a worker; it is in the registry until its life is closed, or proved to be over."""
    life = Life(info.id, database.env.random.getrandbits(LIFE_BITS) + 1)
    try:
        locked = LockedLife(database.files.workers, life, partial(_leave, database, life))
    except OSError as error:
        raise of_files(error, database.files.database) from error
    try:
        _enter(database, info, life)
    except BaseException:
        locked.let_go()
        raise
    database.lives.begin(life)
    return locked


class RemoteLife:
    """A worker's entry that no lock of this machine stands for."""

    lock_fd: int | None = None

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def close(self) -> None:
        self._leave()


def register_remote_worker(database: Database, info: WorkerInfo, *, is_entered: bool) -> RemoteLife:
    """Enter a worker that is known by its own words only."""
    life = remote_life(info)
    if not is_entered:
        _enter(database, info, life)
    return RemoteLife(partial(_leave, database, life))


def _enter(database: Database, info: WorkerInfo, life: Life) -> None:
    def enter(step: Step) -> None:
        served = (_document(info.queues), _document(info.tasks))
        row = (info.id, info.host, info.pid, *served, info.slots, step.now, step.now)
        step.execute(ADD, (*row, life.number, info.app_version))

    database.write(enter)


def _leave(database: Database, life: Life) -> None:
    database.write(lambda step: step.execute(FORGET_WORKER, life).fetchall())
    database.lives.end(life)


def note_consumer(step: Step, request: LeaseRequest) -> None:
    """Enter the leasing worker as a consumer, or note that it still is one, or is one no more."""
    consumer = request.consumer
    assert consumer is not None
    if not consumer.queues:
        step.execute(FORGET_CONSUMER, (request.worker, consumer.host, consumer.pid))
        return
    if request.limit <= 0:
        return
    served = (_document(consumer.queues), _document(request.tasks or ()))
    row = (request.worker, consumer.host, consumer.pid, *served, request.limit)
    step.execute(NOTE_CONSUMER, (*row, step.now, step.now))


def _document(names: tuple[str, ...]) -> str:
    return msgspec.json.encode(names).decode()
