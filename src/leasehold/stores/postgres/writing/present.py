"""Whether an application's transaction sees the store as it is, or as it was.

A transaction that is REPEATABLE READ or SERIALIZABLE sees what was committed before its first
statement, however long ago. A submit in it would be judged by a past state: a job that it waits for
may have ended since, and would never tell it; the store may have been moved, and the job would stay
behind. So another connection, which sees the present, is asked. It cannot be out of date: by then
the transaction has the store's turn, and keeps it until it ends.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from leasehold.errors import StoreBusyError
from leasehold.stores.postgres.writing.step import Step

if TYPE_CHECKING:
    from leasehold.stores.postgres.server.connection import SqlConnection
    from leasehold.stores.postgres.writing.database import Database

SEES_THE_PRESENT: Final = ("read committed", "read uncommitted")
"""The isolation levels in which each statement sees the last commits."""
GENERATIONS: Final = """
    SELECT store_id, queue_generation, settings_generation, alone_generation FROM store_state
"""
HAVE_ENDED: Final = """
    SELECT job.id, finished.seq IS NOT NULL FROM job LEFT JOIN finished USING (seq)
    WHERE job.id = ANY($1)
"""


def check(database: Database, step: Step, needs: Collection[str], isolation: str) -> None:
    """Raise StoreBusyError if what this write goes by has changed since its transaction began.

    `needs` has the ids of the jobs that it may make others wait for.
    """
    with database.beside_all() as db:
        row: Any = db.execute(GENERATIONS).fetchone()
        jobs = _ended(db, needs)
    store_id, *rules, alone = row
    found = step.found
    # Its own earlier submits are not committed yet: they only raise what it has found.
    has_passed = (
        store_id != found.store_id
        or rules[0] > found.queue_generation
        or rules[1] > found.settings_generation
        or (step.alone and alone > found.alone_generation)
        or not jobs.items() <= _ended(step.db, needs).items()
    )
    if has_passed:
        raise was_overtaken(database.address.shown, isolation)


def _ended(db: SqlConnection, ids: Collection[str]) -> dict[str, bool]:
    """Which of these jobs there are, and whether each has ended."""
    return dict(db.execute(HAVE_ENDED, (list(ids),)).fetchall()) if ids else {}


def was_overtaken(shown: str, isolation: str) -> StoreBusyError:
    """The error for a transaction that sees a past state."""
    return StoreBusyError(
        f"{shown}: other writes came between the beginning of this {isolation.upper()} "
        "transaction and its submit: roll back, and repeat the whole transaction"
    )
