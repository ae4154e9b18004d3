"""Placing pending jobs anew: when time takes them into another tier, or their queue's rules change.

A lease does it before it looks, and so does the sweep, so many jobs in one write. Guard: a job is
moved by the place at which it was found in the same write.

A queue's limit per key may be set, changed or taken away while jobs are pending and running. What
runs is counted at once, in the write that changes the limit, so the next lease obeys it. The
pending jobs are dealt with here: until the pass has come to them, leases meet them, and park those
that may not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from leasehold.core.model.budget import PLACED_AT_ONCE
from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.rules.parking import fill_all
from leasehold.stores.postgres.leasing import parking, ready
from leasehold.stores.postgres.leasing.parking import Account, Shelf
from leasehold.stores.postgres.leasing.ready import STANDING, Standing
from leasehold.stores.postgres.writing.step import Step

CROSSING: Final = f"""
    SELECT {STANDING} FROM place JOIN job USING (seq) JOIN ready
        ON ready.lane = coalesce(place.lane, job.lane) AND ready.tier = place.tier
            AND ready.turn = place.turn AND ready.seq = job.seq
        LEFT JOIN raised ON raised.seq = job.seq
    WHERE crosses_at <= $1 ORDER BY crosses_at LIMIT $2
"""  # noqa: S608  # our own names
LAGS: Final = """
    SELECT 1 FROM place WHERE crosses_at <= $1 UNION ALL SELECT 1 FROM rescoring LIMIT 1
"""
# What is parked comes first, or a job that is shown meanwhile would be passed over. There may be
# many accounts of keys: each is followed by the next, the last by its lane.
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
# Rows that moved forward are visited again (a no-op); none is skipped.
AFTER: Final = f"""
    SELECT {STANDING} FROM ready JOIN job USING (seq)
        LEFT JOIN raised ON raised.seq = job.seq
    WHERE ready.lane = $1 AND (ready.tier, ready.turn, ready.seq) > ($2, $3, $4)
    ORDER BY ready.tier, ready.turn, ready.seq LIMIT $5
"""  # noqa: S608  # our own names
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
BEYOND: Final = 9223372036854775807
"""A tier beyond the last job: from there none is placed anew, only accounts are looked at."""
# The first account of each lane; the others follow.
LOOK_AGAIN: Final = f"""
    INSERT INTO rescoring
    SELECT -first, {BEYOND}, 0, 0 FROM (
        SELECT (SELECT id FROM key_lane WHERE key_lane.lane = lane.id ORDER BY key LIMIT 1) AS first
        FROM lane WHERE queue = $1) AS found
    WHERE first IS NOT NULL ON CONFLICT DO NOTHING
"""  # noqa: S608  # our own number
NEXT_ACCOUNT: Final = "SELECT id FROM key_lane WHERE lane = $1 AND key > $2 ORDER BY key LIMIT 1"
LOOK_INTO: Final = "INSERT INTO rescoring VALUES ($1, $2, 0, 0) ON CONFLICT DO NOTHING"
PLACE_ANEW: Final = """
    INSERT INTO rescoring VALUES ($1, -1, 0, 0)
    ON CONFLICT (lane) DO UPDATE SET tier = -1, turn = 0, seq = 0
"""
FORGET_RESTING: Final = "DELETE FROM resting WHERE queue = $1"
FORGET_ACCOUNTS: Final = "DELETE FROM key_lane WHERE queue = $1"
COUNT_NO_MORE: Final = "UPDATE place SET lane = NULL, key_lane = NULL WHERE seq = $1"
# Guard: nothing of it is shown or parked. What runs is not counted without a limit.
CLOSE_UNLIMITED: Final = """
    DELETE FROM key_lane WHERE id = $1
        AND NOT EXISTS (SELECT 1 FROM place WHERE key_lane = $1 AND place.lane IS NULL)
        AND NOT EXISTS (SELECT 1 FROM ready WHERE ready.lane = -$1)
