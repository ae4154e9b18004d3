"""Reading metrics: counters, samples and a few seeks. Jobs are never scanned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.span import BANDS
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import ErrorType
from leasehold.core.rules.metrics import QueueStanding
from leasehold.stores.tables.query import Reader
from leasehold.stores.tables.records import who_works
from leasehold.stores.tables.tallies import failed_with, worker_totals

STATUSES: Final = tuple(Status)
"""In their order; an enumeration is slow to go through for each of hundreds of queues."""


class TableMetrics(ABC):
    """What core.rules.metrics asks of a reader; each store hands in its statements."""

    stats: str
    standing: str

    def __init__(self, reader: Reader, now: int, lost: Collection[str] = ()) -> None:
        self._reader = reader
        self._execute = reader.db.execute
        self.now = now
        self._lost = lost

    @abstractmethod
    def open_minute(self) -> int: ...

    @abstractmethod
    def available_since(self, queue: str | None) -> Mapping[str, int]: ...

    @abstractmethod
    def queues(self) -> Iterable[str]: ...

    def named(self, queue: Any) -> str:
        """The name of a queue, as statements read it."""
        return str(queue)

    def standings(self, queue: str | None) -> Mapping[str, QueueStanding]:
        since = self.available_since(queue)
        rows = self._execute(self.standing, (queue,))
        return {
            name: QueueStanding(
                counts=dict(zip(STATUSES, figures, strict=False)),
                pending_by_priority=dict(zip(BANDS, figures[len(STATUSES) :], strict=True)),
                oldest_available_at=since.get(name),
            )
            for name, figures in ((self.named(name), figures) for name, *figures in rows)
        }

    def leased_by(self) -> Mapping[tuple[str, str], int]:
        totals = worker_totals(self._reader, self.open_minute())
        return {(queue, each.worker): each.leased for queue, each in totals}

    def failed_with(self) -> Mapping[ErrorType, int]:
        return failed_with(self._reader)

    def workers(self) -> list[WorkerInfo]:
        known = who_works(self._reader, self.now)
        return [each for each in known if each.id not in self._lost]
