"""How attempts end, as rows; records beyond their bound, and jobs that become pending again.

See `core.rules.ends`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from leasehold.core.rules.ends import GatheredEnds
from leasehold.core.rules.placing import PendingEntry
from leasehold.stores.tables.job_states import TableHistories
from leasehold.stores.tables.step import TableStep

SURPLUS_ATTEMPT: Final = """
    SELECT version FROM attempt WHERE seq = $1 ORDER BY version DESC LIMIT 1 OFFSET $2
"""
# An attempt record stands for two history events; they stay when the record itself has to go. The
# first one's message is then when the lease was to end.
KEEP_ITS_EVENTS: Final = """
    INSERT INTO event
    SELECT seq, leased_event, started_at, 3, 2, 3, number, worker, version,
           CAST(started_at + lease_micros AS TEXT)
        FROM attempt WHERE seq = $1 AND version <= $2
    UNION ALL
    SELECT seq, ended_event, ended_at, outcome, 3, after, attempts, worker, version, message
        FROM attempt WHERE seq = $1 AND version <= $2
"""
DROP_ATTEMPTS: Final = "DELETE FROM attempt WHERE seq = $1 AND version <= $2"
WHERE_IT_ENTERS: Final = """
    SELECT lane, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = job.seq), priority),
           created_at, deadline, parent_id
    FROM job WHERE seq = $1
"""

_TEXTS_OF_ATTEMPT: Final = slice(11, 15)
"""Where a row of `attempt` has messages."""
_LAST: Final = slice(-1, None)
"""Where those of `finished` and `waiting` have theirs."""


class TableEnds(GatheredEnds):
    """Ends of attempts of one write."""

    __slots__ = ("_step",)
    histories: ClassVar[type[TableHistories]]
    insert_attempts: ClassVar[str]
    """For `many`, like the next two."""
    count_failures: ClassVar[str]
    insert_waiting: ClassVar[str]

    def __init__(self, step: Any) -> None:
        super().__init__(step.now, step.settings.attempt_records_max, step.measured)
        self._step: TableStep = step

    def write(self) -> None:
        """Write it all."""
        step = self._step
        step.attempts_failed(self.errors)
        step.many(self.insert_attempts, step.storable_rows(self.attempts, _TEXTS_OF_ATTEMPT))
        if self.failed:
            step.many(self.count_failures, self.failed)
        for seq in self.surplus:
            trim_attempts(step, seq)
        step.many(self.histories.insert_finished, step.storable_rows(self.finished, _LAST))
        step.jobs_ended(self.ended)
        if self.waiting or self.again:
            step.many(self.insert_waiting, step.storable_rows(self.waiting, _LAST))
            step.due_at(due for _, _, due, *_ in self.waiting)
            self.histories.ready(step).enter([entry(step, *each) for each in self.again])
            step.hints.ready = True
        self.count(step)


def trim_attempts(step: TableStep, seq: int) -> None:
    """Drop a job's oldest records of attempts beyond their bound, and keep their events."""
    surplus: Any = step.execute(
        SURPLUS_ATTEMPT, (seq, step.settings.attempt_records_max)
    ).fetchone()
    if surplus is not None:
        step.execute(KEEP_ITS_EVENTS, (seq, surplus[0]))
        step.execute(DROP_ATTEMPTS, (seq, surplus[0]))


def entry(step: TableStep, seq: int, version: int, attempts: int, events: int) -> PendingEntry:
    """A job that is to be pending again, which was running or had ended."""
    row: Any = step.execute(WHERE_IT_ENTERS, (seq,)).fetchone()
    lane, priority, base, *rest = row
    return PendingEntry(seq, lane, priority, base, version, attempts, events, step.now, *rest)
