"""The passes of `core.rules.rebalancing` over pending jobs, as rows of `rescoring`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leasehold.core.rules import rebalancing
from leasehold.core.rules.key_accounts import Account, Counted
from leasehold.core.rules.placing import Standing
from leasehold.core.rules.rebalancing import BEYOND, Pass
from leasehold.stores.tables.order import STANDING, TableReady, standing_of
from leasehold.stores.tables.parking import ACCOUNT, LOOK_AGAIN_AT
from leasehold.stores.tables.step import TableStep

CROSSING: Final = f"""
    SELECT {STANDING} FROM place CROSS JOIN job CROSS JOIN ready
        LEFT JOIN raised ON raised.seq = job.seq
    WHERE crosses_at <= $1 AND job.seq = place.seq
        AND ready.lane = coalesce(place.lane, job.lane) AND ready.tier = place.tier
        AND ready.turn = place.turn AND ready.seq = job.seq
    ORDER BY crosses_at LIMIT $2
"""
LAGS: Final = """
    SELECT 1 FROM place WHERE crosses_at <= $1 UNION ALL SELECT 1 FROM rescoring LIMIT 1
"""
RESCORE: Final = """
    INSERT INTO rescoring
    SELECT coalesce(-(SELECT id FROM key_lane WHERE key_lane.lane = lane.id ORDER BY key LIMIT 1),
                    id), -1, 0, 0
    FROM lane WHERE queue = $1
        AND (pending > 0 OR EXISTS (SELECT 1 FROM key_lane WHERE key_lane.lane = lane.id))
    ON CONFLICT (lane) DO UPDATE SET tier = -1, turn = 0, seq = 0
"""
SOME_RESCORING: Final = "SELECT 1 FROM rescoring LIMIT 1"
NEXT_LANE: Final = "SELECT lane, tier, turn, seq FROM rescoring ORDER BY lane LIMIT 1"
AFTER: Final = f"""
    SELECT {STANDING} FROM ready CROSS JOIN job LEFT JOIN raised ON raised.seq = job.seq
    WHERE job.seq = ready.seq AND ready.lane = $1
        AND (ready.tier, ready.turn, ready.seq) > ($2, $3, $4)
    ORDER BY ready.tier, ready.turn, ready.seq LIMIT $5
"""
GOT_SO_FAR: Final = "UPDATE rescoring SET tier = $1, turn = $2, seq = $3 WHERE lane = $4"
RESCORED: Final = "DELETE FROM rescoring WHERE lane = $1"

FORGET_RUNNING: Final = "UPDATE key_lane SET running = 0 WHERE queue = $1"
# `running` is small, so all of it may be read.
COUNT_RUNNING: Final = """
    INSERT INTO key_lane (queue, key, lane, running)
    SELECT lane.queue, limit_key, job.lane, count(*)
    FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane
    WHERE lane.queue = $1 AND limit_key IS NOT NULL GROUP BY lane.queue, job.lane, limit_key
    ON CONFLICT (lane, key) DO UPDATE SET running = excluded.running
"""
# The first account of each lane; the others follow.
LOOK_AGAIN: Final = f"""
    INSERT INTO rescoring
    SELECT -first, {BEYOND}, 0, 0 FROM (
        SELECT (SELECT id FROM key_lane WHERE key_lane.lane = lane.id ORDER BY key LIMIT 1) AS first
        FROM lane WHERE queue = $1) AS found
    WHERE first IS NOT NULL ON CONFLICT DO NOTHING
"""
NEXT_ACCOUNT: Final = "SELECT id FROM key_lane WHERE lane = $1 AND key > $2 ORDER BY key LIMIT 1"
PLACE_ANEW: Final = """
    INSERT INTO rescoring VALUES ($1, -1, 0, 0)
    ON CONFLICT (lane) DO UPDATE SET tier = -1, turn = 0, seq = 0
