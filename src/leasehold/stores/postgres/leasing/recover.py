"""Workers, whose lives are session locks, and taking jobs back from them.

Guard of the take: the row is still in `running` with the version that was read, in the same write.
See `tables.recover`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.lease import SweepReport
from leasehold.core.model.lives import Life
from leasehold.core.model.records import WorkerInfo
from leasehold.core.rules import recovery
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import HeldJob, report_of
from leasehold.stores.postgres.leasing.ends import END_LEASES, Ends, Histories
from leasehold.stores.postgres.reading.feed import FEED
from leasehold.stores.postgres.rules.orders import QueueBook
from leasehold.stores.postgres.server.connection import SqlConnection, unnested
from leasehold.stores.postgres.server.failures import translated
from leasehold.stores.postgres.server.life import SessionLife
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.recover import (
    HeldRow,
    TableHoldings,
    TableRegistry,
    TableSweep,
    held_of,
)

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

_HELD_JOB: Final = """
    SELECT seq, id, lane, running.version, worker, life, expires_at, heartbeat_at, running.attempts,
           allowance, max_retries + 1, cancel_reason
    FROM running JOIN job USING (seq)
"""
# A job whose task has its transaction open is not lost: it is skipped.
STILL_LOST: Final = f"""
    {_HELD_JOB} WHERE seq = ANY($1) ORDER BY expires_at, seq FOR UPDATE OF job SKIP LOCKED
"""
RUNNING: Final = f"{_HELD_JOB} ORDER BY expires_at, seq FOR UPDATE OF job SKIP LOCKED"
# It is not waited for either: the caller is told to try again.
HELD_UNDER: Final = f"{_HELD_JOB} WHERE id = $1 AND running.version = $2 FOR UPDATE OF job NOWAIT"


class Holdings(TableHoldings, Histories):
    """The running jobs, to be taken from their holders."""

    held_under = HELD_UNDER
    ends = Ends

    def _end_lease(self, job: HeldRow) -> EndedLease:
        row: Any = self._step.execute(END_LEASES, ([job.seq], [job.version])).fetchone()
        return EndedLease._make(row)


def take_back_restored(step: Step) -> None:
    """Take back every running job, after a dump of the store was restored."""
    recovery.take_back_restored(Holdings(step), _held(step, RUNNING, ()))


def _held(step: Step, statement: str, values: Sequence[Any]) -> list[tuple[HeldRow, HeldJob]]:
    rows = step.execute(statement, values).fetchall()
    return [each for row in rows if (each := held_of(row)) is not None]


ENTERED: Final = "SELECT id, life FROM worker WHERE life = ANY($1)"


class Registry(TableRegistry):
    """The registry of a store's workers."""

    add = """
        INSERT INTO worker VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, false, $9)
        ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid,
            queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots,
            started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at,
            life = excluded.life, is_consumer = false, app_version = excluded.app_version,
            held_since = excluded.held_since
    """
    forget = f"""
        DELETE FROM worker USING {unnested("text integer")} AS over (id, life)
        WHERE worker.id = over.id AND worker.life = over.life
    """
    _database: Database

    def register(self, info: WorkerInfo) -> SessionLife:
        database = self._database
        # The lock is taken before the worker is in the registry, so that it is never seen there
        # with its lock free.
        with translated(database.address):
            life = Life(info.id, database.session.begin_life())

        def leave() -> None:
            database.entered.pop(life, None)
            self._leave(life)
            database.session.let_go(life.number)

        try:
            self._enter(info, life)
        except BaseException:
            database.session.let_go(life.number)
            raise
        database.lives.begin(life)
        database.entered[life] = info
        return SessionLife(database.session.fileno, leave)

    def missing(self, db: SqlConnection) -> set[Life]:
        """The workers of this process that have lost their entries: their session was cut off for
        so long that they were believed dead.
        """
        lives = set(self._database.entered)
        if not lives:
            return lives
        return lives - {Life(*row) for row in db.execute(ENTERED, ([n for _, n in lives],))}

    def enter_again(self, lives: Collection[Life]) -> None:
        """Enter them anew; otherwise nobody would see them, and their death could not be proved."""
        for life in lives:
            info = self._database.entered.get(life)
            if info is not None:
                self._enter(info, life)


# `running` is small, so a reader simply reads all of it.
LOST: Final = (
    "SELECT seq FROM running WHERE expires_at <= $1 OR worker = ANY($2) ORDER BY expires_at, seq"
)


class Sweep(TableSweep):
    """A sweep of a store."""

    queue_book = QueueBook
    registry = Registry
    feed = FEED
    lost = LOST
    _database: Database

    def _dead(self, db: SqlConnection) -> set[Life]:
        return self._database.deaths.find(db)

    def recover(self, step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
        held = _held(step, STILL_LOST, (list(jobs),))
        return report_of(recovery.sweep(Holdings(step), held, now=step.now, dead=dead))
