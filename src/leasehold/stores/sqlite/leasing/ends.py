"""The ends of attempts as `core.rules.ends` has gathered them, written down."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.rules import ends
from leasehold.core.rules.placing import PendingEntry
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.leasing.state import INSERT_FINISHED
from leasehold.stores.sqlite.writing.step import Step

# Deleting the row is the fence: what this does not return was not the caller's any more.
END_LEASE: Final = """
    DELETE FROM running WHERE seq = ? AND version = ?
    RETURNING seq, version, worker, acquired_at, attempts, events, leased_event, available_at,
              cancel_reason, expires_at, heartbeat_at, lease_micros
"""
INSERT_ATTEMPT: Final = f"INSERT INTO attempt VALUES ({', '.join('?' * 19)})"  # noqa: S608  # placeholders
COUNT_FAILURE: Final = """
    INSERT INTO failed_job VALUES (?1, 1, ?2, ?2)
    ON CONFLICT (seq) DO UPDATE SET count = count + 1, last_at = excluded.last_at
"""
SURPLUS_ATTEMPT: Final = """
    SELECT version FROM attempt WHERE seq = ? ORDER BY version DESC LIMIT 1 OFFSET ?
"""
# An attempt record stands for two history events; they stay when the record itself has to go. The
# first one's message is then when the lease was to end.
KEEP_ITS_EVENTS: Final = """
    INSERT INTO event
    SELECT seq, leased_event, started_at, 3, 2, 3, number, worker, version,
           started_at + lease_micros
        FROM attempt WHERE seq = ?1 AND version <= ?2
    UNION ALL
    SELECT seq, ended_event, ended_at, outcome, 3, after, attempts, worker, version, message
        FROM attempt WHERE seq = ?1 AND version <= ?2
"""
DROP_ATTEMPTS: Final = "DELETE FROM attempt WHERE seq = ? AND version <= ?"
INSERT_WAITING: Final = "INSERT INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
WHERE_IT_ENTERS: Final = """
    SELECT lane, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = job.seq), priority),
           created_at, deadline, parent_id
    FROM job WHERE seq = ?
"""


class Ends(ends.GatheredEnds):
    """Ends of attempts of one write."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        super().__init__(step.now, step.settings.attempt_records_max, step.measured)
        self._step = step

    def write(self) -> None:
        """Write it all."""
        step = self._step
        step.failed += self.errors
        step.executemany(INSERT_ATTEMPT, self.attempts)
        if self.failed:
            step.executemany(COUNT_FAILURE, self.failed)
        for seq in self.surplus:
            _trim_attempts(step, seq)
        step.executemany(INSERT_FINISHED, self.finished)
        step.jobs_ended(self.ended)
        if self.waiting or self.again:
            step.executemany(INSERT_WAITING, self.waiting)
            ready.enter(step, [entry(step, *each) for each in self.again])
            step.hints.ready = True
        self.count(step)


def entry(step: Step, seq: int, version: int, attempts: int, events: int) -> PendingEntry:
    """A job that is to be pending again, which was running or had ended."""
    row: Any = step.execute(WHERE_IT_ENTERS, (seq,)).fetchone()
    lane, priority, base, *rest = row
    return PendingEntry(seq, lane, priority, base, version, attempts, events, step.now, *rest)


def _trim_attempts(step: Step, seq: int) -> None:
    surplus = step.execute(SURPLUS_ATTEMPT, (seq, step.settings.attempt_records_max)).fetchone()
    if surplus is not None:
        step.execute(KEEP_ITS_EVENTS, (seq, surplus[0]))
        step.execute(DROP_ATTEMPTS, (seq, surplus[0]))
