"""The pending jobs of lanes as `core.rules.serving` reads them. Every statement is a seek."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from leasehold.core.rules.serving import SEQ, TIER, TURN, Row
from leasehold.stores.postgres.server.connection import SqlConnection, SqlCursor
from leasehold.stores.postgres.writing.step import Statement
from leasehold.stores.tables.order import (
    CANDIDATE,
    PLACE,
    SPREAD,
    Statements,
    TableLaneReader,
)
from leasehold.stores.tables.parking import NEXT_TIER

_LEASE: Final = f"{CANDIDATE}, nextval('lease_version'), ready.ctid"
"""The columns of a Candidate; behind them a number of the sequence of lease versions, for the lease
of this job, and where its row in `ready` is, which is locked and so stays there."""
_AFTER: Final = "(ready.tier, ready.turn, ready.seq) > "
_PAGED: Final = "ORDER BY ready.tier, ready.turn, ready.seq"
# A row that another write has locked is about to leave: it is passed over.
_FREE: Final = "FOR UPDATE OF ready SKIP LOCKED"
READY_IN_LANE: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) {_PAGED} LIMIT $5 {_FREE}
"""  # noqa: S608  # our own names
READY_IN_TIER: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) AND tier = $2 {_PAGED} LIMIT $5 {_FREE}
"""  # noqa: S608  # our own names
READY_IN_GROUP: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.parent_id = $1 AND ready.lane = $2 AND {_AFTER} ($3, $4, $5)
    {_PAGED} LIMIT $6 {_FREE}
"""  # noqa: S608  # our own names
READY_IN_TIER_OF_GROUP: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.parent_id = $1 AND ready.lane = $2 AND {_AFTER} ($3, $4, $5) AND tier = $3
    {_PAGED} LIMIT $6 {_FREE}
"""  # noqa: S608  # our own names
PLACES_IN_LANE: Final = f"""
    SELECT {PLACE} FROM ready WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) {_PAGED} LIMIT $5
"""  # noqa: S608  # our own names
PLACES_IN_TIER: Final = f"""
    SELECT {PLACE} FROM ready
    WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) AND tier = $2 {_PAGED} LIMIT $5
"""  # noqa: S608  # our own names
SPREAD_OF_GROUP: Final = """
    SELECT (SELECT min(tier) FROM ready
            WHERE parent_id = $1 AND lane = $2),
           (SELECT max(tier) FROM ready
            WHERE parent_id = $1 AND lane = $2)
"""
NEXT_TIER_OF_GROUP: Final = """
    SELECT tier, turn FROM ready
    WHERE parent_id = $1 AND lane = $2 AND tier > $3 AND tier < $4 ORDER BY tier, turn LIMIT 1
"""

PAGE: Final = 100
"""How many jobs are read at once, unless it is known how many are wanted."""

_BEFORE_ALL: Final = -(1 << 62)
"""Before every turn: those of deadlines may be below zero."""
_BEFORE_ALL_TIERS: Final = (-1, _BEFORE_ALL, 0)

FOR_LEASING: Final = Statements(SPREAD, NEXT_TIER, READY_IN_LANE, READY_IN_TIER)
"""The columns of a lease."""
FOR_LEASING_IN_GROUP: Final = Statements(
    SPREAD_OF_GROUP, NEXT_TIER_OF_GROUP, READY_IN_GROUP, READY_IN_TIER_OF_GROUP
)
"""The same for the jobs of one parent, whose id comes first."""
FOR_COUNTING: Final = Statements(SPREAD, NEXT_TIER, PLACES_IN_LANE, PLACES_IN_TIER)
"""Only where jobs stand."""


def first_jobs(lane: int, page: int) -> Statement:
    """The statement with which `LaneReader.jobs` begins to read a lane for a lease."""
    return READY_IN_LANE, (lane, *_BEFORE_ALL_TIERS, page)


class LaneReader(TableLaneReader):
    """See `leasehold.core.rules.serving.LaneReader`; jobs are read by pages."""

    __slots__ = ("_first", "_page")
    _db: SqlConnection

    def __init__(
        self,
        db: SqlConnection,
        statements: Statements,
        narrow: tuple[str, ...] = (),
        *,
        page: int = PAGE,
        first: Callable[[str, Sequence[Any]], SqlCursor] | None = None,
    ) -> None:
        """`first` executes a statement that may have been sent already."""
        super().__init__(db, statements, narrow)
        self._first = first or db.execute
        self._page = page

    def jobs(self, lane: int) -> Iterator[Row]:
        return self._pages(self._statements.in_lane, lane, _BEFORE_ALL_TIERS)

    def jobs_of_tier(self, lane: int, tier: int) -> Iterator[Row]:
        return self._pages(self._statements.in_tier, lane, (tier, _BEFORE_ALL, 0))

    def _pages(self, statement: str, lane: int, begin: tuple[int, int, int]) -> Iterator[Row]:
        """The rows of a lane after this place, a page at a time. The first is asked for at once,
        so that the first pages of several lanes take one round trip together.
        """
        where = (*self._narrow, lane)
        first = self._first(statement, (*where, *begin, self._page))

        def rows() -> Iterator[Row]:
            found = first.fetchall()
            while True:
                yield from found
                if len(found) < self._page:
                    return
                last = found[-1]
                seen = (last[TIER], last[TURN], last[SEQ])
                found = self._db.execute(statement, (*where, *seen, self._page)).fetchall()

        return rows()
