"""The ends of attempts as `core.rules.ends` has gathered them, written down."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.rules import ends
from leasehold.core.rules.placing import PendingEntry
from leasehold.stores.postgres.leasing import ready
from leasehold.stores.postgres.leasing.state import INSERT_FINISHED
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Step

# Deleting the row is the fence: what this does not return was not the caller's any more.
HELD: Final = """
    running.seq, running.version, worker, acquired_at, attempts, events, leased_event, available_at,
    cancel_reason, expires_at, heartbeat_at, lease_micros
"""
"""The columns of a Held."""
HELD_BY_NAME: Final = HELD.replace("running.", "")
"""The same, of a query that has read them."""
END_LEASES: Final = f"""
    WITH held AS (
        SELECT guarded.seq FROM {unnested("bigint bigint")} AS settled (seq, version), LATERAL (
            SELECT running.seq FROM running
            WHERE running.seq = settled.seq AND running.version = settled.version FOR UPDATE
        ) AS guarded)
    DELETE FROM running USING held WHERE running.seq = held.seq
    RETURNING {HELD}
"""  # noqa: S608  # our own names
INSERT_ATTEMPTS: Final = f"""
    INSERT INTO attempt SELECT * FROM {
    unnested(
        "bigint bigint bigint text bigint bigint bigint bigint bigint bigint bigint text text text "
        "text bytea bigint bigint bigint"
    )
}
"""  # noqa: S608  # our own names
COUNT_FAILURES: Final = f"""
    INSERT INTO failed_job
    SELECT seq, 1, at, at FROM {unnested("bigint bigint")} AS failed (seq, at)
    ON CONFLICT (seq) DO UPDATE SET count = failed_job.count + 1, last_at = excluded.last_at
"""  # noqa: S608  # our own names
SURPLUS_ATTEMPT: Final = """
    SELECT version FROM attempt WHERE seq = $1 ORDER BY version DESC LIMIT 1 OFFSET $2
"""
# An attempt record stands for two history events; they stay when the record itself has to go. The
# first one's message is then when the lease was to end.
KEEP_ITS_EVENTS: Final = """
    INSERT INTO event
    SELECT seq, leased_event, started_at, 3, 2, 3, number, worker, version,
           (started_at + lease_micros)::text
        FROM attempt WHERE seq = $1 AND version <= $2
    UNION ALL
    SELECT seq, ended_event, ended_at, outcome, 3, after, attempts, worker, version, message
        FROM attempt WHERE seq = $1 AND version <= $2
"""
DROP_ATTEMPTS: Final = "DELETE FROM attempt WHERE seq = $1 AND version <= $2"
INSERT_WAITING: Final = f"""
    INSERT INTO waiting SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint text")
}
"""  # noqa: S608  # our own names
WHERE_IT_ENTERS: Final = """
    SELECT lane, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = job.seq), priority),
           created_at, deadline, parent_id
    FROM job WHERE seq = $1
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
        for failure in self.errors:
            step.note_failure(*failure)
        step.many(
            INSERT_ATTEMPTS,
            [(*row[:11], *map(storable, row[11:15]), *row[15:]) for row in self.attempts],
        )
        step.many(COUNT_FAILURES, self.failed)
        for seq in self.surplus:
            _trim_attempts(step, seq)
        step.many(INSERT_FINISHED, [(*row[:-1], storable(row[-1])) for row in self.finished])
        step.jobs_ended(self.ended)
        if self.waiting or self.again:
            step.many(INSERT_WAITING, [(*row[:-1], storable(row[-1])) for row in self.waiting])
            step.due_at(due for _, _, due, *_ in self.waiting)
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
