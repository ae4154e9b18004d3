"""A queue's limit per key is set, changed or taken away while jobs are pending and running.

What runs is counted at once, in the write that changes the limit, so the next lease obeys it. The
pending jobs are dealt with in the pass that places jobs anew (`rebalance.py`), so many in a write:
until it has come to them, leases meet them, and park those that may not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.core.parking import fill_all
from leasehold.stores.sqlite.leasing import parking, ready
from leasehold.stores.sqlite.leasing.parking import Account, Shelf
from leasehold.stores.sqlite.leasing.ready import Standing
from leasehold.stores.sqlite.writing.step import Step

FORGET_RUNNING: Final = "UPDATE key_lane SET running = 0 WHERE queue = ?"
# `running` is small, so all of it may be read.
COUNT_RUNNING: Final = """
    INSERT INTO key_lane (queue, key, lane, running)
    SELECT lane.queue, limit_key, job.lane, count(*)
    FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane
    WHERE lane.queue = ? AND limit_key IS NOT NULL GROUP BY job.lane, limit_key
    ON CONFLICT DO UPDATE SET running = excluded.running
"""
BEYOND: Final = 9223372036854775807
"""A tier beyond the last job: from there none is placed anew, only accounts are looked at."""
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
COUNT_NO_MORE: Final = "UPDATE place SET lane = NULL, key_lane = NULL WHERE seq = ?"
# Guard: nothing of it is shown or parked. What runs is not counted without a limit.
CLOSE_UNLIMITED: Final = """
    DELETE FROM key_lane WHERE id = ?1
        AND NOT EXISTS (SELECT 1 FROM place WHERE key_lane = ?1 AND place.lane IS NULL)
        AND NOT EXISTS (SELECT 1 FROM ready WHERE ready.lane = -?1)
"""


def changed(step: Step, queue: str, before: int | None, after: int | None) -> bool:
    """Count by the new limit from now on; whether all pending jobs have to be looked at."""
    if before == after:
        return False
    if before is not None and after is not None:
        step.execute(LOOK_AGAIN, (queue,))
        step.some_rescoring = True
        return False
    if after is not None:
        # Accounts are left from an earlier limit only while the pass that closes them goes on.
        step.execute(FORGET_RUNNING, (queue,))
        step.execute(COUNT_RUNNING, (queue,))
    return True


def forget(step: Step, queue: str) -> None:
    """A queue is deleted; nothing is pending in it any more."""
    step.execute(FORGET_ACCOUNTS, (queue,))


def is_limited(step: Step, lane: int) -> bool:
    """Whether the keys of a lane, or of a lane of parked jobs, are limited."""
    if not step.rules.key_limits:
        return False
    row: Any = step.execute(ready.QUEUE_OF, (lane,)).fetchone()
    return row is not None and row[0] in step.rules.key_limits


def let_go(step: Step, jobs: Sequence[Standing]) -> list[Standing]:
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


def take_in(step: Step, jobs: Sequence[Standing]) -> None:
    """Count jobs for their keys that came before the limit, and park who is too many."""
    for job in jobs:
        now = ready.find(step, job.seq) if job.lane > 0 else None
        if now is not None:
            parking.enter(step, [now[:4]])


def looked_through(step: Step, lane: int, *, only_looking: bool) -> None:
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
    if account.queue in step.rules.key_limits:
        fill_all(Shelf(step), account)
    more = _look_into_next(step, account.lane, account.key, BEYOND if only_looking else -1)
    if not more and not only_looking:
        step.execute(PLACE_ANEW, (account.lane,))
    limited = account.queue in step.rules.key_limits
    step.execute(parking.CLOSE_ACCOUNT if limited else CLOSE_UNLIMITED, (account.id,))


def _look_into_next(step: Step, lane: int, key: str, start: int) -> bool:
    following: Any = step.execute(NEXT_ACCOUNT, (lane, key)).fetchone()
    if following is not None:
        step.execute(LOOK_INTO, (-following[0], start))
    return following is not None
