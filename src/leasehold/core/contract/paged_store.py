"""The store contract's clauses about reading page by page."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage


class PagedStore(Protocol):
    """Long lists, read in bounded pages.

    - PGE-1  Page after page, each with the cursor of the one before, gives the same entries as one
             call without pages, in the same order. The last page has no cursor.
    - PGE-2  Entries written meanwhile do no harm: none is returned twice or left out.
    - PGE-3  A limit outside 1 to PAGE_MAX raises InvalidPageError, an invalid cursor
             InvalidCursorError.
    """

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        """One page of a job's history, oldest first; empty for a job that does not exist.

        - PGE-4  The cursor is the `sequence` of the last event returned, so a caller that keeps it
                 may ask later for newer events.
        """

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        """One page of the log of a job's tasks, oldest first; empty for a job that does not exist.

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
        """One page of the administrative actions, newest first, archived ones included.

        - PGE-6  `since` (inclusive) and `before` (exclusive) restrict them by time.
        """
