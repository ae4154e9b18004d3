"""Reading: snapshots, searches, attempts, history. Never a write, never a wait for one."""

from __future__ import annotations

from typing import Any, Final

import apsw
import msgspec

from leasehold.core.job import Attempt, HistoryEvent, Job
from leasehold.core.joblog import JobLog, LogLine
from leasehold.core.outcome import JobError
from leasehold.core.priority import DEFAULT_SCORING
from leasehold.core.refusals import check_page, not_a_cursor
from leasehold.core.retry import RetryPolicy
from leasehold.core.search import JobFilter, Page
from leasehold.core.status import Event, Status
from leasehold.env import from_micros
from leasehold.stores.sqlite.codes import EVENT_OF, POLICY_OF, STATUS_OF
from leasehold.stores.sqlite.graph import DEPENDS_ON
from leasehold.stores.sqlite.order import Lane, for_counting, in_order
from leasehold.stores.sqlite.ready import AT_ITS_PLACE
from leasehold.stores.sqlite.rules import load
from leasehold.stores.sqlite.where import conditions

# One row per job, wherever it stands. Exactly one of the four state tables has a row for it.
_JOB: Final = f"""
    SELECT job.seq, job.id, lane.queue, lane.task, job.priority, job.created_at, job.max_retries,
           job.allowance, job.timeout_seconds, job.lease_seconds, job.deadline, job.start_by,
           job.result_ttl_seconds, job.retry, job.metadata, job.idempotency_key, job.parent_id,
           job.codec, job.payload,
           coalesce(finished.status, waiting.status, iif(running.seq IS NULL, 2, 3)) AS status,
           coalesce(ready.version, running.version, finished.version, waiting.version) AS version,
           coalesce(ready.attempts, running.attempts, finished.attempts, waiting.attempts),
           coalesce(ready.available_at, running.available_at, finished.available_at, waiting.due,
                    dependent.due, waiting.since),
           running.worker, running.acquired_at, running.expires_at, running.heartbeat_at,
           running.cancel_reason,
           finished.finished_at, finished.started_at, finished.result, finished.result_codec,
           coalesce(finished.reason, waiting.reason), waiting.since, progress.document,
           dependent.policy, raised.base, job.limit_key
    FROM job
    JOIN lane ON lane.id = job.lane
    LEFT JOIN running ON running.seq = job.seq
    LEFT JOIN finished ON finished.seq = job.seq
    LEFT JOIN waiting ON waiting.seq = job.seq
    LEFT JOIN place ON place.seq = job.seq
    LEFT JOIN ready ON {AT_ITS_PLACE}
    LEFT JOIN raised ON raised.seq = job.seq
    LEFT JOIN progress ON progress.seq = job.seq
    LEFT JOIN dependent ON dependent.seq = job.seq
"""  # noqa: S608  # our own names
_LAST_ERROR: Final = """
    SELECT error_type, error_message, traceback FROM attempt
    WHERE seq = ? AND error_type IS NOT NULL ORDER BY version DESC LIMIT 1
"""
_LAST_ATTEMPT: Final = "SELECT started_at FROM attempt WHERE seq = ? ORDER BY version DESC LIMIT 1"
_ATTEMPTS: Final = """
    SELECT version, number, worker, started_at, ended_at, outcome, after, attempts, leased_event,
           ended_event, message, error_type, error_message, traceback, note, expires_at,
           heartbeat_at
    FROM attempt WHERE seq = ? ORDER BY version
"""
_RUNNING_ATTEMPT: Final = """
    SELECT version, attempts, worker, acquired_at, expires_at, heartbeat_at, leased_event
    FROM running WHERE seq = ?
"""
_EVENTS: Final = """
    SELECT n, at, event, before, after, attempts, worker, version, message
    FROM event WHERE seq = ?
"""
_EVENTS_OF_FINISHED: Final = "SELECT events FROM finished WHERE seq = ?"
_PENDING: Final = f"""
    SELECT lane.queue, ready.seq FROM job JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.id = ?
"""  # noqa: S608  # our own names
_LANES: Final = """
    SELECT id FROM lane WHERE queue = ?1 AND pending > 0
    UNION ALL SELECT -id FROM key_lane WHERE queue = ?1
"""
_LOG: Final = "SELECT n, at, line FROM log JOIN job USING (seq) WHERE id = ? ORDER BY n"
_CREATED: Final = "SELECT seq, created_at, born FROM job WHERE id = ?"

