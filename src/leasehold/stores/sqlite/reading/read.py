"""Reading: snapshots, searches, attempts, history. Never a write, never a wait for one."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

import apsw

from leasehold.core.model.job import Attempt, HistoryEvent, Job
from leasehold.core.model.outcome import JobError
from leasehold.core.model.pages import HistoryPage, check_cursor, history_page
from leasehold.core.model.priority import DEFAULT_SCORING
from leasehold.core.model.refusals import check_page, not_a_cursor
from leasehold.core.model.search import (
    Count,
    HeavyField,
    JobFilter,
    Page,
    by_counters,
    check_count,
    check_left_out,
    counted_up_to,
    lightened,
)
from leasehold.core.model.status import Event, Status
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing.order import Lane, for_counting, in_order
from leasehold.stores.sqlite.leasing.ready import AT_ITS_PLACE
from leasehold.stores.sqlite.reading.where import conditions
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.schema.job_row import (
    IDS,
    JOB,
    NUMBERS,
    job_carefully,
    job_of,
    job_without,
)
from leasehold.stores.sqlite.schema.rows import (
    EVENT_OF,
    STATUS_OF,
    UNREADABLE,
    Kind,
    Lenient,
    document_of,
)
from leasehold.stores.sqlite.submitting.gate import stats

_ATTEMPTS: Final = Lenient(
    {
        "version": Kind.WHOLE,
        "number": Kind.WHOLE,
        "worker": Kind.TEXT,
        "started_at": Kind.MOMENT,
        "ended_at": Kind.MOMENT,
        "outcome": Kind.WHOLE,
        "after": Kind.WHOLE,
        "attempts": Kind.WHOLE,
        "leased_event": Kind.WHOLE,
        "ended_event": Kind.WHOLE,
        "message": Kind.TEXT_OR_NULL,
        "error_type": Kind.TEXT_OR_NULL,
        "error_message": Kind.TEXT_OR_NULL,
        "traceback": Kind.TEXT_OR_NULL,
        "note": Kind.BYTES_OR_NULL,
        "expires_at": Kind.MOMENT_OR_NULL,
        "heartbeat_at": Kind.MOMENT_OR_NULL,
    },
    # Events are numbered in the order of leases: a page of them needs no more rows than events.
    "FROM attempt WHERE seq = ?1 AND ended_event > ?2 ORDER BY version LIMIT ?3",
)
_RUNNING_ATTEMPT: Final = Lenient(
    {
        "version": Kind.WHOLE,
        "attempts": Kind.WHOLE,
        "worker": Kind.TEXT,
        "acquired_at": Kind.MOMENT,
        "expires_at": Kind.MOMENT,
        "heartbeat_at": Kind.MOMENT,
        "leased_event": Kind.WHOLE,
    },
    "FROM running WHERE seq = ?",
)
_EVENTS: Final = Lenient(
    {
        "n": Kind.WHOLE,
        "at": Kind.MOMENT,
        "event": Kind.WHOLE,
        "before": Kind.WHOLE,
        "after": Kind.WHOLE,
        "attempts": Kind.WHOLE,
        "worker": Kind.TEXT_OR_NULL,
        "version": Kind.WHOLE,
        "message": Kind.TEXT_OR_NULL,
    },
    "FROM event WHERE seq = ?1 AND n > ?2 ORDER BY n LIMIT ?3",
)
_IS_KEPT: Final = """
    SELECT events = 1 + 2 * (SELECT count(*) FROM attempt WHERE seq = ?1)
        + (SELECT count(*) FROM event WHERE seq = ?1)
    FROM finished WHERE seq = ?1
"""
_ALL: Final = -1  # no limit
_PENDING: Final = f"""
    SELECT lane.queue, ready.seq FROM job JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.id = ?
"""  # noqa: S608  # our own names
_LANES: Final = """
    SELECT id FROM lane WHERE queue = ?1 AND pending > 0
    UNION ALL SELECT -id FROM key_lane WHERE queue = ?1
