"""The waiting jobs of one queue, and the order in which they are served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from leasehold.core.model.budget import PLACED_AT_ONCE
from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.model.priority import DEFAULT_SCORING, DEFAULT_TIERS, Scoring, place
from leasehold.core.model.status import Status
from leasehold.env import to_micros
from leasehold.stores.memory.heaps import REBUILD_ENTRIES_MIN, HeapCount, LazyHeap, Stream, Tiers
from leasehold.stores.memory.parking import NOTHING, KeyInTask, ParkingShelf
from leasehold.stores.memory.record import Entry, Record

if TYPE_CHECKING:
    from leasehold.stores.memory.state import State

SEQ_BITS: Final = 48
"""Bits for a job's number below its turn."""


class Lanes:
    """The waiting jobs of one queue: ready ones by tier, delayed ones by due time."""

    __slots__ = (
        "_by_age", "_narrow", "_stamp", "count", "crossing", "delayed", "key_limits",
        "pending_by_priority", "ready", "scoring", "shelf", "to_place",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = HeapCount()
        """The count of all heaps below."""
        self.ready = Tiers(self.count)
        self.delayed = LazyHeap(self.count)
        self.crossing = LazyHeap(self.count)
        """Ready jobs that will move to another tier, by the time of the move."""
        self.scoring = DEFAULT_SCORING
        self.key_limits: KeyLimits | None = None
        """The limits of each key."""
        self.shelf: ParkingShelf | None = None
        """Set only while the queue limits keys, or some of its jobs stand as if it still did."""
        self.to_place: list[Record] = []
        """Jobs to move because the parameters of the queue have changed."""
        self._stamp = 0
        # parent (None for all jobs) -> task -> tiers, so that narrowed leases are seeks too. Built
        # when a lease is first narrowed, so other users pay nothing for it.
        self._narrow: dict[str | None, dict[str, Tiers]] | None = None
        # Ready jobs by the time at which they became available. Built on first use.
        self._by_age: LazyHeap | None = None
        self.pending_by_priority = [0] * 101
        """How many ready jobs have each own priority, wherever they stand."""

    def add_ready(self, record: Record, now: int) -> None:
        deadline = record.draft.deadline
        tier: int
        turn: int
        crosses_at: int | None = None
        if deadline is None and not record.attempts and self.scoring is DEFAULT_SCORING:
            # The result of `place` for nearly all jobs, without the calls.
            tier = DEFAULT_TIERS[record.base]
            turn = record.available_at
        else:
            tier, turn, crosses_at = place(
                record.base,
                record.attempts,
                record.available_at,
                record.created_at,
                None if deadline is None else to_micros(deadline),
                now,
                self.scoring,
            )
        record.tier = tier
        record.turn = turn
        record.crosses_at = crosses_at
        self.pending_by_priority[record.priority] += 1
        if self.key_limits is not None and record.draft.limit_key is not None:
            assert self.shelf is not None
            self.shelf.enter(record)
            return
        # The same as `show`, inlined: nearly every job passes here, and a call costs time.
        self._stamp = stamp = self._stamp + 1
        entry = (turn << SEQ_BITS | record.seq, stamp, record)
        record.stamp = stamp
        heap = self.ready.heaps.get(tier)
        if heap is None:
            self.ready.add(tier, entry)
        else:
            heap.add(entry)
        if crosses_at is not None:
            self.crossing.add((crosses_at, stamp, record))
        if self._by_age is not None:
            self._by_age.add((record.available_at, stamp, record))
        if self._narrow is not None:
            self._add_narrow(self._narrow, entry)

    def show(self, record: Record) -> None:
        """Let leases see a ready job."""
        entry = self.stamp(record)
        self.ready.add(record.tier, entry)
        if self._narrow is not None:
            self._add_narrow(self._narrow, entry)

    def stamp(self, record: Record) -> Entry:
        """A new entry for a ready job; the stamp tells it from entries the job has forgotten."""
        self._stamp += 1
        record.stamp = self._stamp
        if record.crosses_at is not None:
            self.crossing.add((record.crosses_at, self._stamp, record))
        if self._by_age is not None:
            self._by_age.add((record.available_at, self._stamp, record))
        return record.turn << SEQ_BITS | record.seq, self._stamp, record

    def add_delayed(self, record: Record) -> None:
        self._stamp += 1
        entry = (record.available_at, self._stamp, record)
        record.stamp = self._stamp
        self.delayed.add(entry)

    def forget_ready(self, record: Record) -> None:
        """Remove a ready job."""
        self.pending_by_priority[record.priority] -= 1
        if record.counted:
            assert self.shelf is not None
            self.shelf.leave(record)
            return
        # The same as `take_away`, inlined: nearly every job passes here.
        record.stamp = 0
        self.ready.forget(record)
        if record.crosses_at is not None:
            self.crossing.forget(record)
        if self._by_age is not None:
            self._by_age.forget(record)
        if self._narrow is not None:
            self._forget_narrow(self._narrow, record)

    def take_away(self, record: Record) -> None:
        """Hide a ready job from leases."""
        self.unstamp(record)
        self.ready.forget(record)
        if self._narrow is not None:
            self._forget_narrow(self._narrow, record)

    def unstamp(self, record: Record) -> None:
        """Make a ready job forget its entry."""
        record.stamp = 0
        if record.crosses_at is not None:
            self.crossing.forget(record)
        if self._by_age is not None:
            self._by_age.forget(record)

    def forget_delayed(self, record: Record) -> None:
        record.stamp = 0
        self.delayed.forget(record)

    def place_anew(self, record: Record, now: int) -> None:
        """Move a ready job to where it belongs now."""
        self.forget_ready(record)
        self.add_ready(record, now)

    def count_anew(self, before: int, after: int) -> None:
        """Update the counts for a ready job about to get another priority of its own."""
        self.pending_by_priority[before] -= 1
        self.pending_by_priority[after] += 1

    @property
    def lags(self) -> bool:
        """Whether jobs may stand where they no longer belong."""
        return bool(self.crossing.entries or self.to_place) or (
            self.shelf is not None and self.shelf.lags
        )

    @property
    def follows_a_change(self) -> bool:
        """Whether some jobs still stand where old rules have put them."""
        return bool(self.to_place) or (self.shelf is not None and self.shelf.lags)

    def rebalance(self, now: int) -> bool:
        """Move a bounded number of jobs that need it; returns whether there may be more."""
        left = PLACED_AT_ONCE
        while left and (due := self.crossing.first()) is not None and due[0] <= now:
            self.place_anew(due[2], now)
            left -= 1
        while left and self.to_place:
            record = self.to_place.pop()
            if record.status is Status.PENDING:
                self.place_anew(record, now)
            left -= 1
        if self.shelf is not None and not self.to_place:
            if self.key_limits is None:
                self.shelf.close()
                self.shelf = None
            else:
                self.shelf.fill_some(left)
        self.tidy(now)
        return not left or self.follows_a_change

    def rescore(self, scoring: Scoring) -> None:
        """All jobs have to be moved, according to new parameters."""
        self.scoring = scoring
        self.to_place = list(self.records())

    def limit_keys(
        self,
        limits: KeyLimits | None,
        running: Callable[[], Counter[str]],
        state: State,
        buckets: dict[str, int],
    ) -> None:
        """Set, change or remove the limit on how many jobs of one key run or start.

        Running jobs are counted at once, so that the next lease obeys it. `rebalance` handles
        pending jobs: until it has reached them, leases read them and park the excess.
        """
        before, self.key_limits = self.key_limits, limits
        if limits is None:
            if self.shelf is not None:
                self.shelf.limits = NOTHING  # No job may take the place of a removed one.
                self.to_place = list(self.records())
        elif before is None:
            # A shelf remains from an earlier limit only while jobs stand as if that still held.
            self.shelf = self.shelf or ParkingShelf(self, state, buckets)
            self.shelf.limits, self.shelf.running = limits, running()
            self.to_place = list(self.records())
        elif self.shelf is not None:
            self.shelf.change_limits(limits)

    def records(self) -> Iterator[Record]:
        """All ready jobs, in no particular order."""
        yield from self.ready.records()
        if self.shelf is not None:
            yield from self.shelf.records()

    def streams_for(self, tasks: tuple[str, ...] | None, parent_id: str | None) -> list[Stream]:
        """The streams that together hold the ready jobs that a narrowed lease may see."""
        if tasks is None and parent_id is None:
            return [Stream(heap, self.scoring) for heap in self.ready.heaps.values()]
        by_task = self._narrowed().get(parent_id, {})
        names = by_task if tasks is None else dict.fromkeys(tasks)
        return [
            Stream(heap, self.scoring)
            for name in names
            if name in by_task
            for heap in by_task[name].heaps.values()
        ]

    def parked_streams(
        self,
        tasks: tuple[str, ...] | None,
        parked: Iterable[tuple[KeyInTask, Tiers]],
        free_of_key: Callable[[str], int],
    ) -> list[Stream]:
        """A job parked behind jobs of other groups may be the best of its own group."""
        return [
            Stream(heap, self.scoring, partial(free_of_key, account.key))
            for account, tiers in parked
            if (tasks is None or account.task in tasks) and free_of_key(account.key)
            for heap in tiers.heaps.values()
        ]

    def oldest_available_at(self) -> int | None:
        """When the longest-waiting job became available."""
        if self._by_age is None:
            self._by_age = LazyHeap(
                self.count,
                ((record.available_at, record.stamp, record) for record in self.records()),
            )
        oldest = self._by_age.first()
        return None if oldest is None else oldest[0]

    def tasks(self) -> list[str]:
        """The tasks that have ready jobs."""
        return list(self._narrowed().get(None, {}))

    def _narrowed(self) -> dict[str | None, dict[str, Tiers]]:
        if self._narrow is None:
            self._narrow = {}
            for heap in self.ready.heaps.values():
                for entry in heap.entries:
                    if entry[2].stamp == entry[1]:
                        self._add_narrow(self._narrow, entry)
        return self._narrow

    def tidy(self, now: int) -> None:
        """Rebuild the heaps when fewer than half of all their entries are alive."""
        count = self.count
        if count.dead * 2 > count.size >= REBUILD_ENTRIES_MIN:
            self.rebuild(now)

    def rebuild(self, now: int) -> None:
        """Drop the dead entries of every heap."""
        for heap in self.heaps():
            heap.rebuild()
        self.count.rebuilds += 1
        self.count.rebuilt_at = now

    def heaps(self) -> list[LazyHeap]:
        """All heaps."""
        by_age = [] if self._by_age is None else [self._by_age]
        narrow = [tiers for group in (self._narrow or {}).values() for tiers in group.values()]
        narrow += [] if self.shelf is None else self.shelf.tiers()
        return [
            self.delayed,
            self.crossing,
            *by_age,
            *(heap for tiers in (self.ready, *narrow) for heap in tiers.heaps.values()),
        ]

    def _add_narrow(self, narrow: dict[str | None, dict[str, Tiers]], entry: Entry) -> None:
        record = entry[2]
        for group in _groups(record):
            by_task = narrow.setdefault(group, {})
            by_task.setdefault(record.draft.task, Tiers(self.count)).add(record.tier, entry)

    @staticmethod
    def _forget_narrow(narrow: dict[str | None, dict[str, Tiers]], record: Record) -> None:
        for group in _groups(record):
            by_task = narrow[group]
            tiers = by_task[record.draft.task]
            tiers.forget(record)
            if not tiers.live:
                # The number of groups is unbounded, so empty heaps are removed.
                tiers.close()
                del by_task[record.draft.task]
                if not by_task:
                    del narrow[group]


def _groups(record: Record) -> tuple[str | None, ...]:
    return (None,) if record.draft.parent_id is None else (None, record.draft.parent_id)
