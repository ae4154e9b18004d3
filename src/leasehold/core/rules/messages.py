"""The messages of a job's history and its reasons, worded once for every store.

Most events have the same few words for every job. A store keeps only their parameters, and gets the
words when somebody reads them (`event_words`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from leasehold.core.model.durations import duration_text
from leasehold.core.model.status import Event, Status
from leasehold.env import from_micros


def not_started_by(start_by: datetime) -> str:
    """Why a job was cancelled instead of leased."""
    return f"not started by {start_by.isoformat()}"


def replayed(actor: str, *, reset_attempts: bool) -> str:
    return f"by {actor}, " + ("attempts reset" if reset_attempts else "one more attempt")


def reprioritized(before: int, after: int, actor: str) -> str:
    return f"from {before} to {after} by {actor}"


def undone(what: str, actor: str) -> str:
    """The message for a job whose replay or cancellation was undone."""
    return f"its {what} was undone by {actor}"


def purged_by(actor: str) -> str:
    """The reason of a job that a person purges, which its dependents repeat."""
    return f"purged by {actor}"


def queue_deleted(queue: str, actor: str) -> str:
    """Why a job is dead that waited in a queue deleted by force."""
    return f"its queue {queue!r} was deleted by {actor}"


def refused_as_stale(worker: str | None, version: int, latest: int) -> str:
    """The history's message about a holder that used a lease that is over.

    >>> refused_as_stale("press-1", 3, 4)
    'refused: press-1 used lease version 3; the latest is 4'
    >>> refused_as_stale(None, 4, 4)
    'refused: a caller used lease version 4, which is over'
    """
    who = "a caller" if worker is None else worker
    if version == latest:
        return f"refused: {who} used lease version {version}, which is over"
    return f"refused: {who} used lease version {version}; the latest is {latest}"


# -- words that are made when somebody reads ---------------------------------------------------

_BORN: Final = {
    Status.PENDING: "submitted",
    Status.SCHEDULED: "submitted; runs later",
    Status.BLOCKED: "submitted; waits for other jobs",
}
_ENDED: Final = {
    Event.COMPLETED: "completed by {}",
    Event.FAILED: "failed under {}",
    Event.DEAD: "failed for good under {}",
    Event.SNOOZED: "snoozed by {}",
    Event.RELEASED: "handed back by {}",
    Event.RECOVERED: "taken back from {}",
    Event.CANCELLED: "cancelled while {} had it",
    Event.CANCEL_REQUESTED: "{} was asked to stop it",
    Event.HEARTBEAT_FAILED: "{} could not renew its lease",
    Event.ABANDONED: "{} gave up its lease",
}
_OTHERWISE: Final = {
    Event.UNBLOCKED: "its dependencies have ended",
    Event.DEAD: "given up while it waited",
    Event.CANCELLED: "cancelled while it waited",
}


def event_words(
    event: Event,
    before: Status | None,
    after: Status,
    worker: str | None,
    *,
    lease_ends_at: int | None = None,
    held_micros: int | None = None,
) -> str:
    """The message of an event without a stored one.

    For events about a lease, `lease_ends_at` is when it was to end and `held_micros` how long it
    was held when it did.

    >>> event_words(Event.LEASED, Status.PENDING, Status.RUNNING, "w-1", lease_ends_at=300_000_000)
    'leased by w-1 until 1970-01-01T00:05:00+00:00'
    >>> event_words(
    ...     Event.COMPLETED, Status.RUNNING, Status.COMPLETED, "w-1", held_micros=3_210_000
    ... )
    'completed by w-1 after 3.2s'
    """
    if event is Event.CREATED:
        return _BORN.get(after, "submitted")
    if event is Event.PROMOTED:
        return "due for a retry" if before is Status.FAILED else "due"
    if event is Event.LEASED:
        until = "" if lease_ends_at is None else f" until {_at(lease_ends_at)}"
        return f"leased by {worker}{until}"
    if worker is None or event not in _ENDED:
        return _OTHERWISE.get(event, event.replace("_", " "))
    took = "" if held_micros is None else f" after {duration_text(held_micros / 1e6)}"
    return _ENDED[event].format(worker) + took


def _at(micros: int) -> str:
    return from_micros(micros).isoformat(timespec="seconds")
