"""Limits per key: the shelf of one queue, on which `core.rules.parking` works.

Parked jobs are in separate heaps, by key, task and tier, which leases do not read unless they are
narrowed to a group: such a lease looks at the best parked jobs of some keys of the group.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE, RESTED_AT_ONCE
from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.rules import parking
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.starting import key_starts
from leasehold.stores.memory.heaps import HeapCount, Tiers
from leasehold.stores.memory.record import Record

if TYPE_CHECKING:
    from leasehold.stores.memory.lanes import Lanes
    from leasehold.stores.memory.state import State

Job = tuple[int, int, Record]
"""Turn, number, job."""
NOTHING: Final = KeyLimits(0, None)
"""Limits that let no job of any key be leased."""
_NEVER: Final = 1 << 62


class KeyInTask:
    """A key in one task."""

    __slots__ = ("key", "parked", "shown", "task")

    def __init__(self, key: str, task: str, count: HeapCount) -> None:
        self.key = key
        self.task = task
        self.shown: dict[int, list[Job]] = {}
        """Shown jobs by tier, in order."""
        self.parked = Tiers(count)


class ParkingShelf:
    """The pending jobs of one queue that have a key."""

    __slots__ = (
        "_accounts", "_buckets", "_groups", "_lanes", "_moments", "_resting", "_rounds", "_state",
        "_unfilled", "limits", "running",
    )  # fmt: skip

    def __init__(self, lanes: Lanes, state: State, buckets: dict[str, int]) -> None:
        self._lanes = lanes
        self._state = state
        self._buckets = buckets
        self.limits = NOTHING
        self.running: Counter[str] = Counter()
        """How many jobs of each key run."""
        self._unfilled: dict[KeyInTask, None] = {}
        """Accounts that may show more jobs."""
        self._accounts: dict[str, dict[str, KeyInTask]] = {}
        """Accounts by key and task."""
        self._groups: dict[str, OrderedDict[KeyInTask, Tiers]] = {}
        """The parked jobs with a parent, additionally by parent."""
        self._rounds = GroupRounds()
        self._resting: dict[str, int] = {}
        """Keys with parked jobs that have used up their starts, and when the next may start."""
        self._moments: list[tuple[int, str]] = []
        """A heap of those times; entries of keys that have left `_resting` are skipped."""

    # -- what becomes of jobs ----------------------------------------------------------------

    def enter(self, record: Record) -> None:
        """Handle a job that has become ready."""
        parking.enter(self, self._account(record), record.tier, _job(record))

    def leave(self, record: Record) -> None:
        """Handle a job that has left the ready jobs."""
        account = self._account(record)
        record.counted = False
        if record.parked:
            self._forget_parked(account, record)
            self.close_if_unused(account)
        else:
            self._forget_shown(account, record)
            parking.left(self, account, record.tier)

    def turn_away(self, record: Record) -> None:
        """Park a job that a lease has read although its key is full."""
        account = self._account(record)
        if record.counted:
            self._forget_shown(account, record)
        else:
            self._lanes.take_away(record)
        parking.turn_away(self, account, record.tier, _job(record))

    def started(self, key: str) -> None:
        """Count the start of a leased job; call it before the job leaves."""
        self.running[key] += 1
        if self.limits.rate is not None:
            parking.look_again(self, (key,))

    def ended(self, key: str) -> None:
        """A job's lease has ended."""
        self.running[key] -= 1
        if not self.running[key]:
            del self.running[key]
        parking.freed(self, {key: 1})

    def change_limits(self, limits: KeyLimits) -> None:
        """Jobs shown beyond a lower limit are parked by the lease that meets them."""
        self.limits = limits
        self._moments = [(at, key) for key, at in self._resting.items()]
        heapify(self._moments)
        self._unfilled = dict.fromkeys(self._all_accounts())

    @property
    def lags(self) -> bool:
        """Whether there is more to show."""
        return bool(self._unfilled)

    def fill_some(self, accounts: int) -> None:
        """Continue showing jobs that may be leased, as far as one pass may."""
        while self._unfilled and accounts and self.shown_left:
            account, _ = self._unfilled.popitem()
            parking.fill_all(self, account)
            accounts -= 1

    def wake_rested(self) -> None:
        """Show the leasable jobs of a bounded number of keys whose rest is over."""
        rested: list[str] = []
        while len(rested) < RESTED_AT_ONCE and (self.next_moment() or _NEVER) <= self._state.now:
            _, key = heappop(self._moments)
            del self._resting[key]
            rested.append(key)
        # A worker that waits for this time knows it from its last lease and need not be woken.
        news, self._state.news = self._state.news, None
        parking.look_again(self, rested)
        self._state.news = news

    def next_moment(self) -> int | None:
        """When the next resting key may start a job."""
        while self._moments and self._resting.get(self._moments[0][1]) != self._moments[0][0]:
            heappop(self._moments)
        return self._moments[0][0] if self._moments else None

    # -- what `core.rules.parking` asks for --------------------------------------------------------

    @property
    def shown_left(self) -> int:
        return self._state.shown_left

    @shown_left.setter
    def shown_left(self, left: int) -> None:
        self._state.shown_left = left

    def free(self, account: KeyInTask) -> int:
        return self.limits.to_show(*self._stands(account.key))

    def free_of(self, key: str) -> int:
        """How many more jobs of a key may be leased."""
        return self.limits.free(*self._stands(key))

    def look_again_in_time(self, account: KeyInTask) -> None:
        at = self.limits.next_at(*self._stands(account.key))
        if at is not None and self._resting.get(account.key) != at:
            self._resting[account.key] = at
            heappush(self._moments, (at, account.key))

    def accounts_of(self, key: str) -> Sequence[KeyInTask]:
        return list(self._accounts.get(key, {}).values())

    def nth_shown(self, account: KeyInTask, tier: int, n: int) -> Job | None:
        shown = account.shown.get(tier, ())
        return shown[n - 1] if n <= len(shown) else None

    def first_parked(self, account: KeyInTask, tier: int) -> Job | None:
        heap = account.parked.heaps.get(tier)
        first = None if heap is None else heap.first()
        return None if first is None else _job(first[2])

    def parked_tiers(self, account: KeyInTask) -> Sequence[int]:
        return list(account.parked.heaps)

    def take_in(self, account: KeyInTask, tier: int, job: Job, *, parked: bool) -> None:
        record = job[2]
        record.counted = True
        if not parked:
            insort(account.shown.setdefault(tier, []), job)
            self._lanes.show(record)
            return
        entry = self._lanes.stamp(record)
        record.parked = True
        account.parked.add(tier, entry)
        if record.draft.parent_id is not None:
            group = self._groups.setdefault(record.draft.parent_id, OrderedDict())
            group.setdefault(account, Tiers(self._lanes.count)).add(tier, entry)

    def show(self, account: KeyInTask, tier: int, job: Job) -> None:
        self._forget_parked(account, job[2])
        self.take_in(account, tier, job, parked=False)
        self._state.wake()

    def park(self, account: KeyInTask, tier: int, job: Job) -> None:
        self._forget_shown(account, job[2])
        self.take_in(account, tier, job, parked=True)

    def tell_of_shown(self, account: KeyInTask) -> None:
        if account.shown:
            self._state.wake()

    def go_on_later(self, account: KeyInTask) -> None:
        self._unfilled[account] = None

    def close_if_unused(self, account: KeyInTask) -> None:
        if not account.shown and not account.parked.live:
            account.parked.close()
            by_task = self._accounts[account.key]
            by_task.pop(account.task, None)
            if not by_task:
                del self._accounts[account.key]

    # -- what there is -----------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """The parked jobs, in no particular order."""
        for account in self._all_accounts():
            yield from account.parked.records()

    def some_of_group(self, parent_id: str) -> list[tuple[KeyInTask, Tiers]]:
        """The parked jobs of some keys of a group: those not looked at for longest."""
        group = self._groups.get(parent_id, OrderedDict())
        some = list(islice(group.items(), PARKED_KEYS_AT_ONCE))
        if len(some) < len(group):
            for account, _ in some:
                group.move_to_end(account)
        return some

    def looked_at(self, parent_id: str, keys: int, *, took: bool) -> bool:
        """Record that a lease has looked at keys of a group; returns whether there may be more."""
        asked = (self._rounds.after(parent_id) or 0) + keys
        is_last = asked >= len(self._groups.get(parent_id, ()))
        return self._rounds.looked(parent_id, None if is_last else asked, took=took)

    def close(self) -> None:
        """Close the empty shelf."""
        for tiers in self.tiers():
            tiers.close()

    def tiers(self) -> list[Tiers]:
        """All heaps."""
        groups = [tiers for group in self._groups.values() for tiers in group.values()]
        return [*(account.parked for account in self._all_accounts()), *groups]

    def problems(self, name: str, running: Counter[str]) -> Iterator[str]:
        """Every fault that would let too many jobs of a key run, or keep one from ever running."""
        if running != self.running:
            yield f"queue {name} counts {self.running} as running by key, not {running}"
        for account in self._all_accounts():
            free = self.free(account)
            for tier in account.parked.heaps:
                first = self.first_parked(account, tier)
                last = self.nth_shown(account, tier, free) if free else None
                if first is None or account.key in self._resting:
                    continue
                if free and (last is None or first < last):
                    job_id = first[2].id
                    yield f"queue {name}, key {account.key}: job {job_id} is parked for nothing"
                if self.limits.next_at(*self._stands(account.key)) is not None:
                    yield f"queue {name}, key {account.key}: nobody knows when it has rested"

    # -- inside ------------------------------------------------------------------------------

    def _stands(self, key: str) -> tuple[int, int, int]:
        """The inputs of a key's limits: its running jobs, when its bucket is full, and the time."""
        full_at = 0 if self.limits.rate is None else self._buckets.get(key_starts(key), 0)
        return self.running[key], full_at, self._state.now

    def _account(self, record: Record) -> KeyInTask:
        key, task = record.draft.limit_key, record.draft.task
        assert key is not None
        by_task = self._accounts.setdefault(key, {})
        account = by_task.get(task)
        if account is None:
            account = by_task[task] = KeyInTask(key, task, self._lanes.count)
        return account

    def _all_accounts(self) -> Iterator[KeyInTask]:
        for by_task in self._accounts.values():
            yield from by_task.values()

    def _forget_shown(self, account: KeyInTask, record: Record) -> None:
        shown = account.shown[record.tier]
        del shown[bisect_left(shown, (record.turn, record.seq))]
        if not shown:
            del account.shown[record.tier]
        self._lanes.take_away(record)

    def _forget_parked(self, account: KeyInTask, record: Record) -> None:
        self._lanes.unstamp(record)
        record.parked = False
        account.parked.forget(record)
        if record.draft.parent_id is not None:
            group = self._groups[record.draft.parent_id]
            group[account].forget(record)
            if not group[account].live:
                group[account].close()
                del group[account]
                if not group:
                    del self._groups[record.draft.parent_id]


def _job(record: Record) -> Job:
    return record.turn, record.seq, record