# A range of the unique index. No id goes on with the last character of all: it is not printable.
FIND_IDS: Final = (
    "SELECT id FROM job WHERE id >= ?1 AND id < ?1 || char(1114111) ORDER BY id LIMIT ?2"
)

_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode
_decode_retry = msgspec.json.Decoder(RetryPolicy).decode


def read_job(db: apsw.Connection, job_id: str) -> Job | None:
    """A snapshot of one job."""
    row = db.execute(f"{_JOB} WHERE job.id = ?", (job_id,)).fetchone()
    return None if row is None else _job(db, row)


def position(db: apsw.Connection, job_id: str, now: int) -> int | None:
    """How many pending jobs of its queue are served before this one."""
    before: int | None = None
    with db:  # Several statements, one moment.
        found: Any = db.execute(_PENDING, (job_id,)).fetchone()
        if found is not None:
            queue, seq = found
            rule = load(db).get(queue)
            scoring = DEFAULT_SCORING if rule is None else rule.config.scoring
            numbers: list[Any] = db.execute(_LANES, (queue,)).fetchall()
            lanes = [Lane(number, scoring) for (number,) in numbers]
            served = in_order(db, lanes, now, for_counting())
            before = next(count for count, row in enumerate(served) if row[2] == seq)
    return before


def find_ids(db: apsw.Connection, prefix: str, limit: int) -> list[str]:
    """Ids that begin like this, in order."""
    return [str(job_id) for (job_id,) in db.execute(FIND_IDS, (prefix, max(0, limit)))]


def search(db: apsw.Connection, where: JobFilter, limit: int, cursor: str | None) -> Page:
    """Jobs that fit, the last submitted first."""
    check_page(limit)
    clauses, values = conditions(where)
    if cursor is not None:
        if not cursor.isdecimal():
            raise not_a_cursor(cursor)
        clauses.append("job.seq < ?")
        values.append(int(cursor))
    condition = " AND ".join(clauses) or "1"
    rows = db.execute(
        f"{_JOB} WHERE {condition} ORDER BY job.seq DESC LIMIT ?", (*values, limit + 1)
    ).fetchall()
    jobs = [_job(db, row) for row in rows[:limit]]
    return Page(jobs, str(rows[limit - 1][0]) if len(rows) > limit else None)


def attempts(db: apsw.Connection, job_id: str) -> list[Attempt]:
    """A job's attempts, oldest first."""
    found = db.execute(_CREATED, (job_id,)).fetchone()
    if found is None:
        return []
    listed = [
        Attempt(
            job_id=job_id,
            lease_version=version,
            number=number,
            worker=worker,
            started_at=from_micros(started_at),
            ended_at=from_micros(ended_at),
            outcome=EVENT_OF[outcome],
            error=None if error_type is None else JobError(error_type, error_message, traceback),
            message=message or "",
            note=None if note is None else msgspec.json.decode(note),
            lease_expires_at=_moment(expires_at),
            heartbeat_at=_moment(heartbeat_at),
        )
        for (
            version,
            number,
            worker,
            started_at,
            ended_at,
            outcome,
            _,
            _,
            _,
            _,
            message,
            error_type,
            error_message,
            traceback,
            note,
            expires_at,
            heartbeat_at,
        ) in db.execute(_ATTEMPTS, (found[0],))
    ]
    for version, number, worker, acquired_at, expires_at, heartbeat_at, _ in db.execute(
        _RUNNING_ATTEMPT, (found[0],)
    ):
        listed.append(
            Attempt(
                job_id=job_id,
                lease_version=version,
                number=number,
                worker=worker,
                started_at=from_micros(acquired_at),
                lease_expires_at=from_micros(expires_at),
                heartbeat_at=from_micros(heartbeat_at),
            )
        )
    return listed


