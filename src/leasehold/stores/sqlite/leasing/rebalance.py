"""The passes of `core.rules.rebalancing` over pending jobs, as rows of `rescoring`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leasehold.core.rules import rebalancing
from leasehold.core.rules.key_accounts import Account, Counted
from leasehold.core.rules.placing import Standing
from leasehold.core.rules.rebalancing import BEYOND, Pass
from leasehold.stores.sqlite.leasing import parking, ready
from leasehold.stores.sqlite.leasing.parking import Shelf
from leasehold.stores.sqlite.leasing.ready import STANDING
from leasehold.stores.sqlite.writing.step import Step

CROSSING: Final = f"""
    SELECT {STANDING} FROM place CROSS JOIN job USING (seq) CROSS JOIN ready
        ON ready.lane = coalesce(place.lane, job.lane) AND ready.tier = place.tier
            AND ready.turn = place.turn AND ready.seq = job.seq
        LEFT JOIN raised ON raised.seq = job.seq
    WHERE crosses_at <= ? ORDER BY crosses_at LIMIT ?
"""  # noqa: S608  # our own names
LAGS: Final = """
    SELECT 1 FROM place WHERE crosses_at <= ? UNION ALL SELECT 1 FROM rescoring LIMIT 1
"""
RESCORE: Final = """
    INSERT OR REPLACE INTO rescoring
    SELECT coalesce(-(SELECT id FROM key_lane WHERE key_lane.lane = lane.id ORDER BY key LIMIT 1),
                    id), -1, 0, 0
    FROM lane WHERE queue = ?1
        AND (pending > 0 OR EXISTS (SELECT 1 FROM key_lane WHERE key_lane.lane = lane.id))
"""
SOME_RESCORING: Final = "SELECT 1 FROM rescoring LIMIT 1"
NEXT_LANE: Final = "SELECT lane, tier, turn, seq FROM rescoring LIMIT 1"
AFTER: Final = f"""
    SELECT {STANDING} FROM ready CROSS JOIN job USING (seq)
        LEFT JOIN raised ON raised.seq = job.seq
    WHERE ready.lane = ?1 AND (ready.tier, ready.turn, ready.seq) > (?2, ?3, ?4)
    ORDER BY ready.tier, ready.turn, ready.seq LIMIT ?5
"""  # noqa: S608  # our own names
GOT_SO_FAR: Final = "UPDATE rescoring SET tier = ?, turn = ?, seq = ? WHERE lane = ?"
RESCORED: Final = "DELETE FROM rescoring WHERE lane = ?"

FORGET_RUNNING: Final = "UPDATE key_lane SET running = 0 WHERE queue = ?"
# `running` is small, so all of it may be read.
COUNT_RUNNING: Final = """
    INSERT INTO key_lane (queue, key, lane, running)
    SELECT lane.queue, limit_key, job.lane, count(*)
    FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane
    WHERE lane.queue = ? AND limit_key IS NOT NULL GROUP BY job.lane, limit_key
    ON CONFLICT DO UPDATE SET running = excluded.running
"""
# The first account of each lane; the others follow.
LOOK_AGAIN: Final = f"""
    INSERT OR IGNORE INTO rescoring
    SELECT -first, {BEYOND}, 0, 0 FROM (
        SELECT (SELECT id FROM key_lane WHERE key_lane.lane = lane.id ORDER BY key LIMIT 1) AS first
        FROM lane WHERE queue = ?)
    WHERE first IS NOT NULL
"""  # noqa: S608  # our own number
NEXT_ACCOUNT: Final = "SELECT id FROM key_lane WHERE lane = ? AND key > ? ORDER BY key LIMIT 1"
LOOK_INTO: Final = "INSERT OR IGNORE INTO rescoring VALUES (?, ?, 0, 0)"
PLACE_ANEW: Final = "INSERT OR REPLACE INTO rescoring VALUES (?, -1, 0, 0)"
FORGET_ACCOUNTS: Final = "DELETE FROM key_lane WHERE queue = ?"
FORGET_RESTING: Final = "DELETE FROM resting WHERE queue = ?"
COUNT_NO_MORE: Final = "UPDATE place SET lane = NULL, key_lane = NULL WHERE seq = ?"
# Guard: nothing of it is shown or parked. What runs is not counted without a limit.
CLOSE_UNLIMITED: Final = """
    DELETE FROM key_lane WHERE id = ?1
        AND NOT EXISTS (SELECT 1 FROM place WHERE key_lane = ?1 AND place.lane IS NULL)
        AND NOT EXISTS (SELECT 1 FROM ready WHERE ready.lane = -?1)
"""


class Passes:
    """See `leasehold.core.rules.rebalancing.PassBook`."""

    __slots__ = ("shelf", "write")

    def __init__(self, step: Step) -> None:
        self.write = step
        self.shelf = Shelf(step)

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
            self.write.execute(LOOK_INTO, (-found[0][0], tier))
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

    def queue_of(self, lane: int) -> str | None:
        return ready.queue_of(self.write, lane)

    def move(self, jobs: Sequence[Standing]) -> None:
        ready.move(self.write, jobs)

    def counted_among(self, seqs: Sequence[int]) -> Mapping[int, Counted]:
        return parking.counted_among(self.write, seqs)

    def count_no_more(self, job: Standing, account: Account) -> None:
        if job.lane != account.lane:
            self.shelf.change_lane(job.tier, (job.turn, job.seq), job.lane, account.lane)
            self.write.newly_shown.add(job.seq)
        self.write.execute(COUNT_NO_MORE, (job.seq,))

    def find(self, seq: int) -> Standing | None:
        return ready.find(self.write, seq)

    def account(self, number: int) -> Account | None:
        return next((Account(*row) for row in self._rows(parking.ACCOUNT, number)), None)

    def close_unlimited(self, account: Account) -> None:
        self.write.execute(CLOSE_UNLIMITED, (account.id,))

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        return self.write.execute(statement, values).fetchall()


def rebalance(step: Step) -> bool:
    """Place jobs anew that need it, so many of them; whether there may be more."""
    return rebalancing.rebalance(Passes(step))


def forget(step: Step, queue: str) -> None:
    """A queue is deleted; nothing is pending in it any more."""
    step.execute(FORGET_ACCOUNTS, (queue,))
    step.execute(FORGET_RESTING, (queue,))
