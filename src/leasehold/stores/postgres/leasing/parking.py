"""Limits per key: the shelf that `core.rules.parking` and `key_accounts` work on, as rows.

A parked job stands in `ready` under the lane number -key_lane.id, in the same order as ever; its
row in `place` says so. Leases look into lanes above 0 only, so however many jobs wait for a key
that is full, none of them is read. A column that says "parked" would have to lead the primary key
of `ready` and two indexes on it, and every submit and lease of every job would pay for it; with
the sign of the lane number, only jobs of limited keys pay. Who reads asks `place.lane IS NOT NULL`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE, RESTED_AT_ONCE
from leasehold.core.model.key_limits import KeyLimits, Rank
from leasehold.core.rules.key_accounts import (
    BEFORE_ALL_PARKED,
    NOTHING,
    Account,
    Counted,
    Key,
    KeyInLane,
)
from leasehold.core.rules.rebalancing import BEYOND
from leasehold.core.rules.serving import BEYOND_ALL_TIERS
from leasehold.core.rules.starting import key_starts
from leasehold.stores.postgres.leasing.order import NEXT_TIER
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.submitting.gate import BucketBook
from leasehold.stores.postgres.writing.step import Step

# Only what is not counted yet: a job is taken in once.
KEY_OF_UNCOUNTED: Final = """
    SELECT job.seq, lane.queue, limit_key, job.lane
    FROM job JOIN lane ON lane.id = job.lane LEFT JOIN place ON place.seq = job.seq
    WHERE job.seq = ANY($1) AND limit_key IS NOT NULL AND place.key_lane IS NULL
"""
KEY_OF_JOB: Final = """
    SELECT lane.queue, limit_key, job.lane FROM job JOIN lane ON lane.id = job.lane
    WHERE job.seq = ANY($1) AND limit_key IS NOT NULL
"""
FIND_ACCOUNT: Final = "SELECT id FROM key_lane WHERE lane = $1 AND key = $2"
OPEN_ACCOUNT: Final = "INSERT INTO key_lane (queue, key, lane) VALUES ($1, $2, $3) RETURNING id"
ACCOUNTS_OF_KEY: Final = "SELECT id, queue, key, lane FROM key_lane WHERE queue = $1 AND key = $2"
ACCOUNT: Final = "SELECT id, queue, key, lane FROM key_lane WHERE id = $1"
# Guard: nothing of it runs, is shown or is parked, and no pass over the accounts has come to it.
CLOSE_ACCOUNT: Final = """
    DELETE FROM key_lane WHERE id = $1 AND running = 0
        AND NOT EXISTS (SELECT 1 FROM rescoring WHERE rescoring.lane = -$1)
        AND NOT EXISTS (SELECT 1 FROM place WHERE key_lane = $1 AND lane IS NULL)
        AND NOT EXISTS (SELECT 1 FROM ready WHERE ready.lane = -$1)
"""
RUNNING_OF_KEY: Final = """
    SELECT coalesce(sum(running), 0)::bigint FROM key_lane WHERE queue = $1 AND key = $2
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
COUNT: Final = """
    INSERT INTO place (seq, tier, turn, lane, key_lane) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (seq) DO UPDATE SET lane = excluded.lane, key_lane = excluded.key_lane
"""
ANY_SHOWN: Final = "SELECT seq FROM place WHERE key_lane = $1 AND lane IS NULL LIMIT 1"
NTH_SHOWN: Final = """
    SELECT turn, seq FROM place WHERE key_lane = $1 AND lane IS NULL AND tier = $2
    ORDER BY turn, seq LIMIT 1 OFFSET $3
"""
FIRST_PARKED: Final = """
    SELECT turn, seq FROM ready WHERE lane = $1 AND tier = $2 ORDER BY turn, seq LIMIT 1
"""
CHANGE_LANE: Final = """
    UPDATE ready SET lane = $1 WHERE lane = $2 AND tier = $3 AND turn = $4 AND seq = $5
"""
SAY_WHERE: Final = "UPDATE place SET lane = $1 WHERE seq = $2"
TIERS_NOW: Final = "SELECT seq, tier FROM place WHERE seq = ANY($1)"
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
# Beyond the last job: none is placed anew, the account is looked at.
LOOK_AGAIN_AT: Final = """
    INSERT INTO rescoring VALUES ($1, $2, 0, 0) ON CONFLICT DO NOTHING
"""

