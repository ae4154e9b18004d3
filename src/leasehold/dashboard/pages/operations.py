"""Operations: which orders to many jobs were given, how far each is, what became of them."""

from __future__ import annotations

from itertools import islice
from typing import Final

from leasehold.core.model.phrases import counted
from leasehold.core.rules.operations import Operation, Undo
from leasehold.dashboard.audit_details import details_of
from leasehold.dashboard.left_behind import still_left_by
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.documents.operations import done_of, operation_document, undo_of

SHOWN_MAX: Final = 100


def operations(desk: Desk, visit: Visit) -> FilledPage:
    now = desk.queue.now()
    known = desk.store.operations()
    return FilledPage(
        "operations.html",
        {
            "title": "Operations",
            "page": "operations",
            "now": now,
            "operations": [operation_document(each, now) for each in islice(known, SHOWN_MAX)],
            "left_out": max(0, len(known) - SHOWN_MAX),
        },
    )


def operation(desk: Desk, visit: Visit) -> FilledPage:
    now = desk.queue.now()
    known = desk.queue.operations.get(visit.text("id"))
    document = operation_document(known, now)
    return FilledPage(
        "operation.html",
        {
            "title": f"{document['verb'].capitalize()} {counted(known.planned, 'job')}",
            "page": "operations",
            "now": now,
            "operation": document,
            "done": None,
            "done_word": done_of(known.order),
            "met": known.changed + sum(known.refused.values()),
            "where": details_of(document["where"]),
            "undo": undo_of(known.order, known.counts),
            "undoes": getattr(known.order, "operation", None),
            "refusals": refusals_of(known),
            "left": still_left_by(desk, known),
        },
    )


def refusals_of(operation: Operation) -> list[tuple[int, str]]:
    """Jobs that could not take the order: how many, and why in words."""
    words = {
        "invalid_transition": "not taken back: leased or changed since, or past undoing"
        if isinstance(operation.order, Undo)
        else "not changed: their status no longer allows it",
        "queue_full": "not changed: their queue is full",
    }
    return [(jobs, words.get(code, f"refused: {code}")) for code, jobs in operation.refused.items()]
