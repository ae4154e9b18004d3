"""Limits per key: what of `tables.parking` this database is told in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE, RESTED_AT_ONCE
from leasehold.core.rules.key_accounts import Key, KeyInLane
from leasehold.stores.postgres.server.connection import POSTGRES, unnested
from leasehold.stores.tables.parking import TableKeyShelf

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
"""  # noqa: S608  # our own names
COUNTED: Final = """
    SELECT place.seq, place.tier, key_lane.id, key_lane.queue, key_lane.key, key_lane.lane
    FROM place JOIN key_lane ON key_lane.id = place.key_lane WHERE place.seq = ANY($1)
"""
# The accounts that have parked jobs of a group, behind one of them: one seek for each.
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
"""  # noqa: S608  # our own number
RESTED: Final = f"""
    DELETE FROM resting WHERE (queue, key) IN (
        SELECT queue, key FROM resting WHERE queue = ANY($1) AND until <= $2
        ORDER BY until LIMIT {RESTED_AT_ONCE})
    RETURNING queue, key
"""  # noqa: S608  # our own number
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
