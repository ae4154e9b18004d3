"""Reading jobs and their records, and the change feed, which may begin with a write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.core.model.changes import Changes
from leasehold.core.model.pages import check_cursor
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.feed import TableFeed
from leasehold.stores.tables.job_reading import TableJobs
from leasehold.stores.tables.rebalance import LAGS
from leasehold.stores.tables.records import Records
from leasehold.stores.tables.statements import Reader, SqlConnection
from leasehold.stores.verbs.looking import LookingVerbs


class TableLookingVerbs(LookingVerbs):
    """What reads are made of."""

    _database: TableDatabase
    _reader: Callable[[Any], Reader]
    _jobs: type[TableJobs]
    _feed: TableFeed
    _queue_names: Callable[[Any], list[str]]

    def _records(self, look: SqlConnection) -> Records:
        return Records(self._reader(look))

    def _place_what_lags(self) -> None:
        lags = self._look(lambda db: db.execute(LAGS, (self._now(db),)).fetchone())
        if lags is not None:
            self._place_the_rest()

    def _place_the_rest(self) -> None:
        """Move jobs that have to be moved, if this caller may write."""
        self._database.rebalance_the_rest()

    def queues(self) -> list[str]:
        return self._look(self._queue_names)

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        """The caller becomes a follower."""
        seen = check_cursor(limit, cursor)
        was_kept = self._look(lambda db: self._feed.is_followed(db, self._now(db)))
        if not was_kept:
            was_kept = self._feed.begin_to_follow(self._database)
        final = self._feed.final(self._database, seen)
        return self._look(
            lambda db: self._feed.changes(db, cursor, limit, final, was_kept=was_kept)
        )
