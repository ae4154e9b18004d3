"""Limits per key: the shelf that `core.rules.parking` works on, as rows.

A parked job stands in `ready` under the lane number -key_lane.id, in the same order as ever; its
row in `place` says so. Leases look into lanes above 0 only, so however many jobs wait for a key
that is full, none of them is read. A column that says "parked" would have to lead the primary key
of `ready` and two indexes on it, and every submit and lease of every job would pay for it; with
the sign of the lane number, only jobs of limited keys pay. Who reads asks `place.lane IS NOT NULL`.

Guard: what runs of a key is counted in `key_lane`, in the write that leases a job or ends its
lease; a lease takes no more than that leaves free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from leasehold.core.model.budget import RESTED_AT_ONCE
from leasehold.core.model.key_limits import KeyLimits, Rank
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import parking
from leasehold.core.rules.serving import BEYOND_ALL_TIERS
from leasehold.core.rules.starting import key_starts
from leasehold.stores.sqlite.leasing.order import NEXT_TIER
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX
from leasehold.stores.sqlite.submitting.gate import BucketBook
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
NTH_SHOWN: Final = """
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
# The accounts that have parked jobs of a group: one seek for each of them.
PARKED_IN_GROUP: Final = """
    WITH RECURSIVE parked (lane) AS (
        SELECT min(lane) FROM ready INDEXED BY ready_by_parent WHERE parent_id = ?1 AND lane < 0
        UNION ALL
        SELECT (SELECT min(lane) FROM ready INDEXED BY ready_by_parent
                WHERE parent_id = ?1 AND lane > parked.lane AND lane < 0)
        FROM parked WHERE parked.lane IS NOT NULL
    )
    SELECT key_lane.id, key_lane.queue, key_lane.key, key_lane.lane
    FROM parked CROSS JOIN key_lane ON key_lane.id = -parked.lane
"""
# Beyond the last job: none is placed anew, the account is looked at.
LOOK_AGAIN_AT: Final = "INSERT OR IGNORE INTO rescoring VALUES (?, 9223372036854775807, 0, 0)"

REST: Final = """
    INSERT INTO resting VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET until = excluded.until WHERE until <> excluded.until
"""
# A moment that cannot be read may have come: it is above all moments.
RESTED: Final = f"""
    SELECT queue, key FROM resting WHERE queue = ?1 AND until <= ?2
    UNION ALL SELECT queue, key FROM resting WHERE queue = ?1 AND until > {MOMENT_MAX} LIMIT ?3
"""  # noqa: S608  # our own number
REST_NO_MORE: Final = "DELETE FROM resting WHERE queue = ? AND key = ?"
NOTHING: Final = KeyLimits(0, None)
"""Where nothing limits keys, what is still parked is let go by a pass over it, and not before."""


class Account(NamedTuple):
    """A key in one lane."""

    id: int
    queue: str
    key: str
    lane: int

    @property
    def parked_lane(self) -> int:
        """The lane number under which its parked jobs stand."""
        return -self.id


def _account(row: Sequence[Any]) -> Account:
    """The account that a row tells: a job that is sent to a lane of garbage would be lost there."""
    account = Account(*row)
    if type(account.lane) is not int or not 0 < account.lane <= WHOLE_MAX:
        raise TypeError(f"key_lane.lane of key_lane {account.id} is {account.lane!r}")
    return account


class Counted(NamedTuple):
    """A pending job that is counted for its key, and the tier in which it was found."""

    seq: int
    tier: int
    account: Account


