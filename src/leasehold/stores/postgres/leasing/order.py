"""Pending jobs: the statements for their rows, their order, and parked jobs, for PostgreSQL.

See `tables.order` and `tables.parking`. Every statement that reads in order is a seek.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE, RESTED_AT_ONCE
from leasehold.core.model.priority import default_tier
from leasehold.core.rules.key_accounts import Key, KeyInLane
from leasehold.core.rules.measuring import count_entered
from leasehold.core.rules.serving import SEQ, TIER, TURN, Row
from leasehold.stores.postgres.server.connection import POSTGRES, SqlConnection, SqlCursor, unnested
from leasehold.stores.postgres.writing.step import Statement, Step
from leasehold.stores.tables.order import (
    CANDIDATE,
    PLACE,
    SPREAD,
    Newcomer,
    PendingJob,
    Statements,
    TableLaneReader,
    TableReady,
)
from leasehold.stores.tables.parking import NEXT_TIER, TableKeyShelf

# Only jobs that are not counted yet: a job is taken in once.
KEY_OF_UNCOUNTED: Final = """
    SELECT job.seq, lane.queue, limit_key, job.lane
    FROM job JOIN lane ON lane.id = job.lane LEFT JOIN place ON place.seq = job.seq
    WHERE job.seq = ANY($1) AND limit_key IS NOT NULL AND place.key_lane IS NULL
"""
KEY_OF_JOB: Final = """
    SELECT lane.queue, limit_key, job.lane FROM job JOIN lane ON lane.id = job.lane
    WHERE job.seq = ANY($1) AND limit_key IS NOT NULL
"""
COUNT_RUNNING: Final = f"""
    INSERT INTO key_lane (queue, key, lane, running)
    SELECT * FROM {unnested("text text bigint bigint")}
    ON CONFLICT (lane, key) DO UPDATE SET running = key_lane.running + excluded.running
"""
COUNTED: Final = """
    SELECT place.seq, place.tier, key_lane.id, key_lane.queue, key_lane.key, key_lane.lane
    FROM place JOIN key_lane ON key_lane.id = place.key_lane WHERE place.seq = ANY($1)
"""
# The accounts with parked jobs of a group, after a given one: one seek for each.
PARKED_IN_GROUP: Final = f"""
    WITH RECURSIVE parked (lane, keys_left) AS (
        SELECT min(lane), {PARKED_KEYS_AT_ONCE - 1} FROM ready
        WHERE parent_id = $1 AND lane > $2 AND lane < 0
        UNION ALL
        SELECT (SELECT min(lane) FROM ready
                WHERE parent_id = $1 AND lane > parked.lane AND lane < 0), keys_left - 1
        FROM parked WHERE parked.lane IS NOT NULL AND keys_left > 0
    )
    SELECT parked.lane, key_lane.id, key_lane.queue, key_lane.key, key_lane.lane
    FROM parked LEFT JOIN key_lane ON key_lane.id = -parked.lane WHERE parked.lane IS NOT NULL
    ORDER BY parked.lane
"""
RESTED: Final = f"""
    DELETE FROM resting WHERE (queue, key) IN (
        SELECT queue, key FROM resting WHERE queue = ANY($1) AND until <= $2
        ORDER BY until LIMIT {RESTED_AT_ONCE})
    RETURNING queue, key
"""
TIERS_NOW: Final = "SELECT seq, tier FROM place WHERE seq = ANY($1)"


class KeyShelf(TableKeyShelf):
    """The pending jobs of limited keys, in one write."""

    __slots__ = ()
    dialect = POSTGRES
    find_counted = COUNTED
    find_parked_in_group = PARKED_IN_GROUP

    def keys_of_uncounted(self, seqs: Sequence[int]) -> Mapping[int, KeyInLane]:
        rows = self._rows(KEY_OF_UNCOUNTED, (list(seqs),))
        return {seq: (queue, key, lane) for seq, queue, key, lane in rows}

    def keys_of(self, seqs: Iterable[int]) -> Iterable[KeyInLane]:
        return self._rows(KEY_OF_JOB, (list(seqs),))

    def tiers_of(self, seqs: Sequence[int]) -> Mapping[int, int]:
        return dict(self._rows(TIERS_NOW, (list(seqs),)))

    def count_running(self, jobs: Sequence[tuple[str, str, int, int]]) -> None:
        self._step.many(COUNT_RUNNING, jobs)

    def take_rested(self, queues: Sequence[str]) -> Sequence[Key]:
        return self._rows(RESTED, (list(queues), self._step.now))


# A new job's place is the default one, unless it has a deadline or its queue a max_priority.
ENTER_NEW_FROM: Final = """
    INSERT INTO ready
    SELECT lane, (100 - priority) * 1000, turn, seq, 0, 0, 1, turn, parent_id FROM
"""
ENTER_NEW: Final = f"""
    {ENTER_NEW_FROM} {unnested("bigint bigint bigint bigint text")}
        AS new (lane, priority, turn, seq, parent_id)
"""
ENTER: Final = f"""
    INSERT INTO ready SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint bigint text")
}
"""
MOVE: Final = f"""
    UPDATE ready SET tier = to_tier, turn = to_turn FROM {
    unnested("bigint bigint bigint bigint bigint bigint")
} AS moved (to_tier, to_turn, lane, tier, turn, seq)
    WHERE ready.lane = moved.lane AND ready.tier = moved.tier AND ready.turn = moved.turn
        AND ready.seq = moved.seq
