"""The pending jobs of lanes as `core.rules.serving` reads them. Every statement is a seek."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from leasehold.core.rules.serving import SEQ, TIER, TURN, Row
from leasehold.stores.postgres.server.connection import SqlConnection, SqlCursor
from leasehold.stores.postgres.writing.step import Statement
from leasehold.stores.tables.parking import NEXT_TIER

_PLACE: Final = "ready.tier, ready.turn, ready.seq, ready.lane, ready.available_at"
_LEASE: Final = f"""
    {_PLACE}, version, attempts, events, job.id, payload, codec, priority, allowance, lease_seconds,
    timeout_seconds, deadline, start_by, retry, metadata, job.parent_id, created_at, limit_key,
    job.lane, nextval('lease_version'), ready.ctid
"""
"""The columns of a Candidate."""
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
    SELECT {_PLACE} FROM ready WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) {_PAGED} LIMIT $5
"""  # noqa: S608  # our own names
PLACES_IN_TIER: Final = f"""
    SELECT {_PLACE} FROM ready
    WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) AND tier = $2 {_PAGED} LIMIT $5
"""  # noqa: S608  # our own names
# Most lanes have one tier only, and need not be asked which.
SPREAD: Final = """
    SELECT (SELECT min(tier) FROM ready WHERE lane = $1::bigint),
           (SELECT max(tier) FROM ready WHERE lane = $1::bigint)
"""
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


class Candidate(NamedTuple):
    """A pending job as a lease reads it; its values may be damaged."""

    tier: int
    turn: int
    seq: int
    stands_in: int
    """Its lane, or the number under which its key's parked jobs stand."""
    available_at: int
    version: int
    attempts: int
    events: int
    id: str
    payload: bytes
    codec: str | None
    priority: int
    allowance: int
    lease_seconds: float | None
    timeout_seconds: float | None
    deadline: int | None
    start_by: int | None
    retry: str | None
    metadata: str | None
    parent_id: str | None
    created_at: int
    limit_key: str | None
    lane: int
    number: int
    """Of the sequence of lease versions, for the lease of this job."""
    row: bytes
    """Where its row in `ready` is, which is locked and so stays there."""


class Statements(NamedTuple):
    """How to look into a lane; each takes the values that narrow it, the lane, then the tier."""

    spread: str
    next_tier: str
    in_lane: str
    in_tier: str


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


class LaneReader:
    """See `leasehold.core.rules.serving.LaneReader`; jobs are read by pages."""

    __slots__ = ("_db", "_first", "_narrow", "_page", "_statements")

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
        self._db = db
        self._first = first or db.execute
        self._statements = statements
        self._narrow = narrow
        self._page = page

    def has_one_tier(self, lane: int) -> bool:
        row: Any = self._db.execute(self._statements.spread, (*self._narrow, lane)).fetchone()
        return bool(row[0] == row[1])

    def next_tier(self, lane: int, above: int, below: int) -> tuple[int, int] | None:
        where = (*self._narrow, lane, above, below)
        row: Any = self._db.execute(self._statements.next_tier, where).fetchone()
        return row  # type: ignore[no-any-return]  # two numbers, or None

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