class Shelf:
    """The pending jobs of limited keys, in one write."""

    __slots__ = ("_free", "_rested", "_step")

    def __init__(self, step: Step) -> None:
        self._step = step
        self._free: dict[tuple[str, str], int] = {}
        self._rested: set[tuple[str, str]] = set()
        """Keys for which it is known when to look again."""

    @property
    def shown_left(self) -> int:
        return self._step.shown_left

    @shown_left.setter
    def shown_left(self, left: int) -> None:
        self._step.shown_left = left

    def free(self, account: Account) -> int:
        # Nothing that is done to a shelf changes what runs.
        key = account.queue, account.key
        if key not in self._free:
            self._free[key] = self._limits(account.queue).to_show(*_stands(self._step, *key))
        return self._free[key]

    def look_again_in_time(self, account: Account) -> None:
        key = account.queue, account.key
        if key not in self._rested:
            self._rested.add(key)
            until = self._limits(account.queue).next_at(*_stands(self._step, *key))
            if until is not None:
                self._step.execute(REST, (*key, until))

    def _limits(self, queue: str) -> KeyLimits:
        return self._step.rules.key_limits.get(queue, NOTHING)

    def accounts_of(self, key: tuple[str, str]) -> Sequence[Account]:
        return [_account(row) for row in self._rows(ACCOUNTS_OF_KEY, key)]

    def nth_shown(self, account: Account, tier: int, n: int) -> Rank | None:
        return self._rank(NTH_SHOWN, (account.id, tier, n - 1))

    def first_parked(self, account: Account, tier: int) -> Rank | None:
        return self._rank(FIRST_PARKED, (account.parked_lane, tier))

    def parked_tiers(self, account: Account) -> Iterator[int]:
        tier = -1
        while rows := self._rows(NEXT_TIER, (account.parked_lane, tier, BEYOND_ALL_TIERS)):
            tier = rows[0][0]
            yield tier

    def take_in(self, account: Account, tier: int, job: Rank, *, parked: bool) -> None:
        turn, seq = job
        where = account.parked_lane if parked else None
        self._step.execute(COUNT, (seq, tier, turn, where, account.id))
        if parked:
            self._change_lane(tier, job, account.lane, account.parked_lane)

    def show(self, account: Account, tier: int, job: Rank) -> None:
        self._change_lane(tier, job, account.parked_lane, account.lane)
        self._step.execute(SAY_WHERE, (None, job[1]))
        self._step.newly_shown.add(job[1])

    def park(self, account: Account, tier: int, job: Rank) -> None:
        self._change_lane(tier, job, account.lane, account.parked_lane)
        self._step.execute(SAY_WHERE, (account.parked_lane, job[1]))

    def tell_of_shown(self, account: Account) -> None:
        self._step.newly_shown.update(seq for (seq,) in self._rows(ANY_SHOWN, (account.id,)))

    def go_on_later(self, account: Account) -> None:
        self._step.execute(LOOK_AGAIN_AT, (account.parked_lane,))
        self._step.some_rescoring = True

    def close_if_unused(self, account: Account) -> None:
        self._step.execute(CLOSE_ACCOUNT, (account.id,))

    def account(self, queue: str, key: str, lane: int) -> Account:
        """The account of a key in a lane, opened if need be."""
        found = self._rows(FIND_ACCOUNT, (lane, key))
        if found:
            return Account(found[0][0], queue, key, lane)
        self._step.execute(OPEN_ACCOUNT, (queue, key, lane))
        return Account(self._step.db.last_insert_rowid(), queue, key, lane)

    def _change_lane(self, tier: int, job: Rank, before: int, after: int) -> None:
        self._step.execute(CHANGE_LANE, (after, before, tier, *job))

    def _rank(self, statement: str, values: tuple[int, ...]) -> Rank | None:
        row: Any = self._step.execute(statement, values).fetchone()
        return None if row is None else (row[0], row[1])

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        return self._step.execute(statement, values).fetchall()


def enter(step: Step, places: Iterable[Sequence[int]]) -> None:
    """Jobs have come to stand in their lanes (lane, tier, turn, number): park who is too many."""
    shelf = Shelf(step)
    known: dict[Any, Account] = {}
    for _, tier, turn, seq in places:
        row: Any = step.execute(KEY_OF_PENDING, (seq,)).fetchone()
        if row is not None and row[0] in step.rules.key_limits:
            if row not in known:
                known[row] = shelf.account(*row)
            parking.enter(shelf, known[row], tier, (turn, seq))


def counted(step: Step, seq: int) -> Counted | None:
    """What a pending job counts for, if it does."""
    return counted_among(step, (seq,)).get(seq)