def history(db: apsw.Connection, job_id: str) -> list[HistoryEvent]:
    """Everything that happened to a job, woven from its own row, its attempts and its events."""
    found = db.execute(_CREATED, (job_id,)).fetchone()
    if found is None:
        return []
    seq, created_at, born = found

    def event(
        n: int,
        at: int,
        what: Event,
        before: Status | None,
        after: Status,
        attempts: int,
        worker: str | None = None,
        version: int = 0,
        message: str | None = None,
    ) -> HistoryEvent:
        return HistoryEvent(
            job_id=job_id,
            sequence=n,
            at=from_micros(at),
            event=what,
            before=before,
            after=after,
            attempts=attempts,
            worker=worker,
            lease_version=version,
            message=message or "",
        )

    def leased(n: int, at: int, attempts: int, worker: str, version: int) -> HistoryEvent:
        return event(n, at, Event.LEASED, Status.PENDING, Status.RUNNING, attempts, worker, version)

    told = [event(1, created_at, Event.CREATED, None, STATUS_OF[born], 0)]
    for row in db.execute(_ATTEMPTS, (seq,)):
        version, number, worker, start, end, outcome, after, spent, first, last, message = row[:11]
        told.append(leased(first, start, number, worker, version))
        end_event = EVENT_OF[outcome]
        told.append(
            event(
                last, end, end_event, Status.RUNNING, STATUS_OF[after], spent, worker, version,
                message,
            )
        )  # fmt: skip
    for version, number, worker, start, _, _, first in db.execute(_RUNNING_ATTEMPT, (seq,)):
        told.append(leased(first, start, number, worker, version))
    for n, at, what, before, after, *rest in db.execute(_EVENTS, (seq,)):
        told.append(event(n, at, EVENT_OF[what], STATUS_OF[before], STATUS_OF[after], *rest))
    kept: Any = db.execute(_EVENTS_OF_FINISHED, (seq,)).fetchone()
    if kept is not None and kept[0] != len(told):
        # A history that was dropped to keep the bound is gone as a whole.
        return []
    return sorted(told, key=lambda entry: entry.sequence)


def log(db: apsw.Connection, job_id: str) -> JobLog:
    """What a job's tasks logged. Lines are numbered from 1: the numbers tell how many are gone."""
    rows: list[Any] = db.execute(_LOG, (job_id,)).fetchall()
    lines = [LogLine(from_micros(at), text) for _, at, text in rows]
    return JobLog(lines, dropped=rows[-1][0] - len(rows) if rows else 0)


def _moment(micros: int | None) -> Any:
    return None if micros is None else from_micros(micros)


def _job(db: apsw.Connection, row: tuple[Any, ...]) -> Job:
    (seq, job_id, queue, task, priority, created_at, max_retries, allowance, timeout_seconds,
     lease_seconds, deadline, start_by, result_ttl_seconds, retry, metadata, key, parent_id, codec,
     payload, status, version, attempts_spent, run_at, worker, acquired_at, expires_at,
     heartbeat_at, cancel_reason, finished_at, started_at, result, result_codec, reason, since,
     progress, policy, base, limit_key) = row  # fmt: skip
    depends_on: tuple[str, ...] = ()
    if policy is not None:
        depends_on = tuple(str(needed) for (needed,) in db.execute(DEPENDS_ON, (seq,)))
    error = None
    if version:
        # Only a job that was leased before can have failed before.
        failed = db.execute(_LAST_ERROR, (seq,)).fetchone()
        error = None if failed is None else JobError(*failed)
        if started_at is None:
            last = db.execute(_LAST_ATTEMPT, (seq,)).fetchone()
            started_at = acquired_at or (None if last is None else last[0])
    return Job(
        id=job_id,
        queue=queue,
        task=task,
        status=STATUS_OF[status],
        priority=priority,
        payload_data=payload,
        codec=codec or "json",
        created_at=from_micros(created_at),
        updated_at=from_micros(max(finished_at or since or heartbeat_at or run_at, created_at)),
        run_at=from_micros(run_at),
        deadline=_moment(deadline),
        started_at=_moment(started_at),
        completed_at=_moment(finished_at),
        attempts=attempts_spent,
        max_retries=max_retries,
        allowance=allowance,
        retry=None if retry is None else _decode_retry(retry),
        timeout_seconds=timeout_seconds,
        lease_seconds=lease_seconds,
        start_by=_moment(start_by),
        result_ttl_seconds=result_ttl_seconds,
        worker=worker,
        lease_version=version,
        lease_acquired_at=_moment(acquired_at),
        lease_expires_at=_moment(expires_at),
        heartbeat_at=_moment(heartbeat_at),
        cancel_requested=cancel_reason,
        result_data=result,
        result_codec=result_codec or "json",
        error=error,
        reason=reason,
        progress=None if progress is None else msgspec.json.decode(progress),
        metadata=None if metadata is None else _decode_metadata(metadata),
        idempotency_key=key,
        parent_id=parent_id,
        depends_on=depends_on,
        on_dependency_failure=POLICY_OF[policy or 0],
        inherited_priority=base,
        limit_key=limit_key,
    )
