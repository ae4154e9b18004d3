"""Limits per key: which pending jobs of a key leases see, and which are parked.

`core.key_limits` says which. A parked job stands in `ready` under the lane number -key_lane.id, in
the same order as ever; its row in `place` says so. Leases look into lanes above 0 only, so however
many jobs wait for a key that is full, none of them is read.

Guard: what runs of a key is counted in `key_lane`, in the write that leases a job or ends its
lease; a lease takes no more than that leaves free. After every write, of each key, lane and tier at
least the best `free` jobs are shown. More may be, since a slot that is taken in one lane is taken
from the others too: a lease parks those when it meets them, so nobody meets them twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from leasehold.core.key_limits import free_slots, is_shown
from leasehold.stores.sqlite.leasing.order import NEXT_TIER
from leasehold.stores.sqlite.writing.step import Step

# Only what is not counted yet: a job is taken in once.
KEY_OF_PENDING: Final = """
    SELECT lane.queue, limit_key, job.lane
    FROM job JOIN lane ON lane.id = job.lane LEFT JOIN place ON place.seq = job.seq
    WHERE job.seq = ? AND limit_key IS NOT NULL AND place.key_lane IS NULL
"""
KEY_OF_JOB: Final = """
    SELECT lane.queue, limit_key, job.lane FROM job JOIN lane ON lane.id = job.lane
    WHERE job.seq = ? AND limit_key IS NOT NULL
"""
FIND_ACCOUNT: Final = "SELECT id FROM key_lane WHERE lane = ? AND key = ?"
OPEN_ACCOUNT: Final = "INSERT INTO key_lane (queue, key, lane) VALUES (?, ?, ?)"
ACCOUNTS_OF_KEY: Final = "SELECT id, queue, key, lane FROM key_lane WHERE queue = ? AND key = ?"
ACCOUNT: Final = "SELECT id, queue, key, lane FROM key_lane WHERE id = ?"
# Guard: nothing of it runs, is shown or is parked, and no pass over the accounts has come to it.
CLOSE_ACCOUNT: Final = """
    DELETE FROM key_lane WHERE id = ?1 AND running = 0
        AND NOT EXISTS (SELECT 1 FROM rescoring WHERE rescoring.lane = -?1)
        AND NOT EXISTS (SELECT 1 FROM place WHERE key_lane = ?1 AND lane IS NULL)
        AND NOT EXISTS (SELECT 1 FROM ready WHERE ready.lane = -?1)
"""
RUNNING_OF_KEY: Final = "SELECT coalesce(sum(running), 0) FROM key_lane WHERE queue = ? AND key = ?"
COUNT_RUNNING: Final = """
    INSERT INTO key_lane (queue, key, lane, running) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET running = running + excluded.running
"""
COUNTED: Final = """
    SELECT place.seq, place.tier, key_lane.id, key_lane.queue, key_lane.key, key_lane.lane
    FROM json_each(?) AS named CROSS JOIN place ON place.seq = named.value
        CROSS JOIN key_lane ON key_lane.id = place.key_lane
"""
COUNT: Final = """
    INSERT INTO place (seq, tier, turn, lane, key_lane) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET lane = excluded.lane, key_lane = excluded.key_lane
"""
ANY_SHOWN: Final = "SELECT seq FROM place WHERE key_lane = ? AND lane IS NULL LIMIT 1"
LAST_SHOWN: Final = """
    SELECT turn, seq FROM place WHERE key_lane = ? AND lane IS NULL AND tier = ?
    ORDER BY turn, seq LIMIT 1 OFFSET ?
"""
FIRST_PARKED: Final = """
    SELECT turn, seq FROM ready WHERE lane = ? AND tier = ? ORDER BY turn, seq LIMIT 1
"""
CHANGE_LANE: Final = """
    UPDATE ready SET lane = ? WHERE lane = ? AND tier = ? AND turn = ? AND seq = ?
