"""The store contract's clauses about reading page by page."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage


class PagedStore(Protocol):
    """What may be long is read in bounded pages, by whoever is far away or in no hurry.

    - PGE-1  Page after page, each with the cursor of the one before, gives what one call without
             pages gives, in the same order. The last page has no cursor.
    - PGE-2  Entries written meanwhile do not disturb it: none is told twice, none left out.
    - PGE-3  A limit outside 1 to PAGE_MAX and a cursor that is none raise InvalidJobError.
    """

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        """A part of what happened to a job, oldest first; empty for a job that is not there.

        - PGE-4  The cursor is the `sequence` of the last event that was told. So whoever keeps one
                 may ask later for what has happened since.
        """

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        """A part of what a job's tasks logged, oldest first; empty for a job that is not there.

        - PGE-5  Lines that were dropped since the page before (LOG-2) are counted by `missed`.
        """

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        """A part of the administrative actions, newest first, archived ones included.

        - PGE-6  Those of a time only, if `since` (inclusive) or `before` (exclusive) is given.
        """
