"""The pending jobs of lanes as `core.rules.serving` reads them. Every statement is a seek."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import apsw

from leasehold.core.rules.serving import Row
from leasehold.stores.tables.order import (
    CANDIDATE,
    PLACE,
    SPREAD,
    Statements,
    TableLaneReader,
)
from leasehold.stores.tables.parking import NEXT_TIER

READY_IN_LANE: Final = f"""
    SELECT {CANDIDATE} FROM ready JOIN job USING (seq) WHERE ready.lane = ?
    ORDER BY tier, turn, ready.seq
"""  # noqa: S608  # our own names
READY_IN_TIER: Final = f"""
    SELECT {CANDIDATE} FROM ready JOIN job USING (seq) WHERE ready.lane = ? AND tier = ?
    ORDER BY turn, ready.seq
"""  # noqa: S608  # our own names
# The index is named because a planner without statistics takes a lane for narrower than a group.
READY_IN_GROUP: Final = f"""
    SELECT {CANDIDATE} FROM ready INDEXED BY ready_by_parent JOIN job USING (seq)
    WHERE ready.parent_id = ? AND ready.lane = ?
    ORDER BY tier, turn, ready.seq
"""  # noqa: S608  # our own names
READY_IN_TIER_OF_GROUP: Final = f"""
    SELECT {CANDIDATE} FROM ready INDEXED BY ready_by_parent JOIN job USING (seq)
    WHERE ready.parent_id = ? AND ready.lane = ? AND tier = ?
    ORDER BY turn, ready.seq
"""  # noqa: S608  # our own names
PLACES_IN_LANE: Final = f"""
    SELECT {PLACE} FROM ready WHERE lane = ? ORDER BY tier, turn, seq
"""  # noqa: S608  # our own names
PLACES_IN_TIER: Final = f"""
    SELECT {PLACE} FROM ready WHERE lane = ? AND tier = ? ORDER BY turn, seq
"""  # noqa: S608  # our own names
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

FOR_LEASING: Final = Statements(SPREAD, NEXT_TIER, READY_IN_LANE, READY_IN_TIER)
"""The columns of a lease."""
FOR_LEASING_IN_GROUP: Final = Statements(
    SPREAD_OF_GROUP, NEXT_TIER_OF_GROUP, READY_IN_GROUP, READY_IN_TIER_OF_GROUP
)
"""The same for the jobs of one parent, whose id comes first."""
FOR_COUNTING: Final = Statements(SPREAD, NEXT_TIER, PLACES_IN_LANE, PLACES_IN_TIER)
"""Only where jobs stand."""


class LaneReader(TableLaneReader):
    """See `leasehold.core.rules.serving.LaneReader`."""

    __slots__ = ()
    _db: apsw.Connection

    def jobs(self, lane: int) -> Iterable[Row]:
        return self._db.cursor().execute(self._statements.in_lane, (*self._narrow, lane))

    def jobs_of_tier(self, lane: int, tier: int) -> Iterator[Row]:
        where = (*self._narrow, lane, tier)
        return iter(self._db.cursor().execute(self._statements.in_tier, where))
