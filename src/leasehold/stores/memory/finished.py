"""Ended jobs, the first to end first, so that the old ones are found without looking at others.

Queues with a retention of their own stand on a shelf of their own: jobs that they keep for longer
are not in the way of the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from heapq import merge
from typing import Final

from leasehold.core.model.status import Status
from leasehold.stores.memory.record import Record

ENDED: Final = (Status.COMPLETED, Status.DEAD, Status.CANCELLED)

Shelf = dict[Status, OrderedDict[str, Record]]


def _shelf() -> Shelf:
    return {status: OrderedDict() for status in ENDED}


class Finished:
    """By shelf (a queue's name, None for all the others) and status."""

    def __init__(self) -> None:
        self.count = 0
        self._common = _shelf()
        self._own: dict[str, Shelf] = {}

    def add(self, record: Record) -> None:
        # Every job that ends comes by here: without a shelf of its own nothing is looked up.
        shelf = self._of(record) if self._own else self._common
        shelf[record.status][record.id] = record
        self.count += 1

    def remove(self, record: Record) -> None:
        del self._of(record)[record.status][record.id]
        self.count -= 1

    def __contains__(self, record: Record) -> bool:
        return record.id in self._of(record)[record.status]

    def shelves(self) -> Collection[str | None]:
        """All of them, by queue; the common one is None."""
        return (None, *self._own)

    def own_shelves(self) -> Collection[str]:
        """The queues that have one of their own."""
        return self._own.keys()

    def first(self, shelf: str | None, status: Status) -> Iterator[Record]:
        """The jobs of one shelf, the first to end first."""
        return iter(self._shelf_of(shelf)[status].values())

    def last(self, status: Status) -> Iterator[Record]:
        """The jobs of all shelves, the last to end first."""
        shelves = (self._common, *self._own.values())
        ends = (reversed(shelf[status].values()) for shelf in shelves)
        return merge(*ends, key=_end, reverse=True)

    def count_of(self, status: Status) -> int:
        """How many have ended like this."""
        return sum(len(shelf[status]) for shelf in (self._common, *self._own.values()))

    def set_apart(self, queue: str) -> None:
        """Give a queue a shelf of its own. It looks at all ended jobs, once."""
        if queue not in self._own:
            self._own[queue] = _shelf()
            for status, jobs in self._common.items():
                for record in [each for each in jobs.values() if each.draft.queue == queue]:
                    del jobs[record.id]
                    self._own[queue][status][record.id] = record

    def put_together(self, queue: str) -> None:
        """Take a queue's shelf away; its jobs stand where they would stand without it."""
        for status, jobs in self._own.pop(queue, {}).items():
            both = merge(self._common[status].values(), jobs.values(), key=_end)
            self._common[status] = OrderedDict((record.id, record) for record in both)

    def _of(self, record: Record) -> Shelf:
        return self._own.get(record.draft.queue, self._common)

    def _shelf_of(self, queue: str | None) -> Shelf:
        return self._common if queue is None else self._own[queue]


def _end(record: Record) -> tuple[int, int]:
    return record.completed_at or 0, record.seq
