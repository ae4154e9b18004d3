"""Reading: snapshots, searches, attempts, history. Never a write, never a wait for one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from leasehold.core.model.job import Attempt, HistoryEvent, Job
from leasehold.core.model.outcome import JobError
from leasehold.core.model.pages import HistoryPage, check_cursor, history_page
from leasehold.core.model.priority import DEFAULT_SCORING
from leasehold.core.model.refusals import check_page, not_a_cursor
from leasehold.core.model.search import HeavyField, JobFilter, Page, check_left_out, lightened
from leasehold.core.model.status import Event, Status
from leasehold.env import from_micros
from leasehold.stores.postgres.leasing.order import Lane, for_counting, in_order
from leasehold.stores.postgres.leasing.ready import AT_ITS_PLACE
from leasehold.stores.postgres.reading.where import compares_texts, conditions
from leasehold.stores.postgres.rules.known import load
from leasehold.stores.postgres.schema.codes import EVENT_OF, STATUS_OF
from leasehold.stores.postgres.schema.job_row import JOB, job_without, jobs_of
from leasehold.stores.postgres.schema.rows import document_of
from leasehold.stores.postgres.server.connection import Connection

# Events are numbered in the order of leases: a page of them needs no more rows than events.
_ATTEMPTS: Final = """
    SELECT version, number, worker, started_at, ended_at, outcome, after, attempts, leased_event,
           ended_event, message, error_type, error_message, traceback, note, expires_at,
           heartbeat_at
    FROM attempt WHERE seq = $1 AND ended_event > $2 ORDER BY version LIMIT $3
"""
_RUNNING_ATTEMPT: Final = """
    SELECT version, attempts, worker, acquired_at, expires_at, heartbeat_at, leased_event
    FROM running WHERE seq = $1
"""
_EVENTS: Final = """
    SELECT n, at, event, before, after, attempts, worker, version, message
    FROM event WHERE seq = $1 AND n > $2 ORDER BY n LIMIT $3
"""
_IS_KEPT: Final = """
    SELECT events = 1 + 2 * (SELECT count(*) FROM attempt WHERE seq = $1)
        + (SELECT count(*) FROM event WHERE seq = $1)
    FROM finished WHERE seq = $1
"""
_PENDING: Final = f"""
    SELECT lane.queue, ready.seq FROM job JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.id = $1
"""  # noqa: S608  # our own names
_LANES: Final = """
    SELECT id FROM lane WHERE queue = $1 UNION ALL SELECT -id FROM key_lane WHERE queue = $1