"""
FORGET_RESTING: Final = "DELETE FROM resting WHERE queue = $1"
FORGET_ACCOUNTS: Final = "DELETE FROM key_lane WHERE queue = $1"
COUNT_NO_MORE: Final = "UPDATE place SET lane = NULL, key_lane = NULL WHERE seq = $1"
# Guard: none of its jobs is shown or parked. Without a limit, running jobs are not counted.
CLOSE_UNLIMITED: Final = """
    DELETE FROM key_lane WHERE id = $1
        AND NOT EXISTS (SELECT 1 FROM place WHERE key_lane = $1 AND place.lane IS NULL)
        AND NOT EXISTS (SELECT 1 FROM ready WHERE ready.lane = -$1)
"""


class TablePasses:
    """See `leasehold.core.rules.rebalancing.PassBook`."""

    __slots__ = ("_ready", "queue_of", "shelf", "write")

    def __init__(self, step: TableStep, ready: type[TableReady]) -> None:
        self._ready = ready(step)
        self.write = step
        self.queue_of = step.queue_of
        self.shelf = ready.shelf(step)

    def move(self, jobs: Sequence[Standing]) -> None:
        self._ready.move(jobs)

    def counted_among(self, seqs: Sequence[int]) -> Mapping[int, Counted]:
        return self.shelf.counted_among(seqs)

    def crossing(self, limit: int) -> list[Standing]:
        return [Standing(*row) for row in self._rows(CROSSING, self.write.now, limit)]

    def next_jobs(self, limit: int) -> tuple[Pass, list[Standing]] | None:
        begun = next((Pass(*row) for row in self._rows(NEXT_LANE)), None)
        if begun is None:
            return None
        jobs = [Standing(*row) for row in self._rows(AFTER, *begun, limit)]
        if len(jobs) < limit:
            self.write.execute(RESCORED, (begun.lane,))
        else:
            last = jobs[-1]
            self.write.execute(GOT_SO_FAR, (last.tier, last.turn, last.seq, begun.lane))
        return begun, jobs

    def begin_after(self, lane: int, key: str, tier: int) -> bool:
        found = self._rows(NEXT_ACCOUNT, lane, key)
        if found:
            self.write.execute(LOOK_AGAIN_AT, (-found[0][0], tier))
        return bool(found)

    def begin_again(self, lane: int) -> None:
        self.write.execute(PLACE_ANEW, (lane,))

    def begin_in(self, queue: str) -> None:
        self.write.flush()  # The counters say which lanes have work.
        self.write.execute(RESCORE, (queue,))

    def look_again_in(self, queue: str) -> None:
        self.write.execute(LOOK_AGAIN, (queue,))

    def count_running_anew(self, queue: str) -> None:
        self.write.execute(FORGET_RUNNING, (queue,))
        self.write.execute(COUNT_RUNNING, (queue,))

    def count_no_more(self, job: Standing, account: Account) -> None:
        if job.lane != account.lane:
            self.shelf.change_lane(job.tier, (job.turn, job.seq), job.lane, account.lane)
            self.write.newly_shown.add(job.seq)
        self.write.execute(COUNT_NO_MORE, (job.seq,))

    def find(self, seq: int) -> Standing | None:
        return standing_of(self.write, seq)

    def account(self, number: int) -> Account | None:
        return next((Account(*row) for row in self._rows(ACCOUNT, number)), None)

    def close_unlimited(self, account: Account) -> None:
        self.write.execute(CLOSE_UNLIMITED, (account.id,))

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        return self.write.execute(statement, values).fetchall()


def rebalance(step: TableStep, ready: type[TableReady]) -> bool:
    """Move a bounded number of jobs that need it; returns whether there may be more."""
    return rebalancing.rebalance(TablePasses(step, ready))


def forget(step: TableStep, queue: str) -> None:
    """Forget a deleted queue, which has no pending jobs any more."""
    step.execute(FORGET_ACCOUNTS, (queue,))
    step.execute(FORGET_RESTING, (queue,))
