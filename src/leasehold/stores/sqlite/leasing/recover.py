"""Workers, whose lives are locks on files, and taking jobs back from them.

Guard of the take: the row is still in `running` with the version that was read, in the same write.
See `tables.recover`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.lease import SweepReport
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.lives import Life
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Event
from leasehold.core.rules import recovery
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import HeldJob, report_of
from leasehold.stores.sqlite.disk.failures import of_files
from leasehold.stores.sqlite.disk.life import LockedLife
from leasehold.stores.sqlite.leasing import damage
from leasehold.stores.sqlite.leasing.ends import END_LEASE, Ends, Histories
from leasehold.stores.sqlite.reading.feed import FEED
from leasehold.stores.sqlite.rules.orders import QueueBook
from leasehold.stores.sqlite.schema.rows import problem_with
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.recover import (
    HeldRow,
    TableHoldings,
    TableRegistry,
    TableSweep,
    held_of,
)

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

# An unreadable life counts as none: no death proves such a lease lost, so it has to expire.
LIFE: Final = "iif(typeof(life) = 'integer', life, 0)"
_HELD_JOB: Final = f"""
    SELECT seq, id, lane, running.version, worker, {LIFE}, expires_at, heartbeat_at,
           running.attempts, allowance, max_retries + 1, cancel_reason
    FROM running JOIN job USING (seq)
"""
RUNNING: Final = "SELECT seq FROM running ORDER BY expires_at, seq"
STILL_LOST: Final = f"{_HELD_JOB} WHERE seq = ?"
HELD_UNDER: Final = f"{_HELD_JOB} WHERE id = ? AND running.version = ?"


class Holdings(TableHoldings, Histories):
    """The running jobs, to be taken from their holders."""

    held_under = HELD_UNDER
    ends = Ends

    def _end_lease(self, job: HeldRow) -> EndedLease:
        row: Any = self._step.execute(END_LEASE, (job.seq, job.version)).fetchone()
        return EndedLease._make(row)


def take_back_restored(step: Step) -> None:
    """Take back every running job, after a copy of the store was restored."""
    running = [seq for (seq,) in step.execute(RUNNING)]
    recovery.take_back_restored(Holdings(step), _held(step, running, set_aside=[]))


def _held(
    step: Step, jobs: Sequence[int], set_aside: list[Event]
) -> Iterator[tuple[HeldRow, HeldJob]]:
    """The given jobs that are running; unreadable ones are set aside, with their events."""
    for seq in jobs:
        problem = problem_with(step.db, seq)
        if problem is not None:
            decision = damage.set_aside(step, damage.Damaged(seq, problem))
            set_aside.extend([] if decision is None else [decision.event])
        elif (found := held_of(step.execute(STILL_LOST, (seq,)).fetchone())) is not None:
            yield found


LIFE_BITS: Final = 48
"""How many random bits distinguish the lives of one name."""


class Registry(TableRegistry):
    """The registry of a store's workers."""

    add = "INSERT OR REPLACE INTO worker VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0, $8, $9)"
    forget = "DELETE FROM worker WHERE id = ? AND life = ?"
    _database: Database

    def register(self, info: WorkerInfo) -> LockedLife:
        database = self._database
        life = Life(info.id, database.env.random.getrandbits(LIFE_BITS) + 1)
        try:
            locked = LockedLife(database.files.workers, life, partial(self._leave, life))
        except OSError as error:
            raise of_files(error, database.files.database) from error
        try:
            self._enter(info, life)
        except BaseException:
            locked.let_go()
            raise
        database.lives.begin(life)
        return locked


# `running` is small, so a reader simply reads all of it. An expiry beyond all possible leases
# counts as unreadable.
LOST: Final = f"""
    SELECT seq FROM running
    WHERE typeof(expires_at) <> 'integer' OR expires_at <= ?1
        OR expires_at > ?1 + {round(SECONDS_MAX) * 1_000_000}
        OR worker IN (SELECT value FROM json_each(?2))
    ORDER BY expires_at, seq
"""


class Sweep(TableSweep):
    """A sweep of a store."""

    queue_book = QueueBook
    registry = Registry
    feed = FEED
    lost = LOST
    life = LIFE
    _database: Database

    def run(self) -> SweepReport:
        self._database.put_right()
        return super().run()

    def _dead(self, db: Any) -> set[Life]:  # noqa: ARG002  # it is told by locks on files
        return self._database.deaths.find()

    def _bury(self, lives: Collection[Life]) -> None:
        self._database.deaths.bury(lives)

    def recover(self, step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
        set_aside: list[Event] = []
        held = _held(step, jobs, set_aside)
        lost = recovery.sweep(Holdings(step), held, now=step.now, dead=dead)
        return report_of(lost, set_aside)