def counted_among(step: Step, seqs: Sequence[int]) -> Mapping[int, Counted]:
    """Those of these jobs that are counted for their keys."""
    if not step.rules or not seqs:
        return {}
    rows = step.execute(COUNTED, (msgspec.json.encode(seqs).decode(),))
    return {seq: Counted(seq, tier, _account(account)) for seq, tier, *account in rows}


def left(step: Step, job: Counted) -> None:
    """A job is not pending any more, and has not been leased."""
    parking.left(Shelf(step), job.account, job.tier)


def moved(step: Step, jobs: Iterable[Counted]) -> None:
    """Jobs were placed anew: in the tiers that they left and came to, others may be the best."""
    touched: dict[tuple[Account, int], None] = {}
    for job in jobs:
        row: Any = step.execute(TIER_NOW, (job.seq,)).fetchone()
        touched[job.account, job.tier] = touched[job.account, row[0]] = None
    shelf = Shelf(step)
    for account, tier in touched:
        parking.fill(shelf, account, tier)


def granted(step: Step, jobs: Mapping[tuple[str, str, int], int]) -> None:
    """So many jobs were leased, by queue, key and lane."""
    limits = step.rules.key_limits
    counts = [(*lane, count) for lane, count in jobs.items() if lane[0] in limits]
    step.executemany(COUNT_RUNNING, counts)
    if step.rules.paced:
        keys = {(queue, key): None for queue, key, _ in jobs if queue in step.rules.paced}
        parking.look_again(Shelf(step), keys)


def wake_rested(step: Step, queues: Iterable[str]) -> bool:
    """Show what may be leased of keys that have rested, so many; whether there may be more."""
    rested: list[Any] = []
    for queue in dict.fromkeys(queues):
        if queue in step.rules:
            left = RESTED_AT_ONCE - len(rested)
            rested += step.execute(RESTED, (queue, step.now, left)).fetchall()
    if rested:
        step.executemany(REST_NO_MORE, rested)
        # Whoever waits for this moment knows it from its last lease, and need not be told.
        news = set(step.newly_shown)
        parking.look_again(Shelf(step), rested)
        step.newly_shown.intersection_update(news)
    return len(rested) == RESTED_AT_ONCE


def freed(step: Step, seqs: Iterable[int]) -> None:
    """The leases of these jobs have ended: others of their keys may be leased."""
    limits = step.rules.key_limits
    ended: Counter[tuple[str, str, int]] = Counter()
    keys: Counter[tuple[str, str]] = Counter()
    for seq in seqs:
        row: Any = step.execute(KEY_OF_JOB, (seq,)).fetchone()
        if row is not None and row[0] in limits:
            ended[row] += 1
            keys[row[0], row[1]] += 1
    step.executemany(COUNT_RUNNING, [(*lane, -count) for lane, count in ended.items()])
    parking.freed(Shelf(step), keys)


def turn_away(step: Step, jobs: Iterable[tuple[str, str, int, int, Rank]]) -> None:
    """Park jobs that a lease has met although their keys are full: queue, key, lane, tier, turn."""
    shelf = Shelf(step)
    for queue, key, lane, tier, job in jobs:
        parking.turn_away(shelf, shelf.account(queue, key, lane), tier, job)


def parked_in_group(step: Step, parent_id: str) -> list[Account]:
    """The accounts that have parked jobs of a group. What they wait behind need not be of it."""
    rows: list[Any] = step.execute(PARKED_IN_GROUP, (parent_id,)).fetchall()
    return [_account(row) for row in rows]


def free_of(step: Step, queue: str, key: str) -> int:
    """How many jobs more of a key may be leased; none where its queue does not limit it."""
    return step.rules.key_limits.get(queue, NOTHING).free(*_stands(step, queue, key))


def _stands(step: Step, queue: str, key: str) -> tuple[int, int, int]:
    """What its limits ask of a key: how many run, when its bucket is full, and the time."""
    row: Any = step.execute(RUNNING_OF_KEY, (queue, key)).fetchone()
    full_at = 0
    if queue in step.rules.paced:
        full_at = BucketBook(step.db, step.now).full_at(queue, key_starts(key))
    return row[0], full_at, step.now
