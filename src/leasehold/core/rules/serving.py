"""The order in which pending jobs are served: the best of the first jobs of all lanes and tiers.

A store keeps the jobs of a *lane* (a queue and a task) by tier and turn, as `core.model.priority`
explains. It jumps from one tier to the next and reads each no further than needed, so the cost
grows with the number of tiers, which is bounded, not with the number of jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from leasehold.core.model.priority import FIRST_DEADLINE_TIER, Scoring, score, score_limit

Row = tuple[Any, ...]
"""A pending job: tier, turn, number, lane, available_at, then the store's own columns."""
TIER, TURN, SEQ, _, AVAILABLE = range(5)
BEYOND_ALL_TIERS: Final = 1 << 62


class Lane(NamedTuple):
    """A lane to read, with the parameters of its queue."""

    number: int
    scoring: Scoring
    is_open: Callable[[], object] | None = None
    """Called before each job; once it returns False, no more of the lane is read."""
    has_one_tier: bool = False
    """Whether the lane is known to have one tier; if not, the reader is asked."""


class LaneReader(Protocol):
    """The pending jobs of lanes, by number; each method is a seek in an index."""

    def has_one_tier(self, lane: int) -> bool:
        """Whether all jobs of a lane are in one tier, as in most lanes."""

    def next_tier(self, lane: int, above: int, below: int) -> tuple[int, int] | None:
        """The first tier between these, with the turn of its first job."""

    def jobs(self, lane: int) -> Iterable[Row]:
        """The jobs of a lane, by tier, turn and number."""

    def jobs_of_tier(self, lane: int, tier: int) -> Iterator[Row]:
        """The jobs of one tier, by turn and number."""


def in_order(reader: LaneReader, lanes: Sequence[Lane], now: int) -> Iterable[Row]:
    """The pending jobs of these lanes, best first, read only as far as they are consumed."""
    if len(lanes) == 1:
        return _of_lane(reader, lanes[0], now)
    keyed = [_keyed(_of_lane(reader, lane, now), lane, now) for lane in lanes]
    return (row for *_, row in heapq.merge(*keyed))


def _of_lane(reader: LaneReader, lane: Lane, now: int) -> Iterable[Row]:
    rows: Iterable[Row]
    if lane.scoring.is_plain or lane.has_one_tier or reader.has_one_tier(lane.number):
        # The order is that of the index: there is nothing to compare.
        rows = reader.jobs(lane.number)
    else:
        rows = _Tiers(reader, lane, now).in_order()
    return rows if lane.is_open is None else _while_open(rows, lane.is_open)


class _Kind:
    """The tiers without a deadline, or those with one, and how far they have been read."""

    __slots__ = ("end", "ended", "last", "limit")

    def __init__(self, last: int, end: int) -> None:
        self.last = last
        self.end = end
        self.limit = inf
        """The highest value that a job of the remaining tiers can have."""
        self.ended = False


class _Tiers:
    """The tiers of a lane, merged: the best of their first jobs, again and again.

    Tiers of a kind are ordered by the highest priority that their jobs can have, so tiers that
    cannot hold the best job are not read at all.
    """

    def __init__(self, reader: LaneReader, lane: Lane, now: int) -> None:
        self._reader = reader
        self._lane = lane.number
        self._scoring = lane.scoring
        self._now = now
        # Score, start of the wait, number, row, and the rest of the tier. A tier whose first job
        # was only scored so far sorts before rows with the same score, so that it is read first.
        self._heads: list[tuple[float, int, int, Row | None, Iterator[Row] | int]] = []
        self._kinds = (
            _Kind(-1, FIRST_DEADLINE_TIER),
            _Kind(FIRST_DEADLINE_TIER - 1, BEYOND_ALL_TIERS),
        )

    def in_order(self) -> Iterator[Row]:
        heads = self._heads
        while True:
            self._look_further()
            if not heads:
                return
            *_, row, rest = heads[0]
            if isinstance(rest, int):
                rest = self._reader.jobs_of_tier(self._lane, rest)
            if row is not None:
                yield row
            following = next(rest, None)
            if following is None:
                heapq.heappop(heads)
            else:
                value = -score(following[TIER], following[TURN], self._now, self._scoring)
                entry = (value, following[AVAILABLE], following[SEQ], following, rest)
                heapq.heapreplace(heads, entry)

    def _look_further(self) -> None:
        """Score the first jobs of further tiers until none of the rest can match the best."""
        heads = self._heads
        for kind in self._kinds:
            while not kind.ended and (not heads or kind.limit >= -heads[0][0]):
                found = self._reader.next_tier(self._lane, kind.last, kind.end)
                if found is None:
                    kind.ended = True
                    break
                tier, turn = found
                value = -score(tier, turn, self._now, self._scoring)
                heapq.heappush(heads, (value, -1, tier, None, tier))
                kind.last = tier
                kind.limit = score_limit(tier, self._now, self._scoring)


def _keyed(rows: Iterable[Row], lane: Lane, now: int) -> Iterator[tuple[float, int, int, Row]]:
    """Each job with its sort key: effective priority, start of the wait, number."""
    since = TURN if lane.scoring.is_plain else AVAILABLE
    for row in rows:
        yield -score(row[TIER], row[TURN], now, lane.scoring), row[since], row[SEQ], row


def _while_open(rows: Iterable[Row], is_open: Callable[[], object]) -> Iterator[Row]:
    """Stop reading rows once the queue's last slot is taken."""
    for row in rows:
        if not is_open():
            return
        yield row
