"""What happened to a job, in words: its attempts, and its history.

A store of tables keeps no complete log of events. An attempt's record stands for two (leased, and
how it ended), the job's own row for its first, and only the other events have rows of their own.
Every row has the numbers of its events. Here they are merged into one history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from leasehold.core.model.codes import EVENT_OF, STATUS_OF
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.outcome import JobError
from leasehold.core.model.pages import HistoryPage, check_cursor, history_page
from leasehold.core.model.status import Event, Status
from leasehold.core.model.stored import MOMENT_MAX, document_of, moment
from leasehold.core.rules.messages import event_words
from leasehold.env import from_micros


class AttemptRow(NamedTuple):
    """The record of an attempt that has ended."""

    version: int
    number: int
    worker: str
    started_at: int
    ended_at: int
    outcome: int
    after: int
    attempts: int
    leased_event: int
    ended_event: int
    message: str | None
    error_type: str | None
    error_message: str | None
    traceback: str | None
    note: bytes | None
    expires_at: int | None
    heartbeat_at: int | None
    lease_micros: int


class RunningRow(NamedTuple):
    """The current attempt."""

    version: int
    number: int
    worker: str
    acquired_at: int
    expires_at: int
    heartbeat_at: int
    leased_event: int
    lease_micros: int


class EventRow(NamedTuple):
    """An event that no other row stands for."""

    n: int
    at: int
    event: int
    before: int
    after: int
    attempts: int
    worker: str | None
    version: int
    message: str | None
    """The event's message; for a lease whose record was dropped, its expiry."""


class HistoryRows(Protocol):
    """The rows that a store of tables has for one job, each kind in the order of events."""

    job_id: str

    def created(self) -> tuple[int, int] | None:
        """When the job was created, and with which status; None if there is no such job."""

    def attempts(self, since: int = 0, limit: int | None = None) -> Iterable[AttemptRow]:
        """Up to `limit` of its attempts that ended after an event."""

    def running(self) -> Iterable[RunningRow]:
        """The current attempt, if there is one."""

    def events(self, since: int, limit: int | None) -> Iterable[EventRow]:
        """Up to `limit` of its other events after a given one."""

    def leased_at(self, version: int) -> int | None:
        """When a lease began whose attempt record was dropped."""

    def is_dropped(self) -> bool:
        """Whether events are missing: a history that exceeds the bound is dropped as a whole."""


def attempts_of(rows: HistoryRows) -> list[Attempt]:
    """A job's attempts, oldest first."""
    if rows.created() is None:
        return []
    ended = [
        Attempt(
            job_id=rows.job_id,
            lease_version=row.version,
            number=row.number,
            worker=row.worker,
            started_at=from_micros(row.started_at),
            ended_at=from_micros(row.ended_at),
            outcome=EVENT_OF[row.outcome],
            error=None
            if row.error_type is None
            else JobError(row.error_type, row.error_message or "", row.traceback),
            message=row.message or "",
            note=document_of(row.note),
            lease_expires_at=moment(row.expires_at),
            heartbeat_at=moment(row.heartbeat_at),
        )
        for row in rows.attempts()
        if row.outcome in EVENT_OF
    ]
    under_way = [
        Attempt(
            job_id=rows.job_id,
            lease_version=row.version,
            number=row.number,
            worker=row.worker,
            started_at=from_micros(row.acquired_at),
            lease_expires_at=from_micros(row.expires_at),
            heartbeat_at=from_micros(row.heartbeat_at),
        )
        for row in rows.running()
    ]
    return ended + under_way


def page_of_history(rows: HistoryRows, limit: int, cursor: str | None) -> HistoryPage:
    """One page of a job's history."""
    since = check_cursor(limit, cursor) or 0
    return history_page(history_of(rows, since, limit + 1), limit)


def history_of(rows: HistoryRows, since: int = 0, limit: int | None = None) -> list[HistoryEvent]:
    """A job's history after an event. No more rows of each kind are read than events are wanted."""
    created = rows.created()
    if created is None:
        return []
    created_at, born = created
    telling = Telling(rows.job_id, rows)
    telling.add(1, created_at, Event.CREATED, None, STATUS_OF.get(born, Status.PENDING))
    for row in rows.attempts(since, limit):
        telling.leased(
            row.leased_event, row.started_at, row.number, row.worker, row.version,
            row.started_at + row.lease_micros,
        )  # fmt: skip
        if row.outcome in EVENT_OF and row.after in STATUS_OF:  # From a newer version.
            telling.add(
                row.ended_event, row.ended_at, EVENT_OF[row.outcome], Status.RUNNING,
                STATUS_OF[row.after], row.attempts, row.worker, row.version, row.message,
            )  # fmt: skip
    for now in rows.running():
        telling.leased(
            now.leased_event, now.acquired_at, now.number, now.worker, now.version,
            now.acquired_at + now.lease_micros,
        )  # fmt: skip
    for n, at, code, before, after, attempts, worker, version, message in rows.events(since, limit):
        event = EVENT_OF.get(code)
        if event is Event.LEASED:
            until = int(message) if message and message.isdecimal() else at
            telling.leased(n, at, attempts, worker, version, until)
        elif event is not None and before in STATUS_OF and after in STATUS_OF:
            telling.add(
                n, at, event, STATUS_OF[before], STATUS_OF[after], attempts, worker, version,
                message,
            )  # fmt: skip
    if rows.is_dropped():
        return []
    wanted = [entry for entry in telling.told if entry.sequence > since]
    return sorted(wanted, key=lambda entry: entry.sequence)[:limit]


class Telling:
    """The history of one job while it is assembled, each event with its message."""

    def __init__(self, job_id: str, rows: HistoryRows | None = None) -> None:
        self._job_id = job_id
        self._rows = rows
        self._leased_at: dict[int, int] = {}
        """When each lease began, by its version."""
        self.told: list[HistoryEvent] = []

    def leased(
        self, n: int, at: int, attempts: int, worker: str | None, version: int, until: int
    ) -> None:
        """Add the event of a lease, which was granted until then."""
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
        attempts: int = 0,
        worker: str | None = None,
        version: int = 0,
        message: str | None = None,
    ) -> None:
        """Add an event with its stored message, if it has one."""
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
        """When a lease began, possibly before the part of the history that is read."""
        if version not in self._leased_at and self._rows is not None:
            found = self._rows.leased_at(version)
            self._leased_at[version] = otherwise if found is None else found
        return self._leased_at.get(version, otherwise)
