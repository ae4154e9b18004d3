"""Limits per key: the shelf for `core.rules.parking` and `key_accounts`, as rows.

A parked job stands in `ready` under the lane number -key_lane.id, in the same order as ever; its
row in `place` says so. Leases look into lanes above 0 only, so however many jobs wait for a key
that is full, none of them is read. A column that says "parked" would have to lead the primary key
of `ready` and two indexes on it, and every submit and lease of every job would pay for it; with
the sign of the lane number, only jobs of limited keys pay. Who reads asks `place.lane IS NOT NULL`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE
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
from leasehold.stores.tables.statements import Dialect
from leasehold.stores.tables.step import TableStep

LANE_MAX: Final = 1 << 53
"""No lane number comes near it."""

FIND_ACCOUNT: Final = "SELECT id FROM key_lane WHERE lane = $1 AND key = $2"
OPEN_ACCOUNT: Final = "INSERT INTO key_lane (queue, key, lane) VALUES ($1, $2, $3) RETURNING id"
ACCOUNTS_OF_KEY: Final = "SELECT id, queue, key, lane FROM key_lane WHERE queue = $1 AND key = $2"
ACCOUNT: Final = "SELECT id, queue, key, lane FROM key_lane WHERE id = $1"
# Guard: none of its jobs runs, is shown or is parked, and no pass over the accounts has reached it.
CLOSE_ACCOUNT: Final = """
    DELETE FROM key_lane WHERE id = $1 AND running = 0
        AND NOT EXISTS (SELECT 1 FROM rescoring WHERE rescoring.lane = -$1)
        AND NOT EXISTS (SELECT 1 FROM place WHERE key_lane = $1 AND lane IS NULL)
        AND NOT EXISTS (SELECT 1 FROM ready WHERE ready.lane = -$1)
"""
RUNNING_OF_KEY: Final = """
    SELECT CAST(coalesce(sum(running), 0) AS bigint) FROM key_lane WHERE queue = $1 AND key = $2
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
# Beyond the last job: no job is moved, only the account is visited.
LOOK_AGAIN_AT: Final = """
    INSERT INTO rescoring VALUES ($1, $2, 0, 0) ON CONFLICT DO NOTHING
"""
REST: Final = """
    INSERT INTO resting VALUES ($1, $2, $3)
    ON CONFLICT (queue, key) DO UPDATE SET until = excluded.until
        WHERE resting.until <> excluded.until
"""
# From one tier of a lane to the next, with the turn of its first job.
NEXT_TIER: Final = """
    SELECT tier, turn FROM ready WHERE lane = $1 AND tier > $2 AND tier < $3
    ORDER BY tier, turn LIMIT 1
"""


class TableKeyShelf(ABC):
    """The pending jobs of limited keys, in one write."""

    __slots__ = ("_free", "_rested", "_step")
    dialect: ClassVar[Dialect]
    find_counted: ClassVar[str]
    """The jobs of a list that have an account: number, tier, and the columns of the account."""
    find_parked_in_group: ClassVar[str]
    """The accounts with parked jobs of a group, after a given one, up to a limit."""

    def __init__(self, step: TableStep) -> None:
        self._step = step
        self._free: dict[tuple[str, str], int] = {}
        self._rested: set[tuple[str, str]] = set()
        """Keys for which the time to look again is recorded."""

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
        # Nothing done to a shelf changes the running jobs.
        key = account.queue, account.key
        if key not in self._free:
            self._free[key] = self._limits(account.queue).to_show(*stands(self._step, *key))
        return self._free[key]

    def look_again_in_time(self, account: Account) -> None:
        key = account.queue, account.key
        if key not in self._rested:
            self._rested.add(key)
            until = self._limits(account.queue).next_at(*stands(self._step, *key))
            if until is not None:
                self._step.execute(REST, (*key, until))

    def _limits(self, queue: str) -> KeyLimits:
        return self._step.rules.key_limits.get(queue, NOTHING)

    def accounts_of(self, key: tuple[str, str]) -> Sequence[Account]:
        return [account_of(row) for row in self._rows(ACCOUNTS_OF_KEY, key)]

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

    @abstractmethod
    def keys_of_uncounted(self, seqs: Sequence[int]) -> Mapping[int, KeyInLane]: ...

    @abstractmethod
    def keys_of(self, seqs: Iterable[int]) -> Iterable[KeyInLane]: ...

    @abstractmethod
    def tiers_of(self, seqs: Sequence[int]) -> Mapping[int, int]: ...

    @abstractmethod
    def count_running(self, jobs: Sequence[tuple[str, str, int, int]]) -> None: ...

    @abstractmethod
    def take_rested(self, queues: Sequence[str]) -> Sequence[Key]: ...

    def counted_among(self, seqs: Sequence[int]) -> Mapping[int, Counted]:
        """The given jobs that are counted for their keys."""
        if not self._step.rules or not seqs:
            return {}
        rows = self._rows(self.find_counted, (self.dialect.listed(seqs),))
        return {seq: Counted(seq, tier, account_of(account)) for seq, tier, *account in rows}

    def parked_in_group(
        self, parent_id: str, after: int | None
    ) -> tuple[list[Account], int | None]:
        """Some accounts with parked jobs of a group, and where to continue; None if these are all.
        The jobs ahead of theirs need not belong to the group.
        """
        behind = BEFORE_ALL_PARKED if after is None else after
        rows = self._rows(self.find_parked_in_group, (parent_id, behind))
        accounts = [account_of(row) for _, *row in rows if row[0] is not None]
        return accounts, rows[-1][0] if len(rows) == PARKED_KEYS_AT_ONCE else None

    def change_lane(self, tier: int, job: Rank, before: int, after: int) -> None:
        """Move a job to another lane: its own, or the one for parked jobs."""
        self._step.look_again()
        self._step.execute(CHANGE_LANE, (after, before, tier, *job))
        self._step.now_stand([(after, tier, *job)])

    def _rank(self, statement: str, values: tuple[int, ...]) -> Rank | None:
        row: Any = self._step.execute(statement, values).fetchone()
        return None if row is None else (row[0], row[1])

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        return self._step.execute(statement, values).fetchall()


def account_of(row: Sequence[Any]) -> Account:
    """The account in a row, checked: a job sent to a garbage lane would be lost there."""
    account = Account(*row)
    if type(account.lane) is not int or not 0 < account.lane <= LANE_MAX:
        raise TypeError(f"key_lane.lane of key_lane {account.id} is {account.lane!r}")
    return account


def free_of(step: TableStep, queue: str, key: str) -> int:
    """How many more jobs of a key may be leased; 0 if its queue has no limits per key."""
    return step.rules.key_limits.get(queue, NOTHING).free(*stands(step, queue, key))


def stands(step: TableStep, queue: str, key: str) -> tuple[int, int, int]:
    """The inputs of a key's limits: its running jobs, when its bucket is full, and the time."""
    running = step.execute(RUNNING_OF_KEY, (queue, key)).fetchone()[0]
    full_at = 0
    if queue in step.rules.paced:
        full_at = step.buckets.full_at(queue, key_starts(key))
    return running, full_at, step.now
