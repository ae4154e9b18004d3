"""The order in which pending jobs are served: the best of the first jobs of all lanes and tiers.

Every statement here is a seek in an index: the tiers of a lane are found by leaping from one to the
next, and each cursor reads no further than it is asked. So the cost grows with the number of tiers,
which is bounded, and not with the number of jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from leasehold.core.model.priority import FIRST_DEADLINE_TIER, Scoring, score, score_limit
from leasehold.stores.postgres.server.connection import Connection

_PLACE: Final = "ready.tier, ready.turn, ready.seq, ready.lane, ready.available_at"
_LEASE: Final = f"""
    {_PLACE}, version, attempts, events, job.id, payload, codec, priority, allowance, lease_seconds,
    timeout_seconds, deadline, start_by, retry, metadata, job.parent_id, created_at, limit_key,
    job.lane, nextval('lease_version')
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
# From one tier of a lane to the next, with the turn of its first job.
NEXT_TIER: Final = """
    SELECT tier, turn FROM ready WHERE lane = $1 AND tier > $2 AND tier < $3
    ORDER BY tier, turn LIMIT 1
"""
NEXT_TIER_OF_GROUP: Final = """
    SELECT tier, turn FROM ready
    WHERE parent_id = $1 AND lane = $2 AND tier > $3 AND tier < $4 ORDER BY tier, turn LIMIT 1
"""

PAGE: Final = 100
"""How many jobs are read at once, unless it is known how many are wanted."""

Row = tuple[Any, ...]
"""Tier, turn, number, lane, available_at, then what was asked for."""
_TIER, _TURN, _SEQ, _, _AVAILABLE = range(5)
_BEFORE_ALL: Final = -(1 << 62)
"""Before every turn: those of deadlines may be below zero."""


class Candidate(NamedTuple):
    """A pending job as a lease reads it; what is in it may be damaged."""

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


class Statements(NamedTuple):
    """How to look into a lane; each takes the values that narrow it, the lane, then the tier."""

    spread: str
    next_tier: str
    in_lane: str
    in_tier: str


class Lane(NamedTuple):
    """A lane to look into, and what counts in its queue."""

    number: int
    scoring: Scoring
    is_open: Callable[[], object] | None = None
    """Asked before each job; once it says no, no more of the lane is read."""
    has_one_tier: bool = False
    """Whether that is known; if not, it is asked."""


def for_leasing() -> Statements:
    """All that a lease tells."""
    return Statements(SPREAD, NEXT_TIER, READY_IN_LANE, READY_IN_TIER)


def for_leasing_in_group() -> Statements:
    """The same for the jobs of one parent, whose id comes first."""
    return Statements(SPREAD_OF_GROUP, NEXT_TIER_OF_GROUP, READY_IN_GROUP, READY_IN_TIER_OF_GROUP)


def for_counting() -> Statements:
    """Only where jobs stand."""
    return Statements(SPREAD, NEXT_TIER, PLACES_IN_LANE, PLACES_IN_TIER)


def in_order(
    db: Connection,
    lanes: Sequence[Lane],
    now: int,
    statements: Statements,
    narrow: tuple[str, ...] = (),
    *,
    page: int = PAGE,
) -> Iterable[Row]:
    """The pending jobs of these lanes, the best first, by pages as far as they are asked for."""
    if len(lanes) == 1:
        return _of_lane(db, lanes[0], now, statements, narrow, page)
    keyed = [_keyed(_of_lane(db, lane, now, statements, narrow, page), lane, now) for lane in lanes]
    return (row for *_, row in heapq.merge(*keyed))


def _of_lane(
    db: Connection,
    lane: Lane,
    now: int,
    statements: Statements,
    narrow: tuple[str, ...],
    page: int,
) -> Iterable[Row]:
    where = (*narrow, lane.number)
    rows: Iterable[Row]
    if lane.scoring.is_plain or lane.has_one_tier or _has_one_tier(db, statements.spread, where):
        # The order of the index: there is nothing to compare.
        rows = _pages(db, statements.in_lane, where, -1, page)
    else:
        rows = _Tiers(db, lane, now, statements, where, page).in_order()
    return rows if lane.is_open is None else _while_open(rows, lane.is_open)


def _pages(
    db: Connection, statement: str, where: tuple[Any, ...], tier: int, page: int
) -> Iterator[Row]:
    """The rows from the begin of a tier on, a page at a time. The first is asked for at once, so
    that the first pages of several lanes take one round trip together.
    """
    first = db.execute(statement, (*where, tier, _BEFORE_ALL, 0, page))

    def rows() -> Iterator[Row]:
        found = first.fetchall()
        while True:
            yield from found
            if len(found) < page:
                return
            last = found[-1]
            seen = (last[_TIER], last[_TURN], last[_SEQ])
            found = db.execute(statement, (*where, *seen, page)).fetchall()

    return rows()


def _has_one_tier(db: Connection, spread: str, where: tuple[Any, ...]) -> bool:
    row: Any = db.execute(spread, where).fetchone()
    return bool(row[0] == row[1])


class _Kind:
    """Tiers without a deadline, or tiers of deadlines: how far they have been looked at."""

    __slots__ = ("end", "ended", "last", "limit")

    def __init__(self, last: int, end: int) -> None:
        self.last = last
        self.end = end
        self.limit = inf
        """No job of the tiers that are left is worth more."""
        self.ended = False


class _Tiers:
    """The tiers of a lane: the best of their heads, again and again.

    Tiers of a kind stand in the order of what their jobs can be worth at most, so those that cannot
    hold the best job are not even looked at.
    """

    def __init__(
        self,
        db: Connection,
        lane: Lane,
        now: int,
        statements: Statements,
        where: tuple[Any, ...],
        page: int,
    ) -> None:
        self._db = db
        self._page = page
        self._scoring = lane.scoring
        self._now = now
        self._statements = statements
        self._where = where
        # Score, since when it waits, number, row, and the rest of its tier: a tier whose head was
        # only scored so far stands before the rows of that score, to be read first.
        self._heads: list[tuple[float, int, int, Row | None, Iterator[Row] | int]] = []
        self._kinds = (_Kind(-1, FIRST_DEADLINE_TIER), _Kind(FIRST_DEADLINE_TIER - 1, 1 << 62))

    def in_order(self) -> Iterator[Row]:
        heads = self._heads
        while True:
            self._look_further()
            if not heads:
                return
            *_, row, rest = heads[0]
            if isinstance(rest, int):
                rest = _pages(self._db, self._statements.in_tier, self._where, rest, self._page)
            if row is not None:
                yield row
            following = next(rest, None)
            if following is None:
                heapq.heappop(heads)
            else:
                value = -score(following[_TIER], following[_TURN], self._now, self._scoring)
                entry = (value, following[_AVAILABLE], following[_SEQ], following, rest)
                heapq.heapreplace(heads, entry)

    def _look_further(self) -> None:
        """Score the heads of further tiers until none of those left can be as good as the best."""
        heads = self._heads
        for kind in self._kinds:
            while not kind.ended and (not heads or kind.limit >= -heads[0][0]):
                where = (*self._where, kind.last, kind.end)
                found: Any = self._db.execute(self._statements.next_tier, where).fetchone()
                if found is None:
                    kind.ended = True
                    break
                tier, turn = found
                value = -score(tier, turn, self._now, self._scoring)
                heapq.heappush(heads, (value, -1, tier, None, tier))
                kind.last = tier
                kind.limit = score_limit(tier, self._now, self._scoring)


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
