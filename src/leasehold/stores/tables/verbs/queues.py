"""Queues and schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from leasehold.core.model.budget import PURGE_AT_ONCE
from leasehold.core.model.job import Job
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import Purged
from leasehold.core.model.schedule import Fired, Schedule, ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.rules import queue_orders, scheduling
from leasehold.errors import QueueFullError
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.queues import QueueChanges, TableQueueBook, TableQueues
from leasehold.stores.tables.schedules import TableSchedules
from leasehold.stores.tables.statements import SqlConnection

T = TypeVar("T")


class QueueVerbs:
    """Queues and their rules."""

    _database: TableDatabase
    _queue_book: type[TableQueueBook]

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        return self._changes.change(
            queue, lambda book: queue_orders.create(book, queue, config, actor)
        )

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        return self._changes.change(
            queue, lambda book: queue_orders.update(book, queue, changes, actor)
        )

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._changes.change(
            queue, lambda book: queue_orders.set_state(book, queue, state, actor)
        )

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        return self._changes.purge(queue, where, limit, actor)

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        return self._changes.delete(queue, actor, force=force)

    def queue_info(self, queue: str) -> QueueInfo | None:
        return self._database.look(lambda db: self._queues(db).info(queue))

    def list_queues(self) -> list[QueueInfo]:
        return self._database.look(lambda db: self._queues(db).infos())

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._database.look(lambda db: self._queues(db).key_info(queue, key))

    @property
    def _changes(self) -> QueueChanges:
        return QueueChanges(self._database, self._queue_book)

    def _queues(self, db: SqlConnection) -> TableQueues:
        return self._queue_book.queues(db, self._database.now(db))


class ScheduleVerbs:
    """Schedules."""

    _database: TableDatabase
    _schedules: type[TableSchedules]

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        draft.check()
        return self._on_shelf(lambda shelf: scheduling.set_schedule(shelf, draft, actor))

    def schedules(self) -> list[Schedule]:
        return self._database.look(self._schedules.rows.every)

    def get_schedule(self, name: str) -> Schedule | None:
        return self._database.look(lambda db: self._schedules.rows.find(db, name))

    def remove_schedule(self, name: str, *, actor: str) -> Schedule:
        return self._on_shelf(lambda shelf: scheduling.remove_schedule(shelf, name, actor))

    def pause_schedule(self, name: str, *, paused: bool, actor: str) -> Schedule:
        return self._on_shelf(lambda shelf: scheduling.pause_schedule(shelf, name, paused, actor))

    def run_schedule(self, name: str, *, job_id: str, actor: str) -> Job:
        answer = self._on_shelf(lambda shelf: shelf.run(name, job_id, actor))
        if isinstance(answer, QueueFullError):
            raise answer
        return answer

    def fire_schedules(self) -> Fired:
        return self._on_shelf(lambda shelf: shelf.fire())

    def _on_shelf(self, operation: Callable[[TableSchedules], T]) -> T:
        return self._database.write(lambda step: operation(self._schedules(self._database, step)))
