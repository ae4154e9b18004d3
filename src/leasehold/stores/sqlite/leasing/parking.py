"""Limits per key: what of `tables.parking` this database is told in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE, RESTED_AT_ONCE
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.key_accounts import Key, KeyInLane
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.tables.parking import TableKeyShelf

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
# The accounts that have parked jobs of a group, behind one of them: one seek for each.
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
"""  # noqa: S608  # our own number
# A moment that cannot be read may have come: it is above all moments.
RESTED: Final = f"""
    SELECT queue, key FROM resting WHERE queue = ?1 AND until <= ?2
    UNION ALL SELECT queue, key FROM resting WHERE queue = ?1 AND until > {MOMENT_MAX} LIMIT ?3
"""  # noqa: S608  # our own number
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
