"""The order in which jobs are served: heaps whose dead entries are left behind and swept up later.

Taking a job out of the middle of a heap is slow, so nobody does: the job forgets its entry, and an
entry that its job has forgotten is dropped when it comes to the top, or when the heap is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from leasehold.core.priority import DEFAULT_SCORING, Scoring, default_tier, place, score
from leasehold.env import to_micros
from leasehold.stores.memory.record import Entry, Record

if TYPE_CHECKING:
    from leasehold.stores.memory.parking import Parking

REBUILD_ENTRIES_MIN: Final = 100
"""A smaller heap is never worth rebuilding."""
SEQ_BITS: Final = 48
"""Room for a job's number behind its turn."""


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


class Lanes:
    """The jobs of one queue that wait: the ready ones by tier, the delayed ones by due time."""

    __slots__ = (
        "_by_age", "_narrow", "_stamp", "crossing", "delayed", "parking", "pending_by_priority",
        "ready", "scoring",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready = Tiers()
        self.delayed = LazyHeap()
        self.crossing = LazyHeap()
        """Ready jobs that will belong into another tier, by when."""
        self.scoring = DEFAULT_SCORING
        self.parking: Parking | None = None
        """Only while the queue limits how many jobs of one key run."""
        self._stamp = 0
        # parent (None for all jobs) -> task -> tiers, so that a narrowed lease seeks as well. Made
        # when somebody first narrows: who never does pays nothing for it.
        self._narrow: dict[str | None, dict[str, Tiers]] | None = None
        # By the time since when they are available. Made when somebody first asks.
        self._by_age: LazyHeap | None = None
        self.pending_by_priority = [0] * 101
        """How many ready jobs have each priority of their own, wherever they stand."""

    def add_ready(self, record: Record, now: int) -> None:
        deadline = record.draft.deadline
        tier: int
        turn: int
        crosses_at: int | None = None
        if deadline is None and not record.attempts and self.scoring is DEFAULT_SCORING:
            # What `place` says of nearly all, without the way there.
            tier, turn = default_tier(record.base), record.available_at
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
        if self.parking is not None and record.draft.limit_key is not None:
            self.parking.enter(record)
            return
        # The same as `show`, said again: this is the way of nearly every job, and a call costs.
        self._stamp = stamp = self._stamp + 1
        entry = (turn << SEQ_BITS | record.seq, stamp, record)
        record.stamp = stamp
        self.ready.add(tier, entry)
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
        """A new entry for a ready job; the stamp tells it from those that the job has forgotten."""
        self._stamp += 1
        record.stamp = self._stamp
        if record.crosses_at is not None:
            self.crossing.add((record.crosses_at, self._stamp, record))
        if self._by_age is not None:
            self._by_age.add((record.available_at, self._stamp, record))
        return record.turn << SEQ_BITS | record.seq, self._stamp, record

    def add_delayed(self, record: Record) -> None:
        self._stamp += 1
        entry = (record.run_at, self._stamp, record)
        record.stamp = self._stamp
        self.delayed.add(entry)

    def forget_ready(self, record: Record) -> bool:
        """Take a ready job out; whether leases see another one of its key instead."""
        self.pending_by_priority[record.priority] -= 1
        if self.parking is not None and record.draft.limit_key is not None:
            return self.parking.leave(record)
        # The same as `take_away`, said again: this is the way of nearly every job.
        record.stamp = 0
        self.ready.one_was_forgotten(record.tier)
        if record.crosses_at is not None:
            self.crossing.one_was_forgotten()
        if self._by_age is not None:
            self._by_age.one_was_forgotten()
        if self._narrow is not None:
            self._forget_narrow(self._narrow, record)
        return False

    def take_away(self, record: Record) -> None:
        """Let leases see a ready job no more."""
        self.unstamp(record)
        self.ready.one_was_forgotten(record.tier)
        if self._narrow is not None:
            self._forget_narrow(self._narrow, record)

    def unstamp(self, record: Record) -> None:
        """Let a ready job forget its entry."""
        record.stamp = 0
        if record.crosses_at is not None:
            self.crossing.one_was_forgotten()
        if self._by_age is not None:
            self._by_age.one_was_forgotten()

    def forget_delayed(self, record: Record) -> None:
        record.stamp = 0
        self.delayed.one_was_forgotten()

    def place_anew(self, record: Record, now: int) -> None:
        """Put a ready job where it belongs now."""
        self.forget_ready(record)
        self.add_ready(record, now)

    def count_anew(self, before: int, after: int) -> None:
        """A ready job is about to get another priority of its own."""
        self.pending_by_priority[before] -= 1
        self.pending_by_priority[after] += 1

    def rebalance(self, now: int, limit: int | None = None) -> None:
        """Place those anew that belong into another tier by now, so many of them, or all."""
        placed = 0
        while (due := self.crossing.first()) is not None and due[0] <= now and placed != limit:
            self.place_anew(due[2], now)
            placed += 1

    def rescore(self, scoring: Scoring, now: int) -> None:
        """Place all anew, by what counts from now on."""
        self.scoring = scoring
        for record in list(self.records()):
            self.place_anew(record, now)

    def limit_keys(self, parking: Parking | None, now: int) -> None:
        """Begin or cease to limit how many jobs of one key run: all are placed anew."""
        records = list(self.records())
        if self.parking is not None:
            self.parking.limit = 0  # So that nothing takes the place of what is taken out.
        for record in records:
            self.forget_ready(record)
        self.parking = parking
        for record in records:
            self.add_ready(record, now)

    def records(self) -> Iterator[Record]:
        """All ready jobs, in no order."""
        yield from self.ready.records()
        if self.parking is not None:
            yield from self.parking.records()

    def streams_for(self, tasks: tuple[str, ...] | None, parent_id: str | None) -> list[Stream]:
        """What together holds the ready jobs a lease is narrowed to, as far as it may see them."""
        if tasks is None and parent_id is None:
            return [Stream(heap, self.scoring) for heap in self.ready.heaps.values()]
        by_task = self._narrowed().get(parent_id, {})
        names = by_task if tasks is None else dict.fromkeys(tasks)
        streams = [
            Stream(heap, self.scoring)
            for name in names
            if name in by_task
            for heap in by_task[name].heaps.values()
        ]
        if self.parking is not None and parent_id is not None:
            # What is parked behind jobs of other groups is the best of its own.
            streams += [
                Stream(heap, self.scoring, may_run)
                for tiers, may_run in self.parking.of_group(parent_id, tasks)
                for heap in tiers.heaps.values()
            ]
        return streams

    def oldest_available_at(self) -> int | None:
        """When the job became available that waits longest."""
        if self._by_age is None:
            self._by_age = LazyHeap(
                (record.available_at, record.stamp, record) for record in self.records()
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

    def heaps(self) -> list[LazyHeap]:
        """Every heap there is, to see how healthy they are."""
        by_age = [] if self._by_age is None else [self._by_age]
        narrow = [tiers for group in (self._narrow or {}).values() for tiers in group.values()]
        narrow += [] if self.parking is None else self.parking.tiers()
        return [
            self.delayed,
            self.crossing,
            *by_age,
            *(heap for tiers in (self.ready, *narrow) for heap in tiers.heaps.values()),
        ]

    @staticmethod
    def _add_narrow(narrow: dict[str | None, dict[str, Tiers]], entry: Entry) -> None:
        record = entry[2]
        for group in _groups(record):
            by_task = narrow.setdefault(group, {})
            by_task.setdefault(record.draft.task, Tiers()).add(record.tier, entry)

    @staticmethod
    def _forget_narrow(narrow: dict[str | None, dict[str, Tiers]], record: Record) -> None:
        for group in _groups(record):
            by_task = narrow[group]
            tiers = by_task[record.draft.task]
            tiers.one_was_forgotten(record.tier)
            if not tiers.live:
                # Groups come and go without number: an empty heap must not stay.
                del by_task[record.draft.task]
                if not by_task:
                    del narrow[group]


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


def _groups(record: Record) -> tuple[str | None, ...]:
    return (None,) if record.draft.parent_id is None else (None, record.draft.parent_id)
