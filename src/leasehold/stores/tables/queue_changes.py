"""Changes to a queue that take more than one write: its rules, a purge, its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.model.budget import BURIED_AT_ONCE, batched
from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.records import Purged
from leasehold.core.model.search import JobFilter
from leasehold.core.rules import queue_orders
from leasehold.core.rules.queue_orders import Buried
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.queue_book import TableQueueBook
from leasehold.stores.tables.queues import TableQueues
from leasehold.stores.tables.rebalance import SOME_RESCORING
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep


class QueueChanges:
    """Changes of queues in a store that keeps its books in this way."""

    def __init__(self, database: TableDatabase, book: type[TableQueueBook]) -> None:
        self._database = database
        self._book = book

    def change(self, queue: str, verb: Callable[[TableQueueBook], None]) -> QueueInfo:
        """Change what counts in a queue, and place its jobs accordingly."""

        def operation(step: TableStep) -> QueueInfo:
            book = self._book(step)
            verb(book)
            return book.info(queue)

        with self._database.read() as db:
            unfinished = db.execute(SOME_RESCORING).fetchone() is not None
        if unfinished:
            # An earlier change is finished first: it leaves less for this one to do.
            self._database.rebalance_the_rest()
        info = self._database.write(operation)
        self._database.rebalance_the_rest()
        return info

    def purge(self, queue: str, where: JobFilter, limit: int, actor: str) -> Purged:
        """Delete some of a queue's jobs: a reader finds them, one write takes them."""
        with self._database.read() as db:
            jobs, more = self._queues(db).to_purge(queue, where, limit)
        return self._database.write(
            lambda step: queue_orders.purge(self._book(step), queue, where, jobs, actor, more=more)
        )

    def delete(self, queue: str, actor: str, *, force: bool) -> int:
        """Delete a queue; answers how many jobs went with it."""
        # First it is marked: from then on nothing comes in and nothing is leased, and should this
        # call be cut short, any sweep goes on.
        is_gone = self._database.write(
            lambda step: queue_orders.delete(self._book(step), queue, actor, force=force)
        )
        return 0 if is_gone else self._bury(queue)

    def finish_deleting(self) -> None:
        """Go on where a call that deletes a queue was cut short."""
        with self._database.read() as db:
            unfinished = self._queues(db).being_deleted()
        for queue in unfinished:
            self._bury(queue)

    def _bury(self, queue: str) -> int:
        """Finish deleting a queue, so many jobs in each write; answers how many it buried."""
        buried = 0
        done = False
        while not done:
            with self._database.read() as db:
                found = self._queues(db).waiting_in(queue)
            for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
                more, done = self._bury_some(queue, jobs, buried)
                buried += more
        return buried

    def _bury_some(self, queue: str, jobs: Sequence[int], buried: int) -> Buried:
        return self._database.write(
            lambda step: queue_orders.bury(self._book(step), queue, jobs, buried)
        )

    def _queues(self, db: SqlConnection) -> TableQueues:
        return self._book.queues(db, self._database.now(db))
