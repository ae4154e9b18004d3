"""Queues and their rules; `core.rules.queue_orders` decides.

A change of rules, a purge and an end may take many writes: jobs are placed anew, found, buried.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leasehold.core.model.budget import BURIED_AT_ONCE, PURGE_AT_ONCE, batched
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import Purged
from leasehold.core.model.search import JobFilter
from leasehold.core.rules import queue_facts, queue_orders
from leasehold.core.rules.queue_facts import QueueReader
from leasehold.core.rules.queue_orders import Buried, QueueBook
from leasehold.stores.verbs.atomic import AtomicStore


class QueueVerbs(AtomicStore):
    """Changes of queues, and how they stand."""

    _queue_book: Callable[[Any], QueueBook[Any]]

    @abstractmethod
    def _queue_reader(self, look: Any) -> QueueReader[Any]: ...

    @abstractmethod
    def _place_anew(self, queue: str) -> None:
        """Place jobs as the queue's rules say by now; others write in between."""

    # -- rules -------------------------------------------------------------------------------

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        return self._change(queue, lambda book: queue_orders.create(book, queue, config, actor))

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        return self._change(queue, lambda book: queue_orders.update(book, queue, changes, actor))

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._change(queue, lambda book: queue_orders.set_state(book, queue, state, actor))

    def _change(self, queue: str, order: Callable[[QueueBook[Any]], None]) -> QueueInfo:
        """Change what counts in a queue, and place its jobs accordingly."""

        def change(write: Any) -> QueueInfo:
            book = self._queue_book(write)
            order(book)
            return book.info(queue)

        info = self._write(change)
        self._place_anew(queue)
        return info

    # -- jobs --------------------------------------------------------------------------------

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        fitting = queue_orders.to_purge(queue, where)
        if fitting is None:
            return Purged(0, more=False)
        # All jobs may have to be looked at, so a look finds them, and one write takes them.
        jobs, more = self._walk(lambda look: self._queue_reader(look).find(fitting, limit))
        return self._write(
            lambda write: queue_orders.purge(
                self._queue_book(write), queue, where, jobs, actor, more=more
            )
        )

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        # First it is marked: from then on nothing comes in and nothing is leased, and should this
        # call be cut short, any sweep goes on.
        is_gone = self._write(
            lambda write: queue_orders.delete(self._queue_book(write), queue, actor, force=force)
        )
        return 0 if is_gone else self._bury(queue)

    def _finish_deleting(self) -> None:
        """Go on where a call that deletes a queue was cut short."""
        for queue in self._walk(lambda look: queue_facts.being_deleted(self._queue_reader(look))):
            self._bury(queue)

    def _bury(self, queue: str) -> int:
        """Finish deleting a queue, so many jobs in each write; answers how many it buried."""
        buried = 0
        done = False
        while not done:
            found = self._walk(lambda look: self._queue_reader(look).waiting_in(queue))
            for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
                more, done = self._bury_some(queue, jobs, buried)
                buried += more
        return buried

    def _bury_some(self, queue: str, jobs: Sequence[Any], buried: int) -> Buried:
        return self._write(
            lambda write: queue_orders.bury(self._queue_book(write), queue, jobs, buried)
        )

    # -- looks -------------------------------------------------------------------------------

    def queue_info(self, queue: str) -> QueueInfo | None:
        return next(iter(self._infos(queue)), None)

    def list_queues(self) -> list[QueueInfo]:
        return self._infos(None)

    def _infos(self, queue: str | None) -> list[QueueInfo]:
        return self._look(lambda look: queue_facts.infos(self._queue_reader(look), queue))

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._look(lambda look: queue_facts.key_info(self._queue_reader(look), queue, key))
