"""The pending jobs of lanes as `core.rules.serving` reads them. Every statement is a seek."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import apsw

from leasehold.core.rules.serving import Row
from leasehold.stores.tables.parking import NEXT_TIER

_PLACE: Final = "ready.tier, ready.turn, ready.seq, ready.lane, ready.available_at"
_LEASE: Final = f"""
    {_PLACE}, version, attempts, events, job.id, payload, codec, priority, allowance, lease_seconds,
    timeout_seconds, deadline, start_by, retry, metadata, job.parent_id, created_at, limit_key,
    job.lane
"""
"""The columns of a Candidate."""
READY_IN_LANE: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq) WHERE ready.lane = ?
    ORDER BY tier, turn, ready.seq
"""  # noqa: S608  # our own names
READY_IN_TIER: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq) WHERE ready.lane = ? AND tier = ?
    ORDER BY turn, ready.seq
"""  # noqa: S608  # our own names
# The index is named because a planner without statistics takes a lane for narrower than a group.
READY_IN_GROUP: Final = f"""
    SELECT {_LEASE} FROM ready INDEXED BY ready_by_parent JOIN job USING (seq)
    WHERE ready.parent_id = ? AND ready.lane = ?
    ORDER BY tier, turn, ready.seq
"""  # noqa: S608  # our own names
READY_IN_TIER_OF_GROUP: Final = f"""
    SELECT {_LEASE} FROM ready INDEXED BY ready_by_parent JOIN job USING (seq)
    WHERE ready.parent_id = ? AND ready.lane = ? AND tier = ?
    ORDER BY turn, ready.seq
"""  # noqa: S608  # our own names
PLACES_IN_LANE: Final = f"""
    SELECT {_PLACE} FROM ready WHERE lane = ? ORDER BY tier, turn, seq
"""  # noqa: S608  # our own names
PLACES_IN_TIER: Final = f"""
    SELECT {_PLACE} FROM ready WHERE lane = ? AND tier = ? ORDER BY turn, seq
"""  # noqa: S608  # our own names
# Most lanes have one tier only, and need not be asked which.
SPREAD: Final = """
    SELECT (SELECT min(tier) FROM ready WHERE lane = ?1),
           (SELECT max(tier) FROM ready WHERE lane = ?1)
"""
SPREAD_OF_GROUP: Final = """
    SELECT (SELECT min(tier) FROM ready INDEXED BY ready_by_parent
            WHERE parent_id = ?1 AND lane = ?2),
           (SELECT max(tier) FROM ready INDEXED BY ready_by_parent
            WHERE parent_id = ?1 AND lane = ?2)
"""
NEXT_TIER_OF_GROUP: Final = """
    SELECT tier, turn FROM ready INDEXED BY ready_by_parent
    WHERE parent_id = ? AND lane = ? AND tier > ? AND tier < ? ORDER BY tier, turn LIMIT 1
"""


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


class LaneReader:
    """See `leasehold.core.rules.serving.LaneReader`."""

    __slots__ = ("_db", "_narrow", "_statements")

    def __init__(
        self, db: apsw.Connection, statements: Statements, narrow: tuple[str, ...] = ()
    ) -> None:
        self._db = db
        self._statements = statements
        self._narrow = narrow

    def has_one_tier(self, lane: int) -> bool:
        row: Any = self._db.execute(self._statements.spread, (*self._narrow, lane)).fetchone()
        return bool(row[0] == row[1])

    def next_tier(self, lane: int, above: int, below: int) -> tuple[int, int] | None:
        where = (*self._narrow, lane, above, below)
        row: Any = self._db.execute(self._statements.next_tier, where).fetchone()
        return row  # type: ignore[no-any-return]  # two numbers, or None

    def jobs(self, lane: int) -> Iterable[Row]:
        return self._db.cursor().execute(self._statements.in_lane, (*self._narrow, lane))

    def jobs_of_tier(self, lane: int, tier: int) -> Iterator[Row]:
        where = (*self._narrow, lane, tier)
        return iter(self._db.cursor().execute(self._statements.in_tier, where))
