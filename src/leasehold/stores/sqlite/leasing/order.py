"""Pending jobs: the statements for their rows, their order, and parked jobs, for SQLite.

See `tables.order` and `tables.parking`. Every statement that reads in order is a seek.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import apsw

from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE, RESTED_AT_ONCE
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.key_accounts import Key, KeyInLane
from leasehold.core.rules.measuring import count_entered
from leasehold.core.rules.serving import Row
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.order import (
    CANDIDATE,
    PLACE,
    SPREAD,
    Newcomer,
    PendingJob,
    Statements,
    TableLaneReader,
    TableReady,
    keys_of,
)
from leasehold.stores.tables.parking import NEXT_TIER, TableKeyShelf

# Only jobs that are not counted yet: a job is taken in once.
KEY_OF_UNCOUNTED: Final = """
    SELECT lane.queue, limit_key, job.lane
    FROM job JOIN lane ON lane.id = job.lane LEFT JOIN place ON place.seq = job.seq
    WHERE job.seq = ? AND limit_key IS NOT NULL AND place.key_lane IS NULL
"""
KEY_OF_JOB: Final = """
    SELECT lane.queue, limit_key, job.lane FROM job JOIN lane ON lane.id = job.lane
    WHERE job.seq = ? AND limit_key IS NOT NULL
"""
COUNT_RUNNING: Final = """
    INSERT INTO key_lane (queue, key, lane, running) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET running = running + excluded.running
"""
COUNTED: Final = """
    SELECT place.seq, place.tier, key_lane.id, key_lane.queue, key_lane.key, key_lane.lane
    FROM json_each(?) AS named CROSS JOIN place ON place.seq = named.value
        CROSS JOIN key_lane ON key_lane.id = place.key_lane
"""
# The accounts with parked jobs of a group, after a given one: one seek for each.
PARKED_IN_GROUP: Final = f"""
    WITH RECURSIVE parked (lane, left) AS (
        SELECT min(lane), {PARKED_KEYS_AT_ONCE - 1} FROM ready INDEXED BY ready_by_parent
        WHERE parent_id = ?1 AND lane > ?2 AND lane < 0
        UNION ALL
        SELECT (SELECT min(lane) FROM ready INDEXED BY ready_by_parent
                WHERE parent_id = ?1 AND lane > parked.lane AND lane < 0), left - 1
        FROM parked WHERE parked.lane IS NOT NULL AND left > 0
    )
    SELECT parked.lane, key_lane.id, key_lane.queue, key_lane.key, key_lane.lane
    FROM parked LEFT JOIN key_lane ON key_lane.id = -parked.lane WHERE parked.lane IS NOT NULL
"""
# An unreadable time may have come: it sorts above all times.
RESTED: Final = f"""
    SELECT queue, key FROM resting WHERE queue = ?1 AND until <= ?2
    UNION ALL SELECT queue, key FROM resting WHERE queue = ?1 AND until > {MOMENT_MAX} LIMIT ?3
"""
TIER_NOW: Final = "SELECT tier FROM place WHERE seq = ?"
REST_NO_MORE: Final = "DELETE FROM resting WHERE queue = ? AND key = ?"


class KeyShelf(TableKeyShelf):
    """The pending jobs of limited keys, in one write."""

    __slots__ = ()
    dialect = SQLITE
    find_counted = COUNTED
    find_parked_in_group = PARKED_IN_GROUP

    def keys_of_uncounted(self, seqs: Sequence[int]) -> Mapping[int, KeyInLane]:
        found = ((seq, self._rows(KEY_OF_UNCOUNTED, (seq,))) for seq in seqs)
        return {seq: rows[0] for seq, rows in found if rows}

    def keys_of(self, seqs: Iterable[int]) -> Iterable[KeyInLane]:
        return (row for seq in seqs for row in self._rows(KEY_OF_JOB, (seq,)))

    def tiers_of(self, seqs: Sequence[int]) -> Mapping[int, int]:
        return {seq: self._rows(TIER_NOW, (seq,))[0][0] for seq in seqs}

    def count_running(self, jobs: Sequence[tuple[str, str, int, int]]) -> None:
        self._step.many(COUNT_RUNNING, jobs)

    def take_rested(self, queues: Sequence[str]) -> Sequence[Key]:
        rested: list[Key] = []
        for queue in dict.fromkeys(queues):
            left = RESTED_AT_ONCE - len(rested)
            rested += self._rows(RESTED, (queue, self._step.now, left))
        self._step.many(REST_NO_MORE, rested)
        return rested


# A new job's place is the default one, unless it has a deadline or its queue a max_priority.
ENTER_NEW: Final = "INSERT INTO ready VALUES (?1, (100 - ?2) * 1000, ?3, ?4, 0, 0, 1, ?3, ?5)"
ENTER: Final = "INSERT INTO ready VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
LEAVE: Final = "DELETE FROM ready WHERE lane = ? AND tier = ? AND turn = ? AND seq = ?"
MOVE: Final = """
    UPDATE ready SET tier = ?, turn = ? WHERE lane = ? AND tier = ? AND turn = ? AND seq = ?