"""
_CREATED: Final = Lenient(
    {"seq": Kind.WHOLE, "created_at": Kind.MOMENT, "born": Kind.WHOLE}, "FROM job WHERE id = ?"
)

# A range of the unique index. No id goes on with the last character of all: it is not printable.
FIND_IDS: Final = (
    "SELECT id FROM job WHERE id >= ?1 AND id < ?1 || char(1114111) ORDER BY id LIMIT ?2"
)


def read_job(db: apsw.Connection, job_id: str) -> Job | None:
    """A snapshot of one job; of one that cannot be read, with what can be."""
    try:
        row = db.execute(f"{JOB} WHERE job.id = ?", (job_id,)).fetchone()
        return None if row is None else job_of(db, row)
    except UNREADABLE:
        found: Any = db.execute(f"{NUMBERS} WHERE job.id = ?", (job_id,)).fetchone()
        return None if found is None else job_carefully(db, found[0])


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
            # One that cannot be placed, because its row or another is damaged, stands nowhere.
            with suppress(*UNREADABLE):
                found_at = (count for count, row in enumerate(served) if row[2] == seq)
                before = next(found_at, None)
    return before


def find_ids(db: apsw.Connection, prefix: str, limit: int) -> list[str]:
    """Ids that begin like this, in order."""
    return [str(job_id) for (job_id,) in db.execute(FIND_IDS, (prefix, max(0, limit)))]


def search(
    db: apsw.Connection,
    where: JobFilter,
    limit: int,
    cursor: str | None,
    without: Collection[HeavyField] = (),
) -> Page:
    """Jobs that fit, the last submitted first."""
    check_page(limit)
    check_left_out(without)
    clauses, values = conditions(where)
    if cursor is not None:
        if not cursor.isdecimal():
            raise not_a_cursor(cursor)
        clauses.append("job.seq < ?")
        values.append(int(cursor))
    condition = " AND ".join(clauses) or "1"
    page = f"WHERE {condition} ORDER BY job.seq DESC LIMIT ?"
    try:
        rows: list[Any] = db.execute(
            f"{job_without(without)} {page}", (*values, limit + 1)
        ).fetchall()
        jobs = [job_of(db, row) for row in rows[:limit]]
    except UNREADABLE:
        # One of them cannot be read: then each is read with care.
        numbers: Any = db.execute(f"{NUMBERS} {page}", (*values, limit + 1))
        rows = list(numbers)
        jobs = [lightened(job_carefully(db, seq), without) for (seq,) in rows[:limit]]
    return Page(jobs, str(rows[limit - 1][0]) if len(rows) > limit else None)


def count(db: apsw.Connection, where: JobFilter, counted_max: int) -> Count:
    """How many jobs fit, counted up to one more than the bound."""
    check_count(counted_max)
    known = by_counters(where, lambda queue: stats(db, queue).counts)
    if known is not None:
        return known
    clauses, values = conditions(where)
    condition = " AND ".join(clauses) or "1"
    found: Any = db.execute(
        f"SELECT count(*) FROM ({IDS} WHERE {condition} LIMIT ?)",  # noqa: S608  # our own names
        (*values, counted_max + 1),
    ).fetchone()
    return counted_up_to(found[0], counted_max)


def find_fitting(
    db: apsw.Connection, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[str], str | None]:
    """The ids of jobs that fit, from one end on, and where the next ones begin."""
    clauses, values = conditions(where)
    seen = check_cursor(limit, cursor)
    if seen is not None:
        clauses.append("job.seq > ?" if oldest_first else "job.seq < ?")
        values.append(seen)
    rows: list[Any] = db.execute(
        f"{IDS} WHERE {' AND '.join(clauses) or '1'} "
        f"ORDER BY job.seq {'ASC' if oldest_first else 'DESC'} LIMIT ?",
        (*values, limit + 1),
    ).fetchall()
    return [job_id for _, job_id in rows[:limit]], (
        str(rows[limit - 1][0]) if len(rows) > limit else None
    )


def attempts(db: apsw.Connection, job_id: str) -> list[Attempt]:
    """A job's attempts, oldest first."""
    found = next(_CREATED.rows(db, (job_id,)), None)
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
        ) in _ATTEMPTS.rows(db, (found[0], 0, _ALL))
        if outcome in EVENT_OF
    ]
    for version, number, worker, acquired_at, expires_at, heartbeat_at, _ in _RUNNING_ATTEMPT.rows(
        db, (found[0],)
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


def page_of_history(
    db: apsw.Connection, job_id: str, limit: int, cursor: str | None
) -> HistoryPage:
    """A part of what happened to a job."""
    since = check_cursor(limit, cursor) or 0
    return history_page(history(db, job_id, since, limit + 1), limit)


def history(
    db: apsw.Connection, job_id: str, since: int = 0, limit: int | None = None
) -> list[HistoryEvent]:
    """What happened to a job after an event, woven from its own row, its attempts and its events.

    Of each no more rows are read than events are wanted.
    """
    found = next(_CREATED.rows(db, (job_id,)), None)
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
    rows_max = _ALL if limit is None else limit
    for row in _ATTEMPTS.rows(db, (seq, since, rows_max)):
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
    for version, number, worker, start, _, _, first in _RUNNING_ATTEMPT.rows(db, (seq,)):
        told.append(leased(first, start, number, worker, version))
    for n, at, what, before, after, *rest in _EVENTS.rows(db, (seq, since, rows_max)):
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
