"""Plans and operations for the outside: as documents, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.phrases import listed
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    Order,
    PurgeAll,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.operations import Operation, Undo
from leasehold.core.rules.queue_orders import said
from leasehold.documents.records import in_utc

_VERBS: Final[dict[type, tuple[str, str]]] = {
    CancelAll: ("cancel", "cancelled"),
    ReplayAll: ("replay", "replayed"),
    DiscardAll: ("discard", "discarded"),
    ReprioritizeAll: ("reprioritize", "reprioritized"),
    PurgeAll: ("purge", "purged"),
    Undo: ("undo", "taken back"),
}


def verb_of(order: Order | Undo) -> str:
    """The verb of an order: "replay"."""
    return _VERBS[type(order)][0]


def done_of(order: Order | Undo) -> str:
    """The verb for its jobs afterwards: "replayed"."""
    return _VERBS[type(order)][1]


def operation_document(operation: Operation, now: datetime) -> dict[str, Any]:
    """An operation as a document; `state` also says whether it was interrupted."""
    return {
        "id": operation.id,
        "verb": verb_of(operation.order),
        "state": state_of(operation, now),
        "actor": operation.actor,
        "begun_at": in_utc(operation.begun_at),
        "active_at": in_utc(operation.active_at),
        "ended_at": in_utc(operation.ended_at),
        "planned": operation.planned,
        "changed": operation.changed,
        "refused": operation.refused,
        "moved_on": operation.moved_on,
        "counts": {status.value: jobs for status, jobs in operation.counts.items()},
        "skipped": {status.value: jobs for status, jobs in operation.skipped.items()},
        "where": said(operation.where),
        "order": msgspec.to_builtins(operation.order),
        "undone_by": operation.undone_by,
        "resumed_by": operation.resumed_by,
        "can_be_undone": operation.can_be_undone,
    }


def state_of(operation: Operation, now: datetime) -> str:
    """How far it is: running, interrupted, stopped or done."""
    return "interrupted" if operation.is_interrupted(now) else operation.state.value


def by_status(counts: Mapping[Status, int]) -> str:
    """Counts in words.

    >>> by_status({Status.DEAD: 1200, Status.CANCELLED: 3})
    '1,200 dead, 3 cancelled'
    """
    return ", ".join(f"{jobs:,} {status.value}" for status, jobs in counts.items())


def why_skipped(order: Order) -> str:
    """Why jobs of other statuses do not get an order."""
    match order:
        case CancelAll():
            return "they have already ended"
        case ReplayAll():
            return "only dead and cancelled jobs are replayed"
        case DiscardAll():
            return "they have not ended"
        case ReprioritizeAll():
            return "only waiting jobs have a place to change"
        case PurgeAll():
            return "only waiting jobs are purged"


def undo_of(order: Order | Undo, counts: Mapping[Status, int]) -> str:
    """The part of an order that can be undone, to be read before it is given.

    >>> undo_of(CancelAll(), {Status.SCHEDULED: 60})
    'This cannot be undone: all of these jobs are scheduled.'
    """
    match order:
        case ReplayAll():
            return (
                "Until a worker takes a job, you can undo this for it; it then returns to its "
                "previous state."
            )
        case CancelAll():
            lost: dict[Status, int] = {
                status: jobs
                for status, jobs in counts.items()
                if status not in (Status.PENDING, Status.BLOCKED)
            }
            if any(lost.values()) and sum(lost.values()) == sum(counts.values()):
                held = listed(status.value for status, jobs in lost.items() if jobs)
                return f"This cannot be undone: all of these jobs are {held}."
            rest = f", but not the {by_status(lost)}" if lost else ""
            return (
                f"This can be undone: pending and blocked jobs wait again{rest}. Jobs that "
                "depend on them and are cancelled with them stay cancelled."
            )
        case ReprioritizeAll():
            return (
                "Until a worker takes a job, you can undo this for it; it then has its previous "
                "priority."
            )
        case Undo():
            return "An undo is not undone."
        case _:
            return "This cannot be undone: the jobs are deleted with all their records."
