"""Reading metrics: counters, samples and a few seeks. Jobs are never scanned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.span import BANDS
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import ErrorType
from leasehold.stores.tables.lanes import stats
from leasehold.stores.tables.query import Reader
from leasehold.stores.tables.records import who_works
from leasehold.stores.tables.tallies import failed_with, worker_totals


class TableMetrics(ABC):
    """What core.rules.metrics asks of a reader; each store hands in its statements."""

    stats: str
    by_priority: str
    pending_lanes: str
    next_head: str
    oldest_out_of_turn: str

    def __init__(self, reader: Reader, now: int, lost: Collection[str] = ()) -> None:
        self._reader = reader
        self._execute = reader.db.execute
        self.now = now
        self._lost = lost

    @abstractmethod
    def open_minute(self) -> int: ...

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        return stats(self._reader.db, self.stats, queue).counts

    def pending_by_priority(self, queue: str | None) -> Mapping[str, int]:
        row = self._execute(self.by_priority, (queue,)).fetchone()
        return dict(zip(BANDS, row, strict=True))

    def leased_by(self) -> Mapping[tuple[str, str], int]:
        totals = worker_totals(self._reader, self.open_minute())
        return {(queue, each.worker): each.leased for queue, each in totals}

    def failed_with(self) -> Mapping[ErrorType, int]:
        return failed_with(self._reader)

    def workers(self) -> list[WorkerInfo]:
        known = who_works(self._reader, self.now)
        return [each for each in known if each.id not in self._lost]

    def oldest_available_at(self, queue: str | None) -> int | None:
        """When the pending job that waits longest became available.

        Where a job's turn is the time since when it is available, the first of a tier waits
        longest; those whose turn is another have an index of their own.
        """
        oldest: list[int | None] = []
        for (lane,) in self._execute(self.pending_lanes, (queue,)).fetchall():
            tier = -1
            while (head := self._execute(self.next_head, (lane, tier)).fetchone()) is not None:
                tier, available_at = head
                oldest.append(available_at)
            oldest += (at for (at,) in self._execute(self.oldest_out_of_turn, (lane,)))
        return min((at for at in oldest if at is not None), default=None)
