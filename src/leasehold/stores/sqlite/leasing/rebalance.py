"""Placing pending jobs anew: when time takes them into another tier, or their queue's rules change.

A lease does it before it looks, and so does the sweep, so many jobs in one write. Guard: a job is
moved by the place at which it was found in the same write.
"""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.budget import PLACED_AT_ONCE
from leasehold.stores.sqlite.leasing import ready, relimit
from leasehold.stores.sqlite.leasing.ready import STANDING, Standing
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
# What is parked comes first, or a job that is shown meanwhile would be passed over. There may be
# many accounts of keys: each is followed by the next, the last by its lane (`relimit.py`).
RESCORE: Final = """
    INSERT OR REPLACE INTO rescoring
    SELECT coalesce(-(SELECT id FROM key_lane WHERE key_lane.lane = lane.id ORDER BY key LIMIT 1),
                    id), -1, 0, 0
    FROM lane WHERE queue = ?1
        AND (pending > 0 OR EXISTS (SELECT 1 FROM key_lane WHERE key_lane.lane = lane.id))
"""
SOME_RESCORING: Final = "SELECT 1 FROM rescoring LIMIT 1"
NEXT_LANE: Final = "SELECT lane, tier, turn, seq FROM rescoring LIMIT 1"
# Those that were moved ahead are met again, and stay; none is passed over.
AFTER: Final = f"""
    SELECT {STANDING} FROM ready CROSS JOIN job USING (seq)
        LEFT JOIN raised ON raised.seq = job.seq
    WHERE ready.lane = ?1 AND (ready.tier, ready.turn, ready.seq) > (?2, ?3, ?4)
    ORDER BY ready.tier, ready.turn, ready.seq LIMIT ?5
"""  # noqa: S608  # our own names
GOT_SO_FAR: Final = "UPDATE rescoring SET tier = ?, turn = ?, seq = ? WHERE lane = ?"
RESCORED: Final = "DELETE FROM rescoring WHERE lane = ?"


def rebalance(step: Step) -> bool:
    """Place jobs anew that need it, so many of them; whether there may be more."""
    left = PLACED_AT_ONCE
    if step.next_crossing is not None and step.next_crossing <= step.now:
        left -= _cross(step, left)
        if not left:
            return True
        step.next_crossing = None
    while step.some_rescoring and left > 0 and step.shown_left:
        left -= _rescore(step, left)
    return step.some_rescoring


def rescore(step: Step, queue: str) -> None:
    """What counts in a queue has changed: its pending jobs are to be placed anew."""
    step.flush()  # The counters say which lanes have work.
    step.execute(RESCORE, (queue,))
    step.some_rescoring = True


def _cross(step: Step, limit: int) -> int:
    rows: list[Any] = step.execute(CROSSING, (step.now, limit)).fetchall()
    ready.move(step, [Standing(*row) for row in rows])
    return len(rows)


def _rescore(step: Step, limit: int) -> int:
    """Go on with one lane; answers how many jobs were looked at, at least one."""
    lane: Any = step.execute(NEXT_LANE).fetchone()
    if lane is None:
        step.some_rescoring = False
        return 1
    rows: list[Any] = step.execute(AFTER, (*lane, limit)).fetchall()
    standings = [Standing(*row) for row in rows]
    if len(rows) < limit:
        step.execute(RESCORED, (lane[0],))
    else:
        last = standings[-1]
        step.execute(GOT_SO_FAR, (last.tier, last.turn, last.seq, last.lane))
    limited = relimit.is_limited(step, lane[0])
    if not limited:
        standings = relimit.let_go(step, standings)
    ready.move(step, standings, ready.scoring_of(step, lane[0]))
    if limited:
        relimit.take_in(step, standings)
    if len(rows) < limit:
        relimit.looked_through(step, lane[0], only_looking=lane[1] == relimit.BEYOND)
    return max(1, len(rows))