"""
_CREATED: Final = "SELECT seq, created_at, born FROM job WHERE id = $1"
FIND_IDS: Final = "SELECT id FROM job WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3"
LAST_CHARACTER: Final = "\U0010ffff"
"""No id goes on with it: it is not printable."""
COMPARED_AT_ONCE: Final = 500
"""How many jobs are fetched at once to compare their texts."""


def read_job(db: Connection, job_id: str) -> Job | None:
    """A snapshot of one job."""
    rows = db.execute(f"{JOB} WHERE job.id = $1", (job_id,)).fetchall()
    return jobs_of(db, rows)[0] if rows else None


def read_jobs(db: Connection, job_ids: Sequence[str]) -> list[Job]:
    """Snapshots of those of these jobs that are there."""
    if not job_ids:
        return []
    return jobs_of(db, db.execute(f"{JOB} WHERE job.id = ANY($1)", (list(job_ids),)).fetchall())


def position(db: Connection, job_id: str, now: int) -> int | None:
    """How many pending jobs of its queue are served before this one."""
    found: Any = db.execute(_PENDING, (job_id,)).fetchone()
    if found is None:
        return None
    queue, seq = found
    rule = load(db).get(queue)
    scoring = DEFAULT_SCORING if rule is None else rule.config.scoring
    lanes = [Lane(number, scoring) for (number,) in db.execute(_LANES, (queue,)).fetchall()]
    served = in_order(db, lanes, now, for_counting())
    return next(count for count, row in enumerate(served) if row[2] == seq)


def find_ids(db: Connection, prefix: str, limit: int) -> list[str]:
    """Ids that begin like this, in order."""
    return [
        str(job_id)
        for (job_id,) in db.execute(FIND_IDS, (prefix, prefix + LAST_CHARACTER, max(0, limit)))
    ]


def search(
    db: Connection,
    where: JobFilter,
    limit: int,
    cursor: str | None,
    without: Collection[HeavyField] = (),
) -> Page:
    """Jobs that fit, the last submitted first."""
    check_page(limit)
    check_left_out(without)
    if cursor is not None and not cursor.isdecimal():
        raise not_a_cursor(cursor)
    # What is compared here has to be fetched, whether or not it is asked for.
    compared = compares_texts(where)
    found = _walk(
        db, where, job_without(() if compared else without), limit + 1,
        None if cursor is None else int(cursor),
    )  # fmt: skip
    jobs = [job for _, job in found[:limit]]
    if compared and without:
        jobs = [lightened(job, without) for job in jobs]
    return Page(jobs, str(found[limit - 1][0]) if len(found) > limit else None)


def _walk(
    db: Connection,
    where: JobFilter,
    select: str,
    limit: int,
    seen: int | None,
    *,
    oldest_first: bool = False,
) -> list[tuple[int, Job]]:
    """The next jobs that fit, each with its number; the last submitted first, or the oldest."""
    compared = compares_texts(where)
    page = max(limit, COMPARED_AT_ONCE) if compared else limit
    found: list[tuple[int, Job]] = []
    while True:
        clauses, values = conditions(where)
        if seen is not None:
            clauses.append(f"job.seq {'>' if oldest_first else '<'} ${len(values) + 1}")
            values.append(seen)
        condition = " AND ".join(clauses) or "true"
        order = "ASC" if oldest_first else "DESC"
        rows = db.execute(
            f"{select} WHERE {condition} ORDER BY job.seq {order} LIMIT ${len(values) + 1}",
            (*values, page),
        ).fetchall()
        for row, job in zip(rows, jobs_of(db, rows), strict=True):
            if not compared or where.matches(job):
                found.append((row[0], job))
        if len(rows) < page or len(found) >= limit:
            return found[:limit]
        seen = rows[-1][0]


def find_fitting(
    db: Connection, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[str], str | None]:
    """The ids of jobs that fit, from one end on, and where the next ones begin."""
    seen = check_cursor(limit, cursor)
    select = JOB if compares_texts(where) else job_without(("payload", "result", "metadata"))
    found = _walk(db, where, select, limit + 1, seen, oldest_first=oldest_first)
    return [job.id for _, job in found[:limit]], (
        str(found[limit - 1][0]) if len(found) > limit else None
    )


def attempts(db: Connection, job_id: str) -> list[Attempt]:
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
            error=None
            if error_type is None
            else JobError(error_type, error_message or "", traceback),
            message=message or "",
            note=document_of(note),
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
        ) in db.execute(_ATTEMPTS, (found[0], 0, None))
        if outcome in EVENT_OF
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


def page_of_history(db: Connection, job_id: str, limit: int, cursor: str | None) -> HistoryPage:
    """A part of what happened to a job."""
    since = check_cursor(limit, cursor) or 0
    return history_page(history(db, job_id, since, limit + 1), limit)


def history(
    db: Connection, job_id: str, since: int = 0, limit: int | None = None
) -> list[HistoryEvent]:
    """What happened to a job after an event, woven from its own row, its attempts and its events.

    Of each no more rows are read than events are wanted.
    """
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

    told = [event(1, created_at, Event.CREATED, None, STATUS_OF.get(born, Status.PENDING), 0)]
    rows_max = limit
    for row in db.execute(_ATTEMPTS, (seq, since, rows_max)):
        version, number, worker, start, end, outcome, after, spent, first, last, message = row[:11]
        told.append(leased(first, start, number, worker, version))
        end_event = EVENT_OF.get(outcome)
        if end_event is None or after not in STATUS_OF:
            continue  # A newer version's: what it says cannot be told.
        told.append(
            event(
                last, end, end_event, Status.RUNNING, STATUS_OF[after], spent, worker, version,
                message,
            )
        )  # fmt: skip
    for version, number, worker, start, _, _, first in db.execute(_RUNNING_ATTEMPT, (seq,)):
        told.append(leased(first, start, number, worker, version))
    for n, at, what, before, after, *rest in db.execute(_EVENTS, (seq, since, rows_max)):
        if what in EVENT_OF and before in STATUS_OF and after in STATUS_OF:
            told.append(event(n, at, EVENT_OF[what], STATUS_OF[before], STATUS_OF[after], *rest))
    kept: Any = db.execute(_IS_KEPT, (seq,)).fetchone()
    if kept is not None and not kept[0]:
        # A history that was dropped to keep the bound is gone as a whole.
        return []
    wanted = [entry for entry in told if entry.sequence > since]
    return sorted(wanted, key=lambda entry: entry.sequence)[:limit]


def _moment(micros: int | None) -> Any:
    return None if micros is None else from_micros(micros)
