"""Taking running jobs back from their holders.

Guard of the take: the row is still in `running` with the version that was read, in the same write.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from leasehold.core.model.lease import SweepReport
from leasehold.core.model.lives import Life
from leasehold.core.rules import recovery
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import HeldJob, report_of
from leasehold.stores.postgres.leasing.ends import END_LEASES, Ends, Histories
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.recover import HeldRow, TableHoldings, held_of

_HELD_JOB: Final = """
    SELECT seq, id, lane, running.version, worker, life, expires_at, heartbeat_at, running.attempts,
           allowance, max_retries + 1, cancel_reason
    FROM running JOIN job USING (seq)
"""
# A job in whose transaction its task is just now is not lost: it is passed over.
STILL_LOST: Final = f"""
    {_HELD_JOB} WHERE seq = ANY($1) ORDER BY expires_at, seq FOR UPDATE OF job SKIP LOCKED
"""
RUNNING: Final = f"{_HELD_JOB} ORDER BY expires_at, seq FOR UPDATE OF job SKIP LOCKED"
# Nor is it waited for: the caller is told to try again.
HELD_UNDER: Final = f"{_HELD_JOB} WHERE id = $1 AND running.version = $2 FOR UPDATE OF job NOWAIT"


class Holdings(TableHoldings, Histories):
    """The running jobs, to be taken from their holders."""

    held_under = HELD_UNDER
    ends = Ends

    def _end_lease(self, job: HeldRow) -> EndedLease:
        row: Any = self._step.execute(END_LEASES, ([job.seq], [job.version])).fetchone()
        return EndedLease._make(row)


def recover(step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
    """Take back those of these jobs that are lost."""
    held = _held(step, STILL_LOST, (list(jobs),))
    return report_of(recovery.sweep(Holdings(step), held, now=step.now, dead=dead))


def take_back_restored(step: Step) -> None:
    """Take back every running job, after a dump of the store was restored."""
    recovery.take_back_restored(Holdings(step), _held(step, RUNNING, ()))


def _held(step: Step, statement: str, values: Sequence[Any]) -> list[tuple[HeldRow, HeldJob]]:
    rows = step.execute(statement, values).fetchall()
    return [each for row in rows if (each := held_of(row)) is not None]
