"""Limits per key: which ready jobs of a key leases see, and which are parked.

`core.key_limits` says which. A parked job is in heaps of its own, by key, task and tier, where no
lease looks but one that is narrowed to its group: that asks each key of the group for its best.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Protocol, TypeVar

from leasehold.core.key_limits import Turn, free_slots, is_shown
from leasehold.stores.memory.heaps import Tiers
from leasehold.stores.memory.record import Entry, Record

Inner = TypeVar("Inner", str, tuple[str, str])
Shelf = list[tuple[int, int, Record]]
"""Shown jobs of one key, task and tier, in order: turn, number, job."""


class Shop(Protocol):
    """Where jobs stand that leases see."""

    def show(self, record: Record) -> None:
        """Let leases see a job."""

    def take_away(self, record: Record) -> None:
        """Let leases see it no more."""

    def stamp(self, record: Record) -> Entry:
        """A new entry for a job."""

    def unstamp(self, record: Record) -> None:
        """Let a job forget its entry."""


class Parking:
    """The jobs of one queue that have a key."""

    __slots__ = ("_groups", "_parked", "_shelves", "_shop", "limit", "running")

    def __init__(self, shop: Shop, limit: int, running: Counter[str]) -> None:
        self._shop = shop
        self.limit = limit
        self.running = running
        """How many jobs of each key run."""
        self._shelves: dict[str, dict[tuple[str, int], Shelf]] = {}
        """By key, then by task and tier."""
        self._parked: dict[str, dict[str, Tiers]] = {}
        """By key and task."""
        self._groups: dict[str, dict[tuple[str, str], Tiers]] = {}
        """The parked jobs that have a parent once more: by that, key and task."""

    def free(self, key: str) -> int:
        """How many jobs more of a key may run."""
        return free_slots(self.limit, self.running[key])

    # -- what becomes of jobs ----------------------------------------------------------------

    def enter(self, record: Record) -> None:
        """A job is ready: show it, or park it, or the one whose place it takes."""
        key = _key(record)
        shelf = self._shelf(key, record.draft.task, record.tier)
        free = self.free(key)
        if is_shown((record.turn, record.seq), _last_shown(shelf, free), free):
            self._show(record, shelf)
            if len(shelf) > free:
                self.park(shelf[free][2])
        else:
            self._park(record)
            self._tidy(record, shelf)

    def leave(self, record: Record) -> bool:
        """A job is not ready any more; whether another one took its place."""
        if record.parked:
            self._forget_parked(record)
            return False
        self._forget_shown(record)
        return self._fill(_key(record), record.draft.task, record.tier)

    def park(self, record: Record) -> None:
        """Leases are not to see a job that its key does not let run."""
        self._forget_shown(record)
        self._park(record)

    def started(self, record: Record) -> None:
        """A job is leased; call it before the job leaves."""
        self.running[_key(record)] += 1

    def ended(self, record: Record) -> bool:
        """A job's lease has ended; whether another one of its key may be leased now."""
        key = _key(record)
        was_full = not self.free(key)
        self.running[key] -= 1
        if not self.running[key]:
            del self.running[key]
        return self.fill(key) or (was_full and key in self._shelves)

    def fill(self, key: str) -> bool:
        """Show what may be leased of a key; whether there was anything."""
        by_task = self._parked.get(key, {})
        tiers = [(task, tier) for task, found in by_task.items() for tier in found.heaps]
        shown = [self._fill(key, task, tier) for task, tier in tiers]
        return any(shown)

    def change_limit(self, limit: int) -> None:
        """What is shown beyond a lower limit is parked by the lease that meets it."""
        self.limit = limit
        for key in list(self._parked):
            self.fill(key)

    # -- what there is -----------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """The parked jobs, in no order."""
        for tiers in self._tiers():
            yield from tiers.records()

    def of_group(
        self, parent_id: str, tasks: Container[str] | None
    ) -> Iterator[tuple[Tiers, Callable[[], int]]]:
        """The parked jobs of a group, each with what says how many more of its key may run."""
        for (key, task), tiers in self._groups.get(parent_id, {}).items():
            if tasks is None or task in tasks:
                yield tiers, partial(self.free, key)

    def tiers(self) -> list[Tiers]:
        """All heaps, to see how healthy they are."""
        groups = [tiers for group in self._groups.values() for tiers in group.values()]
        return [*self._tiers(), *groups]

    def problems(self, name: str, running: Counter[str]) -> Iterator[str]:
        """Whatever would let too many jobs of a key run, or keep one from running for ever."""
        if running != self.running:
            yield f"queue {name} counts {self.running} as running by key, not {running}"
        for key, by_task in self._parked.items():
            for task, tiers in by_task.items():
                for tier, heap in tiers.heaps.items():
                    first = heap.first()
                    shelf = self._shelves.get(key, {}).get((task, tier), [])
                    free = self.free(key)
                    if first is not None and is_shown(
                        (first[2].turn, first[2].seq), _last_shown(shelf, free), free
                    ):
                        yield f"queue {name}, key {key}: job {first[2].id} is parked for nothing"

    # -- inside ------------------------------------------------------------------------------

    def _tiers(self) -> Iterator[Tiers]:
        for by_task in self._parked.values():
            yield from by_task.values()

    def _fill(self, key: str, task: str, tier: int) -> bool:
        """Show parked jobs of a tier, the best first, while they are among the best."""
        free = self.free(key)
        shown = False
        while True:
            tiers = self._parked.get(key, {}).get(task)
            heap = None if tiers is None else tiers.heaps.get(tier)
            first = None if heap is None else heap.first()
            if first is None:
                return shown
            record = first[2]
            shelf = self._shelf(key, task, tier)
            if not is_shown((record.turn, record.seq), _last_shown(shelf, free), free):
                self._tidy(record, shelf)
                return shown
            self._forget_parked(record)
            self._show(record, shelf)
            if len(shelf) > free:
                self.park(shelf[free][2])
            shown = True

    def _shelf(self, key: str, task: str, tier: int) -> Shelf:
        return self._shelves.setdefault(key, {}).setdefault((task, tier), [])

    def _show(self, record: Record, shelf: Shelf) -> None:
        insort(shelf, (record.turn, record.seq, record))
        self._shop.show(record)

    def _forget_shown(self, record: Record) -> None:
        shelf = self._shelf(_key(record), record.draft.task, record.tier)
        del shelf[bisect_left(shelf, (record.turn, record.seq))]
        self._tidy(record, shelf)
        self._shop.take_away(record)

    def _tidy(self, record: Record, shelf: Shelf) -> None:
        """Keys come and go without number: an empty shelf must not stay."""
        if not shelf:
            shelves = self._shelves[_key(record)]
            del shelves[record.draft.task, record.tier]
            if not shelves:
                del self._shelves[_key(record)]

    def _park(self, record: Record) -> None:
        entry = self._shop.stamp(record)
        record.parked = True
        key, task, parent = _key(record), record.draft.task, record.draft.parent_id
        self._parked.setdefault(key, {}).setdefault(task, Tiers()).add(record.tier, entry)
        if parent is not None:
            group = self._groups.setdefault(parent, {})
            group.setdefault((key, task), Tiers()).add(record.tier, entry)

    def _forget_parked(self, record: Record) -> None:
        self._shop.unstamp(record)
        record.parked = False
        key, task, parent = _key(record), record.draft.task, record.draft.parent_id
        _forget(self._parked, key, task, record.tier)
        if parent is not None:
            _forget(self._groups, parent, (key, task), record.tier)


def _forget(where: dict[str, dict[Inner, Tiers]], outer: str, inner: Inner, tier: int) -> None:
    tiers = where[outer][inner]
    tiers.one_was_forgotten(tier)
    if not tiers.live:
        del where[outer][inner]
        if not where[outer]:
            del where[outer]


def _last_shown(shelf: Shelf, free: int) -> Turn | None:
    """The last of the first `free` that are shown; None if there are fewer."""
    return shelf[free - 1][:2] if 0 < free <= len(shelf) else None


def _key(record: Record) -> str:
    key = record.draft.limit_key
    assert key is not None
    return key
