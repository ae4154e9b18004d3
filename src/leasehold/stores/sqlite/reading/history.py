"""The rows that `core.rules.history` weaves a job's history of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import apsw

from leasehold.core.model.codes import EVENT_CODE
from leasehold.core.model.status import Event
from leasehold.core.rules.history import AttemptRow, EventRow, RunningRow
from leasehold.stores.sqlite.schema.rows import Kind, Lenient

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
        "lease_micros": Kind.WHOLE,
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
        "lease_micros": Kind.WHOLE,
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
_IS_DROPPED: Final = """
    SELECT events <> 1 + 2 * (SELECT count(*) FROM attempt WHERE seq = ?1)
        + (SELECT count(*) FROM event WHERE seq = ?1)
    FROM finished WHERE seq = ?1
"""
_ALL: Final = -1
"""No limit."""
_CREATED: Final = Lenient(
    {"seq": Kind.WHOLE, "created_at": Kind.MOMENT, "born": Kind.WHOLE}, "FROM job WHERE id = ?"
)
# When a lease began whose attempt record had to go.
_LEASED_AT: Final = f"""
    SELECT at FROM event WHERE seq = ? AND version = ? AND event = {EVENT_CODE[Event.LEASED]}
"""  # noqa: S608  # our own number


class JobHistory:
    """See `leasehold.core.rules.history.HistoryRows`."""

    def __init__(self, db: apsw.Connection, job_id: str) -> None:
        self._db = db
        self.job_id = job_id
        self._seq, *self._created = next(_CREATED.rows(db, (job_id,)), (None,))

    def created(self) -> tuple[int, int] | None:
        return (self._created[0], self._created[1]) if self._created else None

    def attempts(self, since: int = 0, limit: int | None = None) -> Iterator[AttemptRow]:
        values = (self._seq, since, _ALL if limit is None else limit)
        return map(AttemptRow._make, _ATTEMPTS.rows(self._db, values))

    def running(self) -> Iterator[RunningRow]:
        return map(RunningRow._make, _RUNNING_ATTEMPT.rows(self._db, (self._seq,)))

    def events(self, since: int, limit: int | None) -> Iterator[EventRow]:
        values = (self._seq, since, _ALL if limit is None else limit)
        return map(EventRow._make, _EVENTS.rows(self._db, values))

    def leased_at(self, version: int) -> int | None:
        row: Any = self._db.execute(_LEASED_AT, (self._seq, version)).fetchone()
        return row[0] if row is not None and isinstance(row[0], int) else None

    def is_dropped(self) -> bool:
        row: Any = self._db.execute(_IS_DROPPED, (self._seq,)).fetchone()
        return row is not None and bool(row[0])
