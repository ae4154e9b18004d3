"""The order in which pending jobs are served: the best of the first jobs of all lanes and tiers.

Every statement here is a seek in an index: which tiers a lane has is found by leaping from one to
the next, and each cursor reads no further than it is asked. So the cost grows with the number of
tiers, which is bounded, and not with the number of jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import apsw

from leasehold.core.priority import Scoring, score

_PLACE: Final = "ready.tier, ready.turn, ready.seq, ready.lane, ready.available_at"
_LEASE: Final = f"""
    {_PLACE}, version, attempts, events, job.id, payload, codec, priority, allowance, lease_seconds,
    timeout_seconds, deadline, start_by, retry, metadata, job.parent_id, created_at, limit_key,
    job.lane
"""
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
# Each tier that a lane has jobs in, with the turn of its first: one seek for the next tier, and one
# for its head.
TIERS: Final = """
    WITH RECURSIVE head (tier) AS (
        SELECT min(tier) FROM ready WHERE lane = ?1
        UNION ALL
        SELECT (SELECT min(tier) FROM ready WHERE lane = ?1 AND tier > head.tier)
        FROM head WHERE head.tier IS NOT NULL
    )
    SELECT tier, (SELECT min(turn) FROM ready WHERE lane = ?1 AND tier = head.tier)
    FROM head WHERE tier IS NOT NULL
"""
TIERS_OF_GROUP: Final = """
    WITH RECURSIVE head (tier) AS (
        SELECT min(tier) FROM ready INDEXED BY ready_by_parent WHERE parent_id = ?1 AND lane = ?2
        UNION ALL
        SELECT (SELECT min(tier) FROM ready INDEXED BY ready_by_parent
                WHERE parent_id = ?1 AND lane = ?2 AND tier > head.tier)
        FROM head WHERE head.tier IS NOT NULL
    )
    SELECT tier, (SELECT min(turn) FROM ready INDEXED BY ready_by_parent
                  WHERE parent_id = ?1 AND lane = ?2 AND tier = head.tier)
    FROM head WHERE tier IS NOT NULL
"""

Row = tuple[Any, ...]
"""Tier, turn, number, lane, available_at, then what was asked for."""
_TIER, _TURN, _SEQ, _, _AVAILABLE = range(5)


class Statements(NamedTuple):
    """How to look into a lane; each takes the values that narrow it, the lane, then the tier."""

    tiers: str
    in_lane: str
    in_tier: str


class Lane(NamedTuple):
    """A lane to look into, and what counts in its queue."""

    number: int
    scoring: Scoring
    is_open: Callable[[], object] | None = None
    """Asked before each job; once it says no, no more of the lane is read."""


def for_leasing() -> Statements:
    """All that a lease tells."""
    return Statements(TIERS, READY_IN_LANE, READY_IN_TIER)


def for_leasing_in_group() -> Statements:
    """The same for the jobs of one parent, whose id comes first."""
    return Statements(TIERS_OF_GROUP, READY_IN_GROUP, READY_IN_TIER_OF_GROUP)


def for_counting() -> Statements:
    """Only where jobs stand."""
    return Statements(TIERS, PLACES_IN_LANE, PLACES_IN_TIER)


def in_order(
    db: apsw.Connection,
    lanes: Sequence[Lane],
    now: int,
    statements: Statements,
    narrow: tuple[str, ...] = (),
) -> Iterable[Row]:
    """The pending jobs of these lanes, the best first, read only as far as they are asked for."""
    if len(lanes) == 1:
        return _of_lane(db, lanes[0], now, statements, narrow)
    keyed = [_keyed(_of_lane(db, lane, now, statements, narrow), lane, now) for lane in lanes]
    return (row for *_, row in heapq.merge(*keyed))


def _of_lane(
    db: apsw.Connection, lane: Lane, now: int, statements: Statements, narrow: tuple[str, ...]
) -> Iterable[Row]:
    where = (*narrow, lane.number)
    tiers: list[Any] = []
    if not lane.scoring.is_plain:
        tiers = db.execute(statements.tiers, where).fetchall()
    # In the order of the index unless there is something to compare.
    rows: Iterable[Row]
    if len(tiers) < 2:
        rows = db.cursor().execute(statements.in_lane, where)
    else:
        rows = _of_tiers(db, lane, now, statements.in_tier, where, tiers)
    return rows if lane.is_open is None else _while_open(rows, lane.is_open)


def _of_tiers(
    db: apsw.Connection,
    lane: Lane,
    now: int,
    in_tier: str,
    where: tuple[Any, ...],
    tiers: Sequence[tuple[int, int]],
) -> Iterator[Row]:
    """The best of the tiers' heads, again and again.

    A tier is read only when its head's score is the best: then it stands in the heap with its row,
    behind those of the same score that are still to be read.
    """
    scoring = lane.scoring
    heap: list[tuple[float, int, int, Row | None, Iterator[Row] | int]] = [
        (-score(tier, turn, now, scoring), -1, tier, None, tier) for tier, turn in tiers
    ]
    heapq.heapify(heap)
    while heap:
        *_, row, rest = heap[0]
        if isinstance(rest, int):
            rest = iter(db.cursor().execute(in_tier, (*where, rest)))
        if row is not None:
            yield row
        following = next(rest, None)
        if following is None:
            heapq.heappop(heap)
        else:
            value = -score(following[_TIER], following[_TURN], now, scoring)
            entry = (value, following[_AVAILABLE], following[_SEQ], following, rest)
            heapq.heapreplace(heap, entry)


def _keyed(rows: Iterable[Row], lane: Lane, now: int) -> Iterator[tuple[float, int, int, Row]]:
    """Each job with what it is compared by: effective priority, since when it waits, number."""
    since = _TURN if lane.scoring.is_plain else _AVAILABLE
    for row in rows:
        yield -score(row[_TIER], row[_TURN], now, lane.scoring), row[since], row[_SEQ], row


def _while_open(rows: Iterable[Row], is_open: Callable[[], object]) -> Iterator[Row]:
    """So that nothing is scanned past once the queue's last slot is taken."""
    for row in rows:
        if not is_open():
            return
        yield row
