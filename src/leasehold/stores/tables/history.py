"""The rows from which `core.rules.history` assembles a job's history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from leasehold.core.model.codes import EVENT_CODE
from leasehold.core.model.status import Event
from leasehold.core.rules.history import AttemptRow, EventRow, RunningRow
from leasehold.stores.tables.statements import NO_LIMIT, Kind, Query, Reader

_ATTEMPTS: Final = Query(
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
    # Events are numbered in the order of leases, so a page needs no more rows than it has events.
    "FROM attempt WHERE seq = $1 AND ended_event > $2 ORDER BY version LIMIT $3",
)
_RUNNING_ATTEMPT: Final = Query(
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
    "FROM running WHERE seq = $1",
)
_EVENTS: Final = Query(
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
    "FROM event WHERE seq = $1 AND n > $2 ORDER BY n LIMIT $3",
)
_IS_DROPPED: Final = """
    SELECT events <> 1 + 2 * (SELECT count(*) FROM attempt WHERE seq = $1)
        + (SELECT count(*) FROM event WHERE seq = $1)
    FROM finished WHERE seq = $1
"""
_CREATED: Final = Query(
    {"seq": Kind.WHOLE, "created_at": Kind.MOMENT, "born": Kind.WHOLE}, "FROM job WHERE id = $1"
)
# When a lease began whose attempt record was dropped.
_LEASED_AT: Final = f"""
    SELECT at FROM event WHERE seq = $1 AND version = $2 AND event = {EVENT_CODE[Event.LEASED]}
"""


class JobHistory:
    """See `leasehold.core.rules.history.HistoryRows`."""

    def __init__(self, reader: Reader, job_id: str) -> None:
        self._reader = reader
        self.job_id = job_id
        self._seq, *self._created = next(iter(reader.rows(_CREATED, job_id)), (None,))

    def created(self) -> tuple[int, int] | None:
        return (self._created[0], self._created[1]) if self._created else None

    def attempts(self, since: int = 0, limit: int | None = None) -> Iterator[AttemptRow]:
        return map(AttemptRow._make, self._page(_ATTEMPTS, since, limit))

    def running(self) -> Iterator[RunningRow]:
        return map(RunningRow._make, self._reader.rows(_RUNNING_ATTEMPT, self._seq))

    def events(self, since: int, limit: int | None) -> Iterator[EventRow]:
        return map(EventRow._make, self._page(_EVENTS, since, limit))

    def leased_at(self, version: int) -> int | None:
        row = self._reader.db.execute(_LEASED_AT, (self._seq, version)).fetchone()
        return row[0] if row is not None and isinstance(row[0], int) else None

    def is_dropped(self) -> bool:
        row = self._reader.db.execute(_IS_DROPPED, (self._seq,)).fetchone()
        return row is not None and bool(row[0])

    def _page(self, query: Query, since: int, limit: int | None) -> Iterable[tuple[Any, ...]]:
        return self._reader.rows(query, self._seq, since, NO_LIMIT if limit is None else limit)
