"""The order in which jobs are served: heaps whose dead entries are left behind and swept up later.

Taking a job out of the middle of a heap is slow, so nobody does: the job forgets its entry, and an
entry that its job has forgotten is dropped when it comes to the top, or when the heap is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from leasehold.core.model.priority import Scoring, score
from leasehold.stores.memory.record import Entry, Record

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


class Tiers:
    """Ready jobs in their order: a heap per tier, within which the order never changes."""

    __slots__ = ("heaps",)

    def __init__(self) -> None:
        self.heaps: dict[int, LazyHeap] = {}

    def add(self, tier: int, entry: Entry) -> None:
        heap = self.heaps.get(tier)
        if heap is None:
            self.heaps[tier] = LazyHeap((entry,))
        else:
            heap.add(entry)

    def one_was_forgotten(self, tier: int) -> None:
        heap = self.heaps[tier]
        heap.one_was_forgotten()
        # Tiers of deadlines come and go without number: an empty heap must not stay. The last one
        # does, so that a queue which is empty now and then makes no new one each time.
        if not heap.live and len(self.heaps) > 1:
            del self.heaps[tier]

    @property
    def live(self) -> int:
        """How many jobs there are."""
        return sum(heap.live for heap in self.heaps.values())

    def records(self) -> Iterator[Record]:
        """All of them, in no order."""
        for heap in self.heaps.values():
            for entry in heap.entries:
                if entry[2].stamp == entry[1]:
                    yield entry[2]


class Stream(NamedTuple):
    """One tier of one queue, to lease from."""

    heap: LazyHeap
    scoring: Scoring
    is_open: Callable[[], object] | None = None
    """Asked before each job; once it says no, no more of the stream is read."""


def in_order(streams: Sequence[Stream], now: int) -> Iterator[Record]:
    """The jobs of these streams, the best first. Each must be taken out before the next is asked.

    Only the first jobs of the streams are compared.
    """
    if len(streams) == 1:
        heap, _, is_open = streams[0]
        while (entry := heap.first()) is not None and (is_open is None or is_open()):
            yield entry[2]
        return
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
    """What a ready job is compared by: effective priority, since when it waits, number."""
    since = record.turn if scoring.is_plain else record.available_at
    return -score(record.tier, record.turn, now, scoring), since, record.seq