REST: Final = """
    INSERT INTO resting VALUES ($1, $2, $3)
    ON CONFLICT (queue, key) DO UPDATE SET until = excluded.until
        WHERE resting.until <> excluded.until
"""
RESTED: Final = f"""
    DELETE FROM resting WHERE (queue, key) IN (
        SELECT queue, key FROM resting WHERE queue = ANY($1) AND until <= $2
        ORDER BY until LIMIT {RESTED_AT_ONCE})
    RETURNING queue, key
"""  # noqa: S608  # our own number


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

    @property
    def limits(self) -> Mapping[str, KeyLimits]:
        return self._step.rules.key_limits

    @property
    def paced(self) -> Collection[str]:
        return self._step.rules.paced

    @property
    def newly_shown(self) -> set[int]:
        return self._step.newly_shown

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
        return [Account(*row) for row in self._rows(ACCOUNTS_OF_KEY, key)]

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
            self.change_lane(tier, job, account.lane, account.parked_lane)

    def show(self, account: Account, tier: int, job: Rank) -> None:
        self.change_lane(tier, job, account.parked_lane, account.lane)
        self._step.execute(SAY_WHERE, (None, job[1]))
        self._step.newly_shown.add(job[1])

    def park(self, account: Account, tier: int, job: Rank) -> None:
        self.change_lane(tier, job, account.lane, account.parked_lane)
        self._step.execute(SAY_WHERE, (account.parked_lane, job[1]))

    def tell_of_shown(self, account: Account) -> None:
        self._step.newly_shown.update(seq for (seq,) in self._rows(ANY_SHOWN, (account.id,)))

    def go_on_later(self, account: Account) -> None:
        self._step.execute(LOOK_AGAIN_AT, (account.parked_lane, BEYOND))
        self._step.some_rescoring = True

    def close_if_unused(self, account: Account) -> None:
        self._step.execute(CLOSE_ACCOUNT, (account.id,))

    def account(self, queue: str, key: str, lane: int) -> Account:
        found = self._rows(FIND_ACCOUNT, (lane, key))
        if found:
            return Account(found[0][0], queue, key, lane)
        opened = self._rows(OPEN_ACCOUNT, (queue, key, lane))
        return Account(opened[0][0], queue, key, lane)

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

    def change_lane(self, tier: int, job: Rank, before: int, after: int) -> None:
        """Let a job stand in another lane: its own, or aside."""
        self._step.look_again()
        self._step.execute(CHANGE_LANE, (after, before, tier, *job))

    def _rank(self, statement: str, values: tuple[int, ...]) -> Rank | None:
        row: Any = self._step.execute(statement, values).fetchone()
        return None if row is None else (row[0], row[1])

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        return self._step.execute(statement, values).fetchall()


def counted(step: Step, seq: int) -> Counted | None:
    """What a pending job counts for, if it does."""
    return counted_among(step, (seq,)).get(seq)


def counted_among(step: Step, seqs: Sequence[int]) -> Mapping[int, Counted]:
    """Those of these jobs that are counted for their keys."""
    if not step.rules or not seqs:
        return {}
    rows = step.execute(COUNTED, (list(seqs),))
    return {seq: Counted(seq, tier, Account(*account)) for seq, tier, *account in rows}


def parked_in_group(
    step: Step, parent_id: str, after: int | None
) -> tuple[list[Account], int | None]:
    """Some accounts that have parked jobs of a group, and where to go on; None if these are all.

    What their jobs wait behind need not be of the group.
    """
    behind = BEFORE_ALL_PARKED if after is None else after
    rows: list[Any] = step.execute(PARKED_IN_GROUP, (parent_id, behind)).fetchall()
    accounts = [Account(*row) for _, *row in rows if row[0] is not None]
    return accounts, rows[-1][0] if len(rows) == PARKED_KEYS_AT_ONCE else None


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
