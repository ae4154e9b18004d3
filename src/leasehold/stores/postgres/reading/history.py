"""What happened to a job: its attempts, and its history, woven from several tables."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.model.job import Attempt, HistoryEvent
from leasehold.core.model.outcome import JobError
from leasehold.core.model.pages import HistoryPage, check_cursor, history_page
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.messages import event_words
from leasehold.env import from_micros
from leasehold.stores.postgres.keeping.finding import MOMENT_MAX
from leasehold.stores.postgres.schema.codes import EVENT_CODE, EVENT_OF, STATUS_OF
from leasehold.stores.postgres.schema.rows import document_of, moment
from leasehold.stores.postgres.server.connection import Connection

# Events are numbered in the order of leases: a page of them needs no more rows than events.
_ATTEMPTS: Final = """
    SELECT version, number, worker, started_at, ended_at, outcome, after, attempts, leased_event,
           ended_event, message, error_type, error_message, traceback, note, expires_at,
           heartbeat_at, lease_micros
    FROM attempt WHERE seq = $1 AND ended_event > $2 ORDER BY version LIMIT $3
"""
_RUNNING_ATTEMPT: Final = """
    SELECT version, attempts, worker, acquired_at, expires_at, heartbeat_at, leased_event,
           lease_micros
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
_CREATED: Final = "SELECT seq, created_at, born FROM job WHERE id = $1"
# When a lease began whose attempt record had to go.
_LEASED_AT: Final = f"""
    SELECT at FROM event WHERE seq = $1 AND version = $2 AND event = {EVENT_CODE[Event.LEASED]}
"""  # noqa: S608  # our own number


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
            lease_expires_at=moment(expires_at),
            heartbeat_at=moment(heartbeat_at),
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
            _,
        ) in db.execute(_ATTEMPTS, (found[0], 0, None))
        if outcome in EVENT_OF
    ]
    for row in db.execute(_RUNNING_ATTEMPT, (found[0],)):
        version, number, worker, acquired_at, expires_at, heartbeat_at = row[:6]
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
    telling = _Telling(db, job_id, seq)
    telling.add(1, created_at, Event.CREATED, None, STATUS_OF.get(born, Status.PENDING), 0)
    for row in db.execute(_ATTEMPTS, (seq, since, limit)):
        version, number, worker, start, end, outcome, after, spent, first, last, message = row[:11]
        telling.leased(first, start, number, worker, version, start + row[17])
        if outcome in EVENT_OF and after in STATUS_OF:  # Others are a newer version's.
            telling.add(
                last, end, EVENT_OF[outcome], Status.RUNNING, STATUS_OF[after], spent, worker,
                version, message,
            )  # fmt: skip
    for version, number, worker, start, _, _, first, micros in db.execute(_RUNNING_ATTEMPT, (seq,)):
        telling.leased(first, start, number, worker, version, start + micros)
    for n, at, code, before, after, spent, worker, version, message in db.execute(
        _EVENTS, (seq, since, limit)
    ):
        event = EVENT_OF.get(code)
        if event is Event.LEASED:
            until = int(message) if message and message.isdecimal() else at
            telling.leased(n, at, spent, worker, version, until)
        elif event is not None and before in STATUS_OF and after in STATUS_OF:
            telling.add(
                n, at, event, STATUS_OF[before], STATUS_OF[after], spent, worker, version, message
            )
    kept: Any = db.execute(_IS_KEPT, (seq,)).fetchone()
    if kept is not None and not kept[0]:
        # A history that was dropped to keep the bound is gone as a whole.
        return []
    wanted = [entry for entry in telling.told if entry.sequence > since]
    return sorted(wanted, key=lambda entry: entry.sequence)[:limit]


class _Telling:
    """The history of one job as it is woven together, each event in words."""

    def __init__(self, db: Connection, job_id: str, seq: int) -> None:
        self._db = db
        self._job_id = job_id
        self._seq = seq
        self._leased_at: dict[int, int] = {}
        """When each lease began, by its version."""
        self.told: list[HistoryEvent] = []

    def leased(
        self, n: int, at: int, attempts: int, worker: str | None, version: int, until: int
    ) -> None:
        """A lease was granted, until then."""
        self._leased_at[version] = at
        before, after = Status.PENDING, Status.RUNNING
        words = event_words(
            Event.LEASED, before, after, worker, lease_ends_at=min(until, MOMENT_MAX)
        )
        self.add(n, at, Event.LEASED, before, after, attempts, worker, version, words)

    def add(
        self,
        n: int,
        at: int,
        event: Event,
        before: Status | None,
        after: Status,
        attempts: int,
        worker: str | None = None,
        version: int = 0,
        message: str | None = None,
    ) -> None:
        """Something happened of which this was said, if anything."""
        if not message:
            ends = before is Status.RUNNING and after is not Status.RUNNING
            held_micros = max(0, at - self._began(version, at)) if ends else None
            message = event_words(event, before, after, worker, held_micros=held_micros)
        self.told.append(
            HistoryEvent(
                job_id=self._job_id,
                sequence=n,
                at=from_micros(at),
                event=event,
                before=before,
                after=after,
                attempts=attempts,
                worker=worker,
                lease_version=version,
                message=message,
            )
        )

    def _began(self, version: int, otherwise: int) -> int:
        """When a lease began; it may have begun before the part of the history that is read."""
        if version not in self._leased_at:
            found: Any = self._db.execute(_LEASED_AT, (self._seq, version)).fetchone()
            self._leased_at[version] = otherwise if found is None else found[0]
        return self._leased_at[version]
