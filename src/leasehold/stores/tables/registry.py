"""The registry: workers, which enter it themselves, and consumers, which their leases enter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.lives import Life, remote_life
from leasehold.core.model.records import WorkerInfo, WorkerLife
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.step import TableStep

# Guard: the entry is that consumer's own, and not one of its successor under the same name; nor
# does another consumer of that name hold a job.
FORGET_CONSUMER: Final = """
    DELETE FROM worker WHERE id = $1 AND is_consumer
        AND host IS NOT DISTINCT FROM $2 AND pid IS NOT DISTINCT FROM $3
        AND id NOT IN (SELECT worker FROM running)
"""
# Guard of the update: the entry is not a registered worker's.
NOTE_CONSUMER: Final = """
    INSERT INTO worker
        (id, host, pid, queues, tasks, slots, started_at, heartbeat_at, is_consumer, life)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $7, true, 0)
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid,
        queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots,
        heartbeat_at = excluded.heartbeat_at
    WHERE worker.is_consumer
"""


class RemoteLife:
    """A worker's entry that no lock stands for."""

    lock_fd: int | None = None

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._is_over = False

    def close(self) -> None:
        if not self._is_over:
            self._leave()
            self._is_over = True


class TableRegistry(ABC):
    """The registry of a store's workers."""

    add: ClassVar[str]
    """Enters a worker in the place of any other of its name: the columns of the table from id to
    slots, the time now, the number of its life, and the version of its application."""
    forget: ClassVar[str]
    """For `many`: forgets lives. Guard: the entry is that life's own, and not one of its successor
    under the same name."""

    def __init__(self, database: Any) -> None:
        self._database: TableDatabase = database

    @abstractmethod
    def register(self, info: WorkerInfo) -> WorkerLife:
        """Enter a worker; it is in the registry until its life is closed, or proved to be over."""

    def register_remote(self, info: WorkerInfo, *, is_entered: bool) -> WorkerLife:
        """Enter a worker that is known by its own words only."""
        life = remote_life(info)
        if not is_entered:
            self._enter(info, life)
        return RemoteLife(partial(self._leave, life))

    def _enter(self, info: WorkerInfo, life: Life) -> None:
        def enter(step: TableStep) -> None:
            served = (_document(info.queues), _document(info.tasks))
            row = (info.id, info.host, info.pid, *served, info.slots, step.now, life.number)
            step.execute(self.add, (*row, info.app_version))

        self._database.write(enter)

    def _leave(self, life: Life) -> None:
        self._database.write(lambda step: self.forget_lives(step, [life]))
        self._database.lives.end(life)

    @classmethod
    def forget_lives(cls, step: TableStep, lives: Sequence[Life]) -> None:
        """Take the entries of these lives out."""
        step.many(cls.forget, lives)


def note_consumer(step: TableStep, request: LeaseRequest) -> None:
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
    step.execute(NOTE_CONSUMER, (*row, step.now))


def _document(names: tuple[str, ...]) -> str:
    return msgspec.json.encode(names).decode()
