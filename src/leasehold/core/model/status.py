"""The state machine: every status, every verb, and the one table that says which leads where.

The memory store runs this table; SQL stores restate its guards in their WHERE clauses; the soak
(`leasehold.testing.soak`) judges every store by a table of its own, and a test compares the two.

            submit            lease             complete
    (none) ───────► pending ─────────► running ──────────► completed
       │               ▲  ▲ release,      │ │ │
       │ run_at        │  │ recover       │ │ └─ cancel ──► cancelled ─┐
       ├──► scheduled ─┤  └───────────────┤ │                          │ replay
       │ depends_on    │ promote          │ └─── dead ────► dead ──────┤
       └──► blocked ───┤                  │ fail                       ▼
                       └───── failed ◄────┘                    pending, blocked
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from leasehold.core.model.phrases import listed
from leasehold.errors import InvalidTransitionError


class Status(StrEnum):
    """The status of a job."""

    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @classmethod
    def _missing_(cls, value: object) -> None:
        from difflib import get_close_matches  # Only a typo needs it.

        known = [status.value for status in cls]
        near = get_close_matches(str(value).lower(), known, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"there is no status {value!r}: {meant}the statuses are {listed(known)}")

    # Enum's own hash is a Python function, and statuses are looked up several times per job.
    __hash__ = str.__hash__

    @property
    def is_done(self) -> bool:
        """Whether nothing more is expected of the job: it is completed or cancelled."""
        return self in DONE

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended: it will not run again unless a person replays it."""
        return self in TERMINAL


DONE: Final = frozenset({Status.COMPLETED, Status.CANCELLED})
TERMINAL: Final = DONE | {Status.DEAD}
WAITING: Final = frozenset({Status.SCHEDULED, Status.BLOCKED, Status.PENDING, Status.FAILED})
"""Statuses of jobs that have not ended and are not leased."""


class Event(StrEnum):
    """The events of a job; each is one entry of its history."""

    # These change the status.
    CREATED = "created"
    PROMOTED = "promoted"
    UNBLOCKED = "unblocked"
    LEASED = "leased"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    SNOOZED = "snoozed"
    RELEASED = "released"
    RECOVERED = "recovered"
    CANCELLED = "cancelled"
    REPLAYED = "replayed"
    # These only tell.
    CANCEL_REQUESTED = "cancel_requested"
    REPRIORITIZED = "reprioritized"
    HEARTBEAT_FAILED = "heartbeat_failed"
    ABANDONED = "abandoned"
    VERSION_MISMATCH = "version_mismatch"

    __hash__ = str.__hash__


_S = Status

TRANSITIONS: Final[dict[Event, dict[Status | None, frozenset[Status]]]] = {
    Event.CREATED: {None: frozenset({_S.PENDING, _S.SCHEDULED, _S.BLOCKED})},
    Event.PROMOTED: {_S.SCHEDULED: frozenset({_S.PENDING}), _S.FAILED: frozenset({_S.PENDING})},
    Event.UNBLOCKED: {_S.BLOCKED: frozenset({_S.PENDING, _S.SCHEDULED})},
    Event.LEASED: {_S.PENDING: frozenset({_S.RUNNING})},
    Event.COMPLETED: {_S.RUNNING: frozenset({_S.COMPLETED})},
    Event.FAILED: {_S.RUNNING: frozenset({_S.FAILED})},
    Event.SNOOZED: {_S.RUNNING: frozenset({_S.SCHEDULED})},
    # Handed back at once, or with a delay when no worker here knows the task.
    Event.RELEASED: {_S.RUNNING: frozenset({_S.PENDING, _S.SCHEDULED})},
    Event.RECOVERED: {_S.RUNNING: frozenset({_S.PENDING})},
    # From running: out of attempts or failed for good. From the others: its queue was deleted by
    # force, or a dependency failed.
    Event.DEAD: {
        status: frozenset({_S.DEAD})
        for status in (_S.RUNNING, _S.PENDING, _S.SCHEDULED, _S.BLOCKED, _S.FAILED)
    },
    Event.CANCELLED: {
        status: frozenset({_S.CANCELLED})
        for status in (_S.RUNNING, _S.PENDING, _S.SCHEDULED, _S.BLOCKED, _S.FAILED)
    },
    # Blocked again, if a dependency was replayed too and has not ended yet.
    Event.REPLAYED: {
        status: frozenset({_S.PENDING, _S.BLOCKED}) for status in (_S.DEAD, _S.CANCELLED)
    },
}
"""event -> status before -> the statuses it may lead to. Any other step is refused."""


STEPS: Final = frozenset(
    (event, before, after)
    for event, steps in TRANSITIONS.items()
    for before, afters in steps.items()
    for after in afters
)
"""Every step that the table allows: event, status before, status after."""


def allowed(event: Event, before: Status | None) -> frozenset[Status]:
    """The statuses that `event` may lead to from `before`; empty when it is not allowed there."""
    return TRANSITIONS.get(event, {}).get(before, frozenset())


def _in_vain(event: Event) -> str:
    """The message for an event that leads to the status that the job already has."""
    if event is Event.REPLAYED:
        return ": there is nothing to replay"
    return "" if event is Event.CANCELLED else f": it cannot be {event}"


def check(event: Event, before: Status | None, after: Status, job_id: str) -> None:
    """Raise InvalidTransitionError unless the table allows this step."""
    if (event, before, after) not in STEPS:
        if before is after:
            raise InvalidTransitionError(f"job {job_id} is already {before}{_in_vain(event)}")
        if event is Event.REPLAYED:
            able = listed(map(str, TRANSITIONS[event]), "or")
            raise InvalidTransitionError(
                f"job {job_id} is {before or 'new'}; only {able} jobs can be {event}"
            )
        raise InvalidTransitionError(
            f"job {job_id} is {before or 'new'}: it cannot be {event}"
            + (f" and become {after}" if str(after) != str(event) else "")
        )
