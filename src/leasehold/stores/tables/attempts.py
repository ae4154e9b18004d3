"""Records of attempts beyond their bound, and jobs that become pending again."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.rules.placing import PendingEntry
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