"""


class Pass(NamedTuple):
    """How far the pass over a lane, or over the parked jobs of an account, has got."""

    lane: int
    tier: int
    turn: int
    seq: int


def rebalance(step: Step) -> bool:
    """Place jobs anew that need it, so many of them; whether there may be more."""
    left = PLACED_AT_ONCE
    if step.next_crossing is not None and step.next_crossing <= step.now:
        left -= _cross(step, left)
        if not left:
            return True
        step.next_crossing = None
    while step.some_rescoring and left > 0 and step.shown_left:
        left -= _go_on(step, left)
    return step.some_rescoring


def rescore(step: Step, queue: str) -> None:
    """What counts in a queue has changed: its pending jobs are to be placed anew."""
    step.flush()  # The counters say which lanes have work.
    step.execute(RESCORE, (queue,))
    step.some_rescoring = True


def limits_changed(
    step: Step, queue: str, before: KeyLimits | None, after: KeyLimits | None
) -> None:
    """Count by other limits per key from now on; those whom it concerns are looked at."""
    if before == after:
        return
    if before is not None and after is not None:
        step.execute(LOOK_AGAIN, (queue,))
        step.some_rescoring = True
        return
    if after is not None:
        # Accounts are left from an earlier limit only while the pass that closes them goes on.
        step.execute(FORGET_RUNNING, (queue,))
        step.execute(COUNT_RUNNING, (queue,))
    rescore(step, queue)


def forget(step: Step, queue: str) -> None:
    """A queue is deleted; nothing is pending in it any more."""
    step.execute(FORGET_ACCOUNTS, (queue,))
    step.execute(FORGET_RESTING, (queue,))


def _cross(step: Step, limit: int) -> int:
    rows: list[Any] = step.execute(CROSSING, (step.now, limit)).fetchall()
    ready.move(step, [Standing(*row) for row in rows])
    return len(rows)


def _go_on(step: Step, limit: int) -> int:
    """Go on with one lane; answers how many jobs were looked at, at least one."""
    row: Any = step.execute(NEXT_LANE).fetchone()
    if row is None:
        step.some_rescoring = False
        return 1
    begun = Pass(*row)
    rows: list[Any] = step.execute(AFTER, (*begun, limit)).fetchall()
    standings = [Standing(*each) for each in rows]
    if len(rows) < limit:
        step.execute(RESCORED, (begun.lane,))
    else:
        last = standings[-1]
        step.execute(GOT_SO_FAR, (last.tier, last.turn, last.seq, last.lane))
    limited = ready.queue_of(step, begun.lane) in step.rules.key_limits
    if not limited:
        standings = _let_go(step, standings)
    ready.move(step, standings, ready.scoring_of(step, begun.lane))
    if limited:
        _take_in(step, standings)
    if len(rows) < limit:
        _looked_through(step, begun.lane, only_looking=begun.tier == BEYOND)
    return max(1, len(rows))


def _let_go(step: Step, jobs: Sequence[Standing]) -> list[Standing]:
    """Put jobs back that are still counted although nothing limits them; where they stand then."""
    known = parking.counted_among(step, [job.seq for job in jobs])
    free = []
    for job in jobs:
        if job.seq in known:
            account = known[job.seq].account
            if job.lane != account.lane:
                key = (job.tier, job.turn, job.seq)
                step.execute(parking.CHANGE_LANE, (account.lane, job.lane, *key))
                step.newly_shown.add(job.seq)
            step.execute(COUNT_NO_MORE, (job.seq,))
            job = job._replace(lane=account.lane)  # noqa: PLW2901  # the same job, elsewhere
        free.append(job)
    return free


def _take_in(step: Step, jobs: Sequence[Standing]) -> None:
    """Count jobs for their keys that came before the limit, and park who is too many."""
    for job in jobs:
        now = ready.find(step, job.seq) if job.lane > 0 else None
        if now is not None:
            parking.enter(step, [now[:4]])


def _looked_through(step: Step, lane: int, *, only_looking: bool) -> None:
    """The last job of a lane was looked at: show what may run, and forget what is not needed.

    Accounts are followed by the next one of their lane, in the order of keys. After the last whose
    jobs were placed anew comes the lane itself, and after that its accounts are looked at again.
    """
    if lane > 0:
        _look_into_next(step, lane, "", BEYOND)
        return
    row: Any = step.execute(parking.ACCOUNT, (-lane,)).fetchone()
    if row is None:
        return
    account = Account(*row)
    limited = account.queue in step.rules.key_limits
    if limited:
        fill_all(Shelf(step), account)
    more = _look_into_next(step, account.lane, account.key, BEYOND if only_looking else -1)
    if not more and not only_looking:
        step.execute(PLACE_ANEW, (account.lane,))
    step.execute(parking.CLOSE_ACCOUNT if limited else CLOSE_UNLIMITED, (account.id,))


def _look_into_next(step: Step, lane: int, key: str, start: int) -> bool:
    following: Any = step.execute(NEXT_ACCOUNT, (lane, key)).fetchone()
    if following is not None:
        step.execute(LOOK_INTO, (-following[0], start))
    return following is not None
