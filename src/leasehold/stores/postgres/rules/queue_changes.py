"""What is done to a queue in more than one write: its changes, a purge, its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from leasehold.core.model.budget import BURIED_AT_ONCE, batched
from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.records import Purged
from leasehold.core.model.search import JobFilter
from leasehold.core.rules import queue_orders
from leasehold.core.rules.queue_orders import Buried
from leasehold.stores.postgres.rules import queues
from leasehold.stores.postgres.rules.queues import QueueBook
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.rebalance import SOME_RESCORING


def change(database: Database, queue: str, verb: Callable[[QueueBook], None]) -> QueueInfo:
    """Change what counts in a queue, and place its jobs accordingly."""

    def operation(step: Step) -> QueueInfo:
        verb(QueueBook(step))
        return queues.info_inside(step, queue)

    with database.read() as db:
        unfinished = db.execute(SOME_RESCORING).fetchone() is not None
    if unfinished:
        # What an earlier change began is finished first: it leaves less for this one to do.
        database.rebalance_the_rest()
    info = database.write(operation)
    database.rebalance_the_rest()
    return info


def purge(database: Database, queue: str, where: JobFilter, limit: int, actor: str) -> Purged:
    """Delete some of a queue's jobs: a reader finds them, one write takes them."""
    with database.read() as db:
        jobs, more = queues.to_purge(db, queue, where, limit)
    return database.write(
        lambda step: queue_orders.purge(QueueBook(step), queue, where, jobs, actor, more=more)
    )


def delete(database: Database, queue: str, actor: str, *, force: bool) -> int:
    """Delete a queue; answers how many jobs went with it."""
    # First it is marked: from then on nothing comes in and nothing is leased, and should this
    # call be cut short, any sweep goes on.
    if database.write(lambda step: queue_orders.delete(QueueBook(step), queue, actor, force=force)):
        return 0
    return _bury(database, queue)


def finish_deleting(database: Database) -> None:
    """Go on where a call that deletes a queue was cut short."""
    with database.read() as db:
        unfinished = queues.being_deleted_in(db)
    for queue in unfinished:
        _bury(database, queue)


def _bury(database: Database, queue: str) -> int:
    """Finish deleting a queue, so many jobs in each write; answers how many it buried."""
    buried = 0
    done = False
    while not done:
        with database.read() as db:
            found = queues.waiting_in(db, queue)
        for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
            more, done = database.write(partial(_bury_some, queue, jobs, buried))
            buried += more
    return buried


def _bury_some(queue: str, jobs: Sequence[int], buried: int, step: Step) -> Buried:
    return queue_orders.bury(QueueBook(step), queue, jobs, buried)
