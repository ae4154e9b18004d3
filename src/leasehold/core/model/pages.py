"""Pages of ordered lists: history, log and audit; and their cursors.

A cursor is the number of the last entry of the previous page, as text. Numbers never change, so no
entry is returned twice or left out, even if entries are written or dropped between two pages.
"""

from __future__ import annotations

import msgspec

from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.records import AuditRecord
from leasehold.core.model.refusals import check_page, not_a_cursor


class HistoryPage(msgspec.Struct, frozen=True):
    """One page of a job's history, oldest first, and the cursor of the next (None at the end)."""

    events: list[HistoryEvent]
    next_cursor: str | None = None


class LogPage(msgspec.Struct, frozen=True):
    """One page of a job's log, oldest first, and the cursor of the next (None at the end)."""

    lines: list[LogLine]
    next_cursor: str | None = None
    missed: int = 0
    """How many lines between the cursor and these were dropped, to keep the bound of a log."""


class AuditPage(msgspec.Struct, frozen=True):
    """One page of the audit log, newest first, and the cursor of the next (None at the end)."""

    records: list[AuditRecord]
    next_cursor: str | None = None


def check_cursor(limit: int, cursor: str | None) -> int | None:
    """The number in a cursor, None for the first page; raises InvalidCursorError if it is bad."""
    check_page(limit)
    if cursor is None:
        return None
    # No more digits than a store's numbers have: no page returned a longer cursor.
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise not_a_cursor(cursor)
    return int(cursor)


def history_page(events: list[HistoryEvent], limit: int) -> HistoryPage:
    """A page from events after the cursor; one event beyond the limit shows that there are more."""
    more = len(events) > limit
    return HistoryPage(events[:limit], str(events[limit - 1].sequence) if more else None)


def log_page(numbered: list[tuple[int, LogLine]], after: int, limit: int) -> LogPage:
    """A page from numbered lines after the cursor; one beyond the limit means there are more."""
    more = len(numbered) > limit
    return LogPage(
        [line for _, line in numbered[:limit]],
        str(numbered[limit - 1][0]) if more else None,
        missed=numbered[0][0] - after - 1 if numbered else 0,
    )


def audit_page(numbered: list[tuple[int, AuditRecord]], limit: int) -> AuditPage:
    """A page from numbered records below the cursor; one beyond the limit means there are more."""
    more = len(numbered) > limit
    return AuditPage(
        [record for _, record in numbered[:limit]],
        str(numbered[limit - 1][0]) if more else None,
    )
