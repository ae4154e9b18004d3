"""The rows that `core.rules.history` weaves a job's history of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leasehold.core.model.codes import EVENT_CODE
from leasehold.core.model.status import Event
from leasehold.core.rules.history import AttemptRow, EventRow, RunningRow
from leasehold.stores.postgres.server.connection import Connection, Cursor

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
_IS_DROPPED: Final = """
    SELECT events <> 1 + 2 * (SELECT count(*) FROM attempt WHERE seq = $1)
        + (SELECT count(*) FROM event WHERE seq = $1)
    FROM finished WHERE seq = $1
"""
_CREATED: Final = "SELECT seq, created_at, born FROM job WHERE id = $1"
# When a lease began whose attempt record had to go.
_LEASED_AT: Final = f"""
    SELECT at FROM event WHERE seq = $1 AND version = $2 AND event = {EVENT_CODE[Event.LEASED]}
"""  # noqa: S608  # our own number


class JobHistory:
    """See `leasehold.core.rules.history.HistoryRows`."""

    def __init__(self, db: Connection, job_id: str) -> None:
        self._db = db
        self.job_id = job_id
        row = db.execute(_CREATED, (job_id,)).fetchone()
        self._seq, *self._created = row or (None,)

    def created(self) -> tuple[int, int] | None:
        return (self._created[0], self._created[1]) if self._created else None

    def attempts(self, since: int = 0, limit: int | None = None) -> Iterator[AttemptRow]:
        return map(AttemptRow._make, self._rows(_ATTEMPTS, since, limit))

    def running(self) -> Iterator[RunningRow]:
        return map(RunningRow._make, self._rows(_RUNNING_ATTEMPT))

    def events(self, since: int, limit: int | None) -> Iterator[EventRow]:
        return map(EventRow._make, self._rows(_EVENTS, since, limit))

    def leased_at(self, version: int) -> int | None:
        row = self._rows(_LEASED_AT, version).fetchone()
        return None if row is None else row[0]

    def is_dropped(self) -> bool:
        row = self._rows(_IS_DROPPED).fetchone()
        return row is not None and row[0]

    def _rows(self, statement: str, *values: int | None) -> Cursor:
        return self._db.execute(statement, (self._seq, *values))