"""
REMEMBER_PLACES: Final = f"""
    INSERT INTO place (seq, tier, turn, crosses_at)
    SELECT * FROM {unnested("bigint bigint bigint bigint")}
    ON CONFLICT (seq) DO UPDATE
    SET tier = excluded.tier, turn = excluded.turn, crosses_at = excluded.crosses_at
"""
FORGET_PLACES: Final = "DELETE FROM place WHERE seq = ANY($1)"
# OFFSET makes it look up the place of each job: the planner might begin a join with all places.
LEAVE_BY_NUMBERS: Final = """
    DELETE FROM ready WHERE (lane, tier, turn, seq) IN (
        SELECT coalesce(own.lane, job.lane), coalesce(own.tier, (100 - priority) * 1000),
               coalesce(own.turn, created_at), job.seq
        FROM job LEFT JOIN LATERAL (SELECT * FROM place WHERE place.seq = job.seq OFFSET 0) AS own
            ON true
        WHERE job.seq = ANY($1))
"""


class ReadyRows(TableReady):
    """The ready table in one write."""

    __slots__ = ()
    shelf = KeyShelf
    enter_rows = ENTER
    move_rows = MOVE
    remember_places = REMEMBER_PLACES
    _step: Step

    def enter_new(self, newcomers: Sequence[Newcomer]) -> None:
        self._step.look_again()
        self._step.many(ENTER_NEW, newcomers)
        if self._step.indexed:
            self._step.now_stand(
                (lane, default_tier(priority), turn, seq)
                for lane, priority, turn, seq, _ in newcomers
            )
        count_entered(self._step.count, newcomers)

    def _take_out(self, jobs: Sequence[PendingJob]) -> Sequence[tuple[int, int]]:
        self._step.execute(LEAVE_BY_NUMBERS, ([seq for seq, *_ in jobs],))
        return [(lane, priority) for _, lane, priority in jobs]

    def _forget_places(self, seqs: Sequence[int]) -> None:
        self._step.execute(FORGET_PLACES, (list(seqs),))


_LEASE: Final = f"{CANDIDATE}, nextval('lease_version'), ready.ctid"
"""The columns of a Candidate, followed by a number from the sequence of lease versions, for the
lease of this job, and the place of its row in `ready`, which is locked and so does not move.
"""
_AFTER: Final = "(ready.tier, ready.turn, ready.seq) > "
_PAGED: Final = "ORDER BY ready.tier, ready.turn, ready.seq"
# A row locked by another write is about to leave, so it is skipped.
_FREE: Final = "FOR UPDATE OF ready SKIP LOCKED"
READY_IN_LANE: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) {_PAGED} LIMIT $5 {_FREE}
"""
READY_IN_TIER: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) AND tier = $2 {_PAGED} LIMIT $5 {_FREE}
"""
READY_IN_GROUP: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.parent_id = $1 AND ready.lane = $2 AND {_AFTER} ($3, $4, $5)
    {_PAGED} LIMIT $6 {_FREE}
"""
READY_IN_TIER_OF_GROUP: Final = f"""
    SELECT {_LEASE} FROM ready JOIN job USING (seq)
    WHERE ready.parent_id = $1 AND ready.lane = $2 AND {_AFTER} ($3, $4, $5) AND tier = $3
    {_PAGED} LIMIT $6 {_FREE}
"""
PLACES_IN_LANE: Final = f"""
    SELECT {PLACE} FROM ready WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) {_PAGED} LIMIT $5
"""
PLACES_IN_TIER: Final = f"""
    SELECT {PLACE} FROM ready
    WHERE ready.lane = $1 AND {_AFTER} ($2, $3, $4) AND tier = $2 {_PAGED} LIMIT $5
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
"""How many jobs are read at once if it is not known how many are wanted."""

BEFORE_ALL: Final = -(1 << 62)
"""Before every turn; turns of deadlines may be negative."""
BEFORE_ALL_TIERS: Final = (-1, BEFORE_ALL, 0)

FOR_LEASING: Final = Statements(SPREAD, NEXT_TIER, READY_IN_LANE, READY_IN_TIER)
"""The columns of a lease."""
FOR_LEASING_IN_GROUP: Final = Statements(
    SPREAD_OF_GROUP, NEXT_TIER_OF_GROUP, READY_IN_GROUP, READY_IN_TIER_OF_GROUP
)
"""The same for the jobs of one parent, whose id is the first value."""
FOR_COUNTING: Final = Statements(SPREAD, NEXT_TIER, PLACES_IN_LANE, PLACES_IN_TIER)
"""Only the places of jobs."""


def first_jobs(lane: int, page: int) -> Statement:
    """The first statement with which `LaneReader.jobs` reads a lane for a lease."""
    return READY_IN_LANE, (lane, *BEFORE_ALL_TIERS, page)


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
        """`first` executes a statement that may already have been sent."""
        super().__init__(db, statements, narrow)
        self._first = first or db.execute
        self._page = page

    def jobs(self, lane: int) -> Iterator[Row]:
        return self._pages(self._statements.in_lane, lane, BEFORE_ALL_TIERS)

    def jobs_of_tier(self, lane: int, tier: int) -> Iterator[Row]:
        return self._pages(self._statements.in_tier, lane, (tier, BEFORE_ALL, 0))

    def _pages(self, statement: str, lane: int, begin: tuple[int, int, int]) -> Iterator[Row]:
        """The rows of a lane after this place, a page at a time. The first page is requested at
        once, so that the first pages of several lanes take one round trip together.
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