"""
REMEMBER_PLACE: Final = """
    INSERT INTO place (seq, tier, turn, crosses_at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE
    SET tier = excluded.tier, turn = excluded.turn, crosses_at = excluded.crosses_at
"""
FORGET_PLACE: Final = "DELETE FROM place WHERE seq = ?"
LEAVE_BY_NUMBER: Final = f"""
    DELETE FROM ready WHERE (lane, tier, turn, seq) IN ({keys_of("= $1")})
    RETURNING (SELECT lane FROM job WHERE job.seq = ready.seq),
              (SELECT priority FROM job WHERE job.seq = ready.seq)
"""


class ReadyRows(TableReady):
    """The ready table in one write."""

    __slots__ = ()
    shelf = KeyShelf
    enter_rows = ENTER
    move_rows = MOVE
    remember_places = REMEMBER_PLACE
    _step: Step

    def enter_new(self, newcomers: Sequence[Newcomer]) -> None:
        self._step.write_many(ENTER_NEW, newcomers)
        count_entered(self._step.count, newcomers)

    def _take_out(self, jobs: Sequence[PendingJob]) -> Sequence[tuple[int, int]]:
        numbers = [(seq,) for seq, *_ in jobs]
        out: list[Any] = self._step.executemany(LEAVE_BY_NUMBER, numbers).fetchall()
        return out

    def _forget_places(self, seqs: Sequence[int]) -> None:
        self._step.executemany(FORGET_PLACE, [(seq,) for seq in seqs])


READY_IN_LANE: Final = f"""
    SELECT {CANDIDATE} FROM ready JOIN job USING (seq) WHERE ready.lane = ?
    ORDER BY tier, turn, ready.seq
"""
READY_IN_TIER: Final = f"""
    SELECT {CANDIDATE} FROM ready JOIN job USING (seq) WHERE ready.lane = ? AND tier = ?
    ORDER BY turn, ready.seq
"""
# The index is named because a planner without statistics considers a lane narrower than a group.
READY_IN_GROUP: Final = f"""
    SELECT {CANDIDATE} FROM ready INDEXED BY ready_by_parent JOIN job USING (seq)
    WHERE ready.parent_id = ? AND ready.lane = ?
    ORDER BY tier, turn, ready.seq
"""
READY_IN_TIER_OF_GROUP: Final = f"""
    SELECT {CANDIDATE} FROM ready INDEXED BY ready_by_parent JOIN job USING (seq)
    WHERE ready.parent_id = ? AND ready.lane = ? AND tier = ?
    ORDER BY turn, ready.seq
"""
PLACES_IN_LANE: Final = f"""
    SELECT {PLACE} FROM ready WHERE lane = ? ORDER BY tier, turn, seq
"""
PLACES_IN_TIER: Final = f"""
    SELECT {PLACE} FROM ready WHERE lane = ? AND tier = ? ORDER BY turn, seq
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

FOR_LEASING: Final = Statements(SPREAD, NEXT_TIER, READY_IN_LANE, READY_IN_TIER)
"""The columns of a lease."""
FOR_LEASING_IN_GROUP: Final = Statements(
    SPREAD_OF_GROUP, NEXT_TIER_OF_GROUP, READY_IN_GROUP, READY_IN_TIER_OF_GROUP
)
"""The same for the jobs of one parent, whose id is the first value."""
FOR_COUNTING: Final = Statements(SPREAD, NEXT_TIER, PLACES_IN_LANE, PLACES_IN_TIER)
"""Only the places of jobs."""


class LaneReader(TableLaneReader):
    """See `leasehold.core.rules.serving.LaneReader`."""

    __slots__ = ()
    _db: apsw.Connection

    def jobs(self, lane: int) -> Iterable[Row]:
        return self._db.cursor().execute(self._statements.in_lane, (*self._narrow, lane))

    def jobs_of_tier(self, lane: int, tier: int) -> Iterator[Row]:
        where = (*self._narrow, lane, tier)
        return iter(self._db.cursor().execute(self._statements.in_tier, where))
