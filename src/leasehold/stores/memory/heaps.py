"""The order in which jobs are served: heaps whose dead entries are left behind and swept up later.

Taking a job out of the middle of a heap is slow, so nobody does: the job forgets its entry, and an
entry that its job has forgotten is dropped when it comes to the top, or when the heap is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from leasehold.stores.memory.record import Entry, Record, available_at

REBUILD_ENTRIES_MIN: Final = 100
"""A smaller heap is never worth rebuilding."""


class LazyHeap:
    """Entries in order, the forgotten ones among them."""

    __slots__ = ("entries", "live")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)
        self.live = len(self.entries)
        heapify(self.entries)

    def add(self, entry: Entry) -> None:
        heappush(self.entries, entry)
        self.live += 1

    def first(self) -> Entry | None:
        """The best entry that is not forgotten. It stays in the heap until its job forgets it."""
        entries = self.entries
        while entries:
            entry = entries[0]
            if entry[2].stamp == entry[1]:
                return entry
            heappop(entries)
        return None

    def one_was_forgotten(self) -> None:
        """Keep count, and rebuild the heap when fewer than half of its entries are alive."""
        self.live -= 1
        if len(self.entries) >= REBUILD_ENTRIES_MIN and self.live * 2 < len(self.entries):
            self.entries = [entry for entry in self.entries if entry[2].stamp == entry[1]]
            heapify(self.entries)


class Lanes:
    """The jobs of one queue that wait: the ready ones by priority, the delayed ones by due time."""

    __slots__ = ("_by_age", "_narrow", "_stamp", "delayed", "pending_by_priority", "ready")

    def __init__(self) -> None:
        self.ready = LazyHeap()
        self.delayed = LazyHeap()
        self._stamp = 0
        # parent (None for all jobs) -> task -> heap, so that a narrowed lease seeks as well. Made
        # when somebody first narrows: who never does pays nothing for it.
        self._narrow: dict[str | None, dict[str, LazyHeap]] | None = None
        # By the time since when they are available. Made when somebody first asks.
        self._by_age: LazyHeap | None = None
        self.pending_by_priority = [0] * 101

    def add_ready(self, record: Record) -> None:
        # The stamp tells a job's entry from those that it has forgotten.
        self._stamp += 1
        entry = ((100 - record.priority) << 50 | record.seq, self._stamp, record)
        record.stamp = self._stamp
        self.ready.add(entry)
        self.pending_by_priority[record.priority] += 1
        if self._by_age is not None:
            self._by_age.add((available_at(record), self._stamp, record))
        if self._narrow is not None:
            self._add_narrow(self._narrow, entry)

    def add_delayed(self, record: Record) -> None:
        self._stamp += 1
        entry = (record.run_at, self._stamp, record)
        record.stamp = self._stamp
        self.delayed.add(entry)

    def forget_ready(self, record: Record) -> None:
        record.stamp = 0
        self.ready.one_was_forgotten()
        self.pending_by_priority[record.priority] -= 1
        if self._by_age is not None:
            self._by_age.one_was_forgotten()
        if self._narrow is not None:
            self._forget_narrow(self._narrow, record)

    def forget_delayed(self, record: Record) -> None:
        record.stamp = 0
        self.delayed.one_was_forgotten()

    def heaps_for(self, tasks: tuple[str, ...] | None, parent_id: str | None) -> list[LazyHeap]:
        """The heaps that together hold exactly the ready jobs a lease is narrowed to."""
        if tasks is None and parent_id is None:
            return [self.ready]
        by_task = self._narrowed().get(parent_id, {})
        names = by_task if tasks is None else dict.fromkeys(tasks)
        return [by_task[name] for name in names if name in by_task]

    def oldest_available_at(self) -> int | None:
        """When the job became available that waits longest."""
        if self._by_age is None:
            self._by_age = LazyHeap(
                (available_at(record), stamp, record)
                for _, stamp, record in self.ready.entries
                if record.stamp == stamp
            )
        oldest = self._by_age.first()
        return None if oldest is None else oldest[0]

    def tasks(self) -> list[str]:
        """The tasks that have ready jobs."""
        return list(self._narrowed().get(None, {}))

    def _narrowed(self) -> dict[str | None, dict[str, LazyHeap]]:
        if self._narrow is None:
            self._narrow = {}
            for entry in self.ready.entries:
                if entry[2].stamp == entry[1]:
                    self._add_narrow(self._narrow, entry)
        return self._narrow

    def heaps(self) -> list[LazyHeap]:
        """Every heap there is, to see how healthy they are."""
        narrow = self._narrow or {}
        by_age = [] if self._by_age is None else [self._by_age]
        narrowed = (heap for group in narrow.values() for heap in group.values())
        return [self.ready, self.delayed, *by_age, *narrowed]

    @staticmethod
    def _add_narrow(narrow: dict[str | None, dict[str, LazyHeap]], entry: Entry) -> None:
        record = entry[2]
        for group in _groups(record):
            narrow.setdefault(group, {}).setdefault(record.draft.task, LazyHeap()).add(entry)

    @staticmethod
    def _forget_narrow(narrow: dict[str | None, dict[str, LazyHeap]], record: Record) -> None:
        for group in _groups(record):
            by_task = narrow[group]
            heap = by_task[record.draft.task]
            heap.one_was_forgotten()
            if not heap.live:
                # Groups come and go without number: an empty heap must not stay.
                del by_task[record.draft.task]
                if not by_task:
                    del narrow[group]


def best_of(heaps: list[LazyHeap]) -> Record | None:
    """The job that is served next from these heaps; it stays in them until it is forgotten."""
    if len(heaps) == 1:
        entry = heaps[0].first()
    else:
        entry = min(filter(None, (heap.first() for heap in heaps)), default=None)
    return None if entry is None else entry[2]


def _groups(record: Record) -> tuple[str | None, ...]:
    return (None,) if record.draft.parent_id is None else (None, record.draft.parent_id)
