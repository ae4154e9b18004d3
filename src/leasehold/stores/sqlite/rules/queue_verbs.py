"""The store's verbs about queues with rules of their own; what they do is in queues.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from leasehold.core.budget import BURIED_AT_ONCE, PURGE_AT_ONCE, batched
from leasehold.core.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.queue_orders import (
    Buried,
    bury,
    create,
    delete,
    purge,
    set_state,
    update,
)
from leasehold.core.queue_rules import Purged
from leasehold.core.search import JobFilter
from leasehold.stores.sqlite.leasing.rebalance import SOME_RESCORING
from leasehold.stores.sqlite.rules import queues
from leasehold.stores.sqlite.rules.queues import QueueBook
from leasehold.stores.sqlite.writing.foundation import Foundation
from leasehold.stores.sqlite.writing.step import Step


class KeepsQueues(Foundation):
    """Create, change, pause, purge and delete queues."""

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        return self._change_queue(queue, lambda book: create(book, queue, config, actor))

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        return self._change_queue(queue, lambda book: update(book, queue, changes, actor))

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._change_queue(queue, lambda book: set_state(book, queue, state, actor))

    def _change_queue(self, queue: str, verb: Callable[[QueueBook], None]) -> QueueInfo:
        def operation(step: Step) -> QueueInfo:
            verb(QueueBook(step))
            return queues.info_inside(step, queue)

        with self._read() as db:
            unfinished = db.execute(SOME_RESCORING).fetchone() is not None
        if unfinished:
            # What an earlier change began is finished first: it leaves less for this one to do.
            self._rebalance_the_rest()
        info = self._write(operation)
        self._rebalance_the_rest()
        return info

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        with self._read() as db:
            jobs, more = queues.to_purge(db, queue, where, limit)
        return self._write(
            lambda step: purge(QueueBook(step), queue, where, jobs, actor, more=more)
        )

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        # First it is marked: from then on nothing comes in and nothing is leased, and should this
        # call be cut short, any sweep goes on.
        if self._write(lambda step: delete(QueueBook(step), queue, actor, force=force)):
            return 0
        return self._bury(queue)

    def _finish_deleting(self) -> None:
        with self._read() as db:
            unfinished = queues.being_deleted_in(db)
        for queue in unfinished:
            self._bury(queue)

    def _bury(self, queue: str) -> int:
        """Finish deleting a queue, so many jobs in each write; answers how many it buried."""
        buried = 0
        done = False
        while not done:
            with self._read() as db:
                found = queues.waiting_in(db, queue)
            for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
                more, done = self._write(partial(_bury, queue, jobs, buried))
                buried += more
        return buried

    def queue_info(self, queue: str) -> QueueInfo | None:
        with self._read() as db:
            return next(iter(queues.infos(db, self._clock(db), queue)), None)

    def list_queues(self) -> list[QueueInfo]:
        with self._read() as db:
            return queues.infos(db, self._clock(db))

    def running_of_key(self, queue: str, key: str) -> int:
        with self._read() as db:
            return queues.running_of_key(db, queue, key)


def _bury(queue: str, jobs: Sequence[int], buried: int, step: Step) -> Buried:
    return bury(QueueBook(step), queue, jobs, buried)
