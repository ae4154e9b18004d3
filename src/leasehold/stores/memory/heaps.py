"""The order in which jobs are served: heaps whose dead entries are left in place and removed later.

Removing a job from the middle of a heap is slow, so it is not done: the job forgets its entry,
which is then dead. A dead entry is dropped when it reaches the top, or when the heaps of its queue
are rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from leasehold.core.model.priority import Scoring, score
from leasehold.stores.memory.record import Entry, Record

REBUILD_ENTRIES_MIN: Final = 100
"""Heaps of a queue with fewer entries than this are never worth rebuilding."""
REBUILD_LIVE_SHARE: Final = 0.5
"""Heaps are rebuilt when a smaller share of their entries is alive."""


class HeapFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the heaps of a queue, or of all queues, and when they are rebuilt."""

    size: int = 0
    """All entries, including dead ones."""
    dead: int = 0
    """Entries whose jobs have left the heap."""
    rebuilds: int = 0
    last_rebuild_at: datetime | None = None
    rebuild_entries_min: int = REBUILD_ENTRIES_MIN
    rebuild_live_share: float = REBUILD_LIVE_SHARE

    @property
    def live(self) -> int:
        return self.size - self.dead

    @property
    def health(self) -> float:
        """The share of entries that are alive, from 0 to 1; 1 when there are none."""
        return self.live / self.size if self.size else 1.0


class HeapCount:
    """The total entries of all heaps of one queue, and the rebuilds so far."""

    __slots__ = ("dead", "rebuilds", "rebuilt_at", "size")

    def __init__(self) -> None:
        self.size = 0
        self.dead = 0
        self.rebuilds = 0
        self.rebuilt_at: int | None = None


class LazyHeap:
    """Entries in order, including dead ones."""

    __slots__ = ("_dead", "count", "entries")

    def __init__(self, count: HeapCount, entries: Iterable[Entry] = ()) -> None:
        self.count = count
        self.entries = list(entries)
        self._dead = 0
        count.size += len(self.entries)
        heapify(self.entries)

    @property
    def live(self) -> int:
        """How many jobs there are."""
        return len(self.entries) - self._dead

    def add(self, entry: Entry) -> None:
        heappush(self.entries, entry)
        self.count.size += 1

    def first(self) -> Entry | None:
        """The best live entry. It stays in the heap until its job forgets it."""
        entries = self.entries
        while entries:
            entry = entries[0]
            if entry[2].stamp == entry[1]:
                return entry
            heappop(entries)
            self._dead -= 1
            count = self.count
            count.size -= 1
            count.dead -= 1
        return None

    def in_order(self) -> Iterator[Record]:
        """The live jobs, best first, without removing them.

        No entry of a heap is better than its parent, so the next one is a child of one already
        returned.
        """
        entries = self.entries
        nearest = [(entries[0], 0)] if entries else []
        while nearest:
            entry, at = heappop(nearest)
            if entry[2].stamp == entry[1]:
                yield entry[2]
            for below in (2 * at + 1, 2 * at + 2):
                if below < len(entries):
                    heappush(nearest, (entries[below], below))

    def forget(self, record: Record) -> None:
        """Mark the entry of a job that has left as dead. At the top, where leases take jobs, drop
        it at once.

        If the top is another, already dead entry of that job, the counts do not change.
        """
        entries = self.entries
        if entries[0][2] is record:
            heappop(entries)
            self.count.size -= 1
        else:
            self._dead += 1
            self.count.dead += 1

    def rebuild(self) -> None:
        """Drop the dead entries."""
        live = [entry for entry in self.entries if entry[2].stamp == entry[1]]
        dropped = len(self.entries) - len(live)
        if dropped:
            heapify(live)
            self.entries = live
            self._dead = 0
            self.count.size -= dropped
            self.count.dead -= dropped

    def close(self) -> None:
        """Empty the heap and subtract its entries from the count; an open walk through it ends."""
        self.count.size -= len(self.entries)
        self.count.dead -= self._dead
        self.entries = []
        self._dead = 0


class Tiers:
    """Ready jobs in their order: a heap per tier, within which the order never changes."""

    __slots__ = ("count", "heaps")

    def __init__(self, count: HeapCount) -> None:
        self.count = count
        self.heaps: dict[int, LazyHeap] = {}

    def add(self, tier: int, entry: Entry) -> None:
        heap = self.heaps.get(tier)
        if heap is None:
            self.heaps[tier] = LazyHeap(self.count, (entry,))
        else:
            heap.add(entry)

    def forget(self, record: Record) -> None:
        """A job has left."""
        heap = self.heaps[record.tier]
        heap.forget(record)
        # The number of tiers of deadlines is unbounded, so empty heaps are removed. The last one
        # stays, so that a queue that is sometimes empty does not create a new one each time.
        if len(self.heaps) > 1 and not heap.live:
            heap.close()
            del self.heaps[record.tier]

    def close(self) -> None:
        """Close all heaps."""
        for heap in self.heaps.values():
            heap.close()
        self.heaps = {}

    @property
    def live(self) -> int:
        """How many jobs there are."""
        return sum(heap.live for heap in self.heaps.values())

    def records(self) -> Iterator[Record]:
        """All records, in no particular order."""
        for heap in self.heaps.values():
            for entry in heap.entries:
                if entry[2].stamp == entry[1]:
                    yield entry[2]


class Stream(msgspec.Struct, frozen=True):
    """One tier of one queue, to lease from."""

    heap: LazyHeap
    scoring: Scoring
    is_open: Callable[[], object] | None = None
    """Called before each job; once it returns False, no more of the stream is read."""

    def best(self) -> Record | None:
        """The first job, if one may be taken."""
        entry = self.heap.first()
        if entry is None or (self.is_open is not None and not self.is_open()):
            return None
        return entry[2]


def in_order(streams: Sequence[Stream], now: int) -> Iterator[Record]:
    """The jobs of these streams, best first. Each must be removed before the next is requested.

    Only the first jobs of the streams are compared.
    """
    # Most leases take one job of one tier: abandoning a generator costs more than using it.
    return iter(streams[0].best, None) if len(streams) == 1 else _merged(streams, now)


def _merged(streams: Sequence[Stream], now: int) -> Iterator[Record]:
    heads: list[tuple[float, int, int, Stream]] = []
    for stream in streams:
        _add_head(heads, stream, now)
    while heads:
        stream = heappop(heads)[3]
        if stream.is_open is not None and not stream.is_open():
            continue
        entry = stream.heap.first()
        assert entry is not None
        yield entry[2]
        _add_head(heads, stream, now)


def _add_head(heads: list[tuple[float, int, int, Stream]], stream: Stream, now: int) -> None:
    entry = stream.heap.first()
    if entry is not None:
        heappush(heads, (*order_of(entry[2], stream.scoring, now), stream))


def order_of(record: Record, scoring: Scoring, now: int) -> tuple[float, int, int]:
    """The sort key of a ready job: effective priority, start of the wait, number."""
    since = record.turn if scoring.is_plain else record.available_at
    return -score(record.tier, record.turn, now, scoring), since, record.seq
