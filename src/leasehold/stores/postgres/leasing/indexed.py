"""Leases that find the first jobs of a lane through an accelerator.

Normally PostgreSQL finds them itself, by a seek. But while somebody keeps an old snapshot open (a
backup, a long report), it can remove no row that was deleted since, and each lease reads past all
of them. Then the lane is *indexed* (`keeping.index_keeper`): the accelerator names the first spots,
and PostgreSQL confirms and locks the jobs that stand there, each by its key. Behind the last spot
that the accelerator knows, the lane is read as always.

A spot whose job has left, or is locked by another lease, is passed over. Where there are too many
of them, the rest of the lane is read as always too, and the keeper is asked to fill it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from leasehold.core.contract.accelerator import LaneFront, Spot
from leasehold.core.rules.serving import SEQ, TIER, TURN, Row
from leasehold.stores.postgres.leasing.fronts import Fronts
from leasehold.stores.postgres.leasing.order import (
    BEFORE_ALL,
    BEFORE_ALL_TIERS,
    FOR_LEASING,
    LaneReader,
)
from leasehold.stores.postgres.server.connection import SqlConnection, SqlCursor, columns
from leasehold.stores.tables.order import CANDIDATE

# The first free jobs among these spots. Each row is found by its whole key, and its job by a range
# of one number: whatever the planner believes of the tables, it looks up no more than these, one
# spot after the other, and stops when it has enough. A row locked by another write is about to
# leave, so it is skipped.
READY_AT: Final = f"""
    SELECT {CANDIDATE}, nextval('lease_version'), ready.row
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS spot (tier, turn, seq), LATERAL (
        SELECT ready.*, ready.ctid AS row FROM ready
        WHERE ready.lane = $1 AND ready.tier = spot.tier AND ready.turn = spot.turn
            AND ready.seq = spot.seq LIMIT 1 FOR UPDATE SKIP LOCKED) AS ready, LATERAL (
        SELECT * FROM job WHERE job.seq >= ready.seq AND job.seq <= ready.seq
        ORDER BY job.seq LIMIT 1) AS job
    LIMIT $5
"""
SPOTS_AT_ONCE: Final = 1000
"""How many spots are looked at by one statement at most; it begins with as many as are wanted."""
EMPTY_TOLD: Final = 100
"""Where so many spots have no free job, the lane should be filled again."""
EMPTY_MAX: Final = 1000
"""Where there are more than this, the rest of the lane is read as always."""
_BEHIND_ALL: Final = (1 << 63) - 1


class IndexedLaneReader(LaneReader):
    """Reads some lanes by their fronts, and the others as always."""

    __slots__ = ("_asked", "_fronts", "_known")

    def __init__(
        self,
        db: SqlConnection,
        fronts: Fronts,
        known: Mapping[int, LaneFront],
        asked: int,
        *,
        page: int,
    ) -> None:
        """`asked` is how many spots of each front were asked for."""
        super().__init__(db, FOR_LEASING, page=page)
        self._fronts = fronts
        self._known = known
        self._asked = asked

    def has_one_tier(self, lane: int) -> bool:
        # Of an indexed lane, this was found out when the lane was opened.
        return lane not in self._known and super().has_one_tier(lane)

    def next_tier(self, lane: int, above: int, below: int) -> tuple[int, int] | None:
        front = self._known.get(lane)
        if front is None:
            return super().next_tier(lane, above, below)
        behind = (above, _BEHIND_ALL, _BEHIND_ALL)
        found = next((spot for spot in front.spots if spot > behind), None)
        if found is None and len(front.spots) >= self._asked:
            more = self._fronts.after(lane, behind, (below, BEFORE_ALL, 0), 1)
            found = more.spots[0] if more is not None and more.spots else None
        if found is not None and found[0] < below:
            return found[0], found[1]
        if front.end is None:
            return None
        return super().next_tier(lane, above, below)

    def jobs(self, lane: int) -> Iterator[Row]:
        front = self._known.get(lane)
        if front is None:
            return super().jobs(lane)
        return self._along(lane, front, BEFORE_ALL_TIERS, None)

    def jobs_of_tier(self, lane: int, tier: int) -> Iterator[Row]:
        front = self._known.get(lane)
        if front is None:
            return super().jobs_of_tier(lane, tier)
        return self._along(lane, front, (tier, BEFORE_ALL, 0), (tier + 1, BEFORE_ALL, 0))

    def _along(
        self, lane: int, front: LaneFront, begin: Spot, before: Spot | None
    ) -> Iterator[Row]:
        """The jobs between these spots."""
        behind = [spot for spot in front.spots if spot > begin]
        spots = [spot for spot in behind if before is None or spot < before]
        # They are all if the answer had room for more, or names others behind them.
        are_all = len(front.spots) < self._asked or len(spots) < len(behind)
        # The first are requested at once, so that those of several lanes take one round trip.
        sent = self._lock(lane, spots[: self._page]) if spots else None
        known = front._replace(spots=spots)
        return self._rows(lane, known, sent, begin, before, are_all=are_all)

    def _rows(
        self,
        lane: int,
        front: LaneFront,
        sent: SqlCursor | None,
        last: Spot,
        before: Spot | None,
        *,
        are_all: bool,
    ) -> Iterator[Row]:
        spots, end, empty, width = front.spots, front.end, 0, self._page
        while True:
            page, spots = spots[:width], spots[width:]
            if page:
                rows, sent = sorted((sent or self._lock(lane, page)).fetchall(), key=_spot_of), None
                yield from rows
                last = page[-1]
                if len(rows) < self._page:
                    empty += len(page) - len(rows)
                    width = min(4 * width, SPOTS_AT_ONCE)
                elif len(rows) < len(page):
                    # The statement has looked no further.
                    last = _spot_of(rows[-1])
                    spots = [*page[page.index(last) + 1 :], *spots]
            if empty > EMPTY_TOLD:
                self._fronts.is_short.set()
            if empty > EMPTY_MAX:
                end = last
                break
            if not spots:
                if are_all:
                    break
                more = self._fronts.after(lane, last, before, SPOTS_AT_ONCE)
                if more is None:
                    end = last
                    break
                spots, end, are_all = more.spots, more.end, len(more.spots) < SPOTS_AT_ONCE
        if end is not None and (before is None or end < before):
            statement = self._statements.in_tier if before else self._statements.in_lane
            yield from self._pages(statement, lane, max(last, end))

    def _lock(self, lane: int, spots: Sequence[Spot]) -> SqlCursor:
        """Lock the first jobs that stand there, as many as are wanted."""
        return self._db.execute(READY_AT, (lane, *columns(spots), self._page))


def _spot_of(row: Row) -> Spot:
    return row[TIER], row[TURN], row[SEQ]
