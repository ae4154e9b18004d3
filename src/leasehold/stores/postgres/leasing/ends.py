"""The ends of attempts: what was decided of jobs that have just left `running`, written down.

Ends are gathered and written by one statement of each kind: a batch of settlements is the way
nearly every job ends.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from leasehold.core.model.codes import EVENT_CODE, STATUS_CODE
from leasehold.core.model.lease import Settled
from leasehold.core.model.outcome import Complete
from leasehold.core.model.span import Measure
from leasehold.core.model.status import Status
from leasehold.core.rules.decision import Decision
from leasehold.core.rules.placing import Entry
from leasehold.env import to_micros
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


class Held(NamedTuple):
    """A lease that was just ended: what END_LEASE returns."""

    seq: int
    version: int
    worker: str
    acquired_at: int
    attempts: int
    events: int
    leased_event: int
    available_at: int
    cancel_reason: str | None
    expires_at: int
    heartbeat_at: int
    lease_micros: int


_Kind = tuple[int, Status, tuple[str, ...], bool, str]
"""Ends that are counted together: lane, status after, totals, whether they have run, worker."""


class Ends:
    """Ends of attempts of one write, gathered until `write`."""

    __slots__ = (
        "_attempts",
        "_counted",
        "_ended",
        "_entries",
        "_events_max",
        "_failed",
        "_finished",
        "_step",
        "_surplus",
        "_waiting",
    )

    def __init__(self, step: Step) -> None:
        self._step = step
        self._attempts: list[tuple[Any, ...]] = []
        self._finished: list[tuple[Any, ...]] = []
        self._ended: list[str] = []
        self._waiting: list[tuple[Any, ...]] = []
        self._entries: list[Entry] = []
        self._failed: list[tuple[int, int]] = []
        self._events_max = 2 * step.settings.attempt_records_max
        """A job with no more events than that cannot have too many attempt records."""
        self._surplus: list[int] = []
        """Jobs that may have."""
        self._counted: dict[_Kind, list[int]] = {}
        """How long each attempt had its lease."""

    def add(
        self,
        job_id: str,
        held: Held,
        lane: int,
        decision: Decision,
        complete: Complete | None = None,
        *,
        checkpoint: bool = False,
    ) -> Settled:
        """Let become of a job what was decided; the record of a lost attempt is a checkpoint."""
        step = self._step
        now = step.now
        status, attempts, error = decision.status, decision.attempts, decision.error
        code = STATUS_CODE[status]
        (
            seq, version, worker, acquired_at, number, events, leased_event, available_at, _,
            expires_at, heartbeat_at, lease_micros,
        ) = held  # fmt: skip
        n = events + 1
        self._attempts.append(
            (
                seq,
                version,
                number,
                worker,
                acquired_at,
                now,
                EVENT_CODE[decision.event],
                code,
                attempts,
                leased_event,
                n,
                storable(decision.message) or None,
                None if error is None else storable(error.type),
                None if error is None else storable(error.message),
                None if error is None else storable(error.traceback),
                None if complete is None else complete.note,
                expires_at if checkpoint else None,
                heartbeat_at if checkpoint else None,
                lease_micros,
            )
        )
        if error is not None and decision.is_failure:
            self._failed.append((seq, now))
        if n > self._events_max:
            self._surplus.append(seq)
        if status is Status.PENDING:
            self._entries.append(entry(step, seq, version=version, attempts=attempts, events=n))
        elif decision.run_at is not None:
            due = to_micros(decision.run_at)
            reason = storable(decision.reason)
            self._waiting.append((seq, code, due, now, version, attempts, n, reason))
        else:
            if complete is None:
                result, codec, reason = None, None, storable(decision.reason)
            else:
                codec = None if complete.codec == "json" else complete.codec
                result, reason = complete.result, None
            self._finished.append(
                (
                    seq,
                    code,
                    now,
                    acquired_at,
                    available_at,
                    version,
                    attempts,
                    n,
                    result,
                    codec,
                    reason,
                )
            )
            self._ended.append(job_id)
        if error is not None and status is not Status.CANCELLED:
            step.note_failure(lane, job_id, error)
            if status is Status.FAILED:
                step.measured.retried(lane, attempts)
        kind = (lane, status, decision.totals, decision.has_run, worker)
        micros = self._counted.get(kind)
        if micros is None:
            self._counted[kind] = [now - acquired_at]
        else:
            micros.append(now - acquired_at)
        return Settled(job_id, version, decision.event, status, attempts, decision.run_at)

    def write(self) -> None:
        """Write it all."""
        step = self._step
        step.many(INSERT_ATTEMPTS, self._attempts)
        step.many(COUNT_FAILURES, self._failed)
        for seq in self._surplus:
            _trim_attempts(step, seq)
        step.many(INSERT_FINISHED, self._finished)
        step.jobs_ended(self._ended)
        if self._waiting or self._entries:
            step.many(INSERT_WAITING, self._waiting)
            step.due_at(due for _, _, due, *_ in self._waiting)
            ready.enter(step, self._entries)
            step.hints.ready = True
        for (lane, after, totals, has_run, worker), micros in self._counted.items():
            step.move(lane, Status.RUNNING, after, len(micros))
            for name in totals:
                step.count(lane, f"total_{name}", len(micros))
            step.measured.took(lane, Measure.RUN if has_run else Measure.NO_RUN, micros)
            step.worked(worker, lane, totals, len(micros))


def entry(step: Step, seq: int, *, version: int, attempts: int, events: int) -> Entry:
    """A job that is to be pending again, which was running or had ended."""
    row: Any = step.execute(WHERE_IT_ENTERS, (seq,)).fetchone()
    lane, priority, base, *rest = row
    return Entry(seq, lane, priority, base, version, attempts, events, step.now, *rest)


def _trim_attempts(step: Step, seq: int) -> None:
    surplus = step.execute(SURPLUS_ATTEMPT, (seq, step.settings.attempt_records_max)).fetchone()
    if surplus is not None:
        step.execute(KEEP_ITS_EVENTS, (seq, surplus[0]))
        step.execute(DROP_ATTEMPTS, (seq, surplus[0]))
