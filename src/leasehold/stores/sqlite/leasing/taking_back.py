"""Taking running jobs back from their holders.

Guard of the take: the row is still in `running` with the version that was read, in the same write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from leasehold.core.model.lease import SweepReport
from leasehold.core.model.lives import Life
from leasehold.core.model.status import Event
from leasehold.core.rules import recovery
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import HeldJob, report_of
from leasehold.stores.sqlite.leasing import damage
from leasehold.stores.sqlite.leasing.ends import END_LEASE, Ends, Histories
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.recover import HeldRow, TableHoldings, held_of

# A life that cannot be read is no life: no death proves such a lease lost, and it waits to expire.
LIFE: Final = "iif(typeof(life) = 'integer', life, 0)"
_HELD_JOB: Final = f"""
    SELECT seq, id, lane, running.version, worker, {LIFE}, expires_at, heartbeat_at,
           running.attempts, allowance, max_retries + 1, cancel_reason
    FROM running JOIN job USING (seq)
"""  # noqa: S608  # our own names
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


def recover(step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
    """Take back those of these jobs that are lost."""
    set_aside: list[Event] = []
    held = _held(step, jobs, set_aside)
    events = recovery.sweep(Holdings(step), held, now=step.now, dead=dead)
    return report_of(events + set_aside)


def take_back_restored(step: Step) -> None:
    """Take back every running job, after a copy of the store came back."""
    running = [seq for (seq,) in step.execute(RUNNING)]
    recovery.take_back_restored(Holdings(step), _held(step, running, set_aside=[]))


def _held(
    step: Step, jobs: Sequence[int], set_aside: list[Event]
) -> Iterator[tuple[HeldRow, HeldJob]]:
    """Those of these jobs that run; jobs that cannot be read are set aside, with their events."""
    for seq in jobs:
        problem = problem_with(step.db, seq)
        if problem is not None:
            decision = damage.set_aside(step, damage.Damaged(seq, problem))
            set_aside.extend([] if decision is None else [decision.event])
        elif (found := held_of(step.execute(STILL_LOST, (seq,)).fetchone())) is not None:
            yield found