"""
SAY_WHERE: Final = "UPDATE place SET lane = ? WHERE seq = ?"
TIER_NOW: Final = "SELECT tier FROM place WHERE seq = ?"

# Beyond the last job: none is placed anew, the account is looked at.
LOOK_AGAIN_AT: Final = "INSERT OR IGNORE INTO rescoring VALUES (?, 9223372036854775807, 0, 0)"

COUNTED_MAX: Final = 100
"""Up to how many free slots of a key the jobs that are shown for them are counted, one by one."""
_NO_TIER: Final = 1 << 62
"""Beyond all tiers."""


class Account(NamedTuple):
    """A key in one lane."""

    id: int
    queue: str
    key: str
    lane: int


class Counted(NamedTuple):
    """A pending job that is counted for its key, and the tier in which it was found."""

    seq: int
    tier: int
    account: Account


def enter(step: Step, places: Iterable[Sequence[int]]) -> None:
    """Jobs have come to stand in their lanes (lane, tier, turn, number): park who is too many."""
    limits = step.rules.key_limits
    known: dict[Any, tuple[Account, int]] = {}
    for _, tier, turn, seq in places:
        row: Any = step.execute(KEY_OF_PENDING, (seq,)).fetchone()
        if row is None or row[0] not in limits:
            continue
        if row not in known:
            known[row] = account_of(step, *row), free_of(step, *row[:2])
        account, free = known[row]
        last = _last_shown(step, account, tier, free)
        if not is_shown((turn, seq), last, free) or _is_behind_parked(
            step, account, tier, (turn, seq), free
        ):
            _count_as_parked(step, account, tier, (turn, seq))
            continue
        step.execute(COUNT, (seq, tier, turn, None, account.id))
        if last is not None:
            _park(step, account, tier, last)


def counted(step: Step, seq: int) -> Counted | None:
    """What a pending job counts for, if it does."""
    return counted_among(step, (seq,)).get(seq)


def counted_among(step: Step, seqs: Sequence[int]) -> Mapping[int, Counted]:
    """Those of these jobs that are counted for their keys."""
    if not step.rules or not seqs:
        return {}
    rows = step.execute(COUNTED, (msgspec.json.encode(seqs).decode(),))
    return {seq: Counted(seq, tier, Account(*account)) for seq, tier, *account in rows}


def left(step: Step, job: Counted) -> None:
    """A job is not pending any more, and has not been leased: another one may take its place."""
    account = job.account
    _fill(step, account, job.tier, free_of(step, account.queue, account.key))
    step.execute(CLOSE_ACCOUNT, (account.id,))


def moved(step: Step, jobs: Iterable[Counted]) -> None:
    """Jobs were placed anew: in the tiers that they left and came to, others may be the best."""
    touched: dict[tuple[Account, int], None] = {}
    for job in jobs:
        row: Any = step.execute(TIER_NOW, (job.seq,)).fetchone()
        touched[job.account, job.tier] = touched[job.account, row[0]] = None
    for account, tier in touched:
        _fill(step, account, tier, free_of(step, account.queue, account.key))


def granted(step: Step, jobs: Mapping[tuple[str, str, int], int]) -> None:
    """So many jobs were leased, by queue, key and lane."""
    limits = step.rules.key_limits
    counts = [(*lane, count) for lane, count in jobs.items() if lane[0] in limits]
    step.executemany(COUNT_RUNNING, counts)


def freed(step: Step, seqs: Iterable[int]) -> None:
    """The leases of these jobs have ended: others of their keys may be leased."""
    limits = step.rules.key_limits
    ended: Counter[tuple[str, str, int]] = Counter()
    for seq in seqs:
        row: Any = step.execute(KEY_OF_JOB, (seq,)).fetchone()
        if row is not None and row[0] in limits:
            ended[row] += 1
    step.executemany(COUNT_RUNNING, [(*lane, -count) for lane, count in ended.items()])
    more: Counter[tuple[str, str]] = Counter()
    for (queue, key, _), count in ended.items():
        more[queue, key] += count
    for (queue, key), count in more.items():
        free = free_of(step, queue, key)
        accounts: list[Any] = step.execute(ACCOUNTS_OF_KEY, (queue, key)).fetchall()
        for account in (Account(*row) for row in accounts):
            fill_all(step, account, free)
            if free <= count:
                # The key was full: what is shown of it could not be leased, and can be now.
                step.newly_shown.update(seq for (seq,) in step.execute(ANY_SHOWN, (account.id,)))
            step.execute(CLOSE_ACCOUNT, (account.id,))


def park(step: Step, lane: int, tier: int, turn: int, seq: int) -> None:
    """Park a job that a lease has met although its key is full."""
    row: Any = step.execute(KEY_OF_JOB, (seq,)).fetchone()
    account = account_of(step, *row)
    if lane == account.lane:
        _count_as_parked(step, account, tier, (turn, seq))


def account_of(step: Step, queue: str, key: str, lane: int) -> Account:
    """The account of a key in a lane, opened if need be."""
    row: Any = step.execute(FIND_ACCOUNT, (lane, key)).fetchone()
    if row is None:
        step.execute(OPEN_ACCOUNT, (queue, key, lane))
        return Account(step.db.last_insert_rowid(), queue, key, lane)
    return Account(row[0], queue, key, lane)


def free_of(step: Step, queue: str, key: str) -> int:
    """How many jobs more of a key may run; none where its queue does not limit it."""
    row: Any = step.execute(RUNNING_OF_KEY, (queue, key)).fetchone()
    return free_slots(step.rules.key_limits.get(queue, 0), row[0])


def fill_all(step: Step, account: Account, free: int) -> None:
    """Show what may be leased of a key in one lane."""
    tier = -1
    while (row := _next_tier(step, account, tier)) is not None:
        tier = row[0]
        _fill(step, account, tier, free)


def _next_tier(step: Step, account: Account, tier: int) -> Any:
    return step.execute(NEXT_TIER, (-account.id, tier, _NO_TIER)).fetchone()


def _fill(step: Step, account: Account, tier: int, free: int) -> None:
    """Show parked jobs of a tier, the best first, while they are among the best `free`."""
    while True:
        first: Any = step.execute(FIRST_PARKED, (-account.id, tier)).fetchone()
        if first is None:
            return
        last = _last_shown(step, account, tier, free)
        if not is_shown(first, last, free):
            return
        if not step.shown_left:
            # Whoever next places jobs anew goes on with it.
            step.execute(LOOK_AGAIN_AT, (-account.id,))
            step.some_rescoring = True
            return
        step.shown_left -= 1
        _show(step, account, tier, first)
        step.newly_shown.add(first[1])
        if last is not None:
            _park(step, account, tier, last)


def _is_behind_parked(
    step: Step, account: Account, tier: int, job: tuple[int, int], free: int
) -> bool:
    """Whether better ones wait to be shown, where what is shown is not counted."""
    if free <= COUNTED_MAX:
        return False
    first: Any = step.execute(FIRST_PARKED, (-account.id, tier)).fetchone()
    return first is not None and (first[0], first[1]) < job


def _last_shown(step: Step, account: Account, tier: int, free: int) -> tuple[int, int] | None:
    """The last of the first `free` that are shown; None if there are fewer, or too many to count.

    More may be shown than are free: so for a key that may run many jobs they are not counted.
    """
    if not 0 < free <= COUNTED_MAX:
        return None
    found: Any = step.execute(LAST_SHOWN, (account.id, tier, free - 1)).fetchone()
    return None if found is None else (found[0], found[1])


def _count_as_parked(step: Step, account: Account, tier: int, job: tuple[int, int]) -> None:
    turn, seq = job
    step.execute(COUNT, (seq, tier, turn, -account.id, account.id))
    step.execute(CHANGE_LANE, (-account.id, account.lane, tier, turn, seq))


def _show(step: Step, account: Account, tier: int, job: tuple[int, int]) -> None:
    step.execute(CHANGE_LANE, (account.lane, -account.id, tier, *job))
    step.execute(SAY_WHERE, (None, job[1]))


def _park(step: Step, account: Account, tier: int, job: tuple[int, int]) -> None:
    step.execute(CHANGE_LANE, (-account.id, account.lane, tier, *job))
    step.execute(SAY_WHERE, (-account.id, job[1]))
