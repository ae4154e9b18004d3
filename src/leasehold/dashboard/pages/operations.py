"""Operations: which orders to many jobs were given, how far each is, what became of them."""

from __future__ import annotations

from itertools import islice
from typing import Final

from leasehold.dashboard.shown import json_text
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
            "title": f"{document['verb']} {known.planned:,} jobs",
            "page": "operations",
            "now": now,
            "operation": document,
            "done": None,
            "done_word": done_of(known.order),
            "met": known.changed + sum(known.refused.values()),
            "where": json_text(document["where"]),
            "undo": undo_of(known.order, known.counts),
            "undoes": getattr(known.order, "operation", None),
        },
    )
