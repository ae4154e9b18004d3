"""Reading metrics: counters, samples and a few seeks. Jobs are never scanned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from leasehold.core.model.priority import FIRST_DEADLINE_TIER
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.span import BANDS
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import ErrorType
from leasehold.core.rules.metrics import Standing
from leasehold.stores.tables.query import Reader
from leasehold.stores.tables.records import who_works
from leasehold.stores.tables.tallies import failed_with, worker_totals


def oldest_from(pending_lanes: str, queue: str, *, moment: str, by_age: str) -> str:
    """The statement for when the pending job of each queue became available that waits longest.

    Where a job's turn is the time since when it is available, the first of a tier waits longest:
    from one tier to the next it is a seek in the primary key, however many jobs there are. Those
    whose turn is another have an index of their own, which `by_age` names. `pending_lanes` finds
    where jobs stand (in their lanes, or parked beside them for a key that is full), `queue` is how
    the queue's name is read, `moment` how a time is.
    """
    in_lane = f"FROM ready WHERE ready.lane = stood.lane AND tier < {FIRST_DEADLINE_TIER}"
    return f"""
        WITH stood(lane, queue) AS ({pending_lanes})
        SELECT {queue},
            min((WITH RECURSIVE head(tier) AS (
                    SELECT (SELECT tier {in_lane} ORDER BY tier LIMIT 1)
                    UNION ALL
                    SELECT (SELECT tier {in_lane} AND tier > head.tier ORDER BY tier LIMIT 1)
                    FROM head WHERE head.tier IS NOT NULL)
                SELECT min((SELECT {moment} {in_lane} AND ready.tier = head.tier
                            ORDER BY turn, seq LIMIT 1))
                FROM head WHERE head.tier IS NOT NULL)),
            min((SELECT available_at FROM ready {by_age}
                WHERE ready.lane = stood.lane AND {moment} IS NOT NULL
                AND (available_at <> turn OR tier >= {FIRST_DEADLINE_TIER})
                ORDER BY available_at LIMIT 1))
        FROM stood GROUP BY queue
    """  # noqa: S608  # our own names


class TableMetrics(ABC):
    """What core.rules.metrics asks of a reader; each store hands in its statements."""

    stats: str
    standing: str
    oldest: str

    def __init__(self, reader: Reader, now: int, lost: Collection[str] = ()) -> None:
        self._reader = reader
        self._execute = reader.db.execute
        self.now = now
        self._lost = lost

    @abstractmethod
    def open_minute(self) -> int: ...

    @abstractmethod
    def queues(self) -> Iterable[str]: ...

    def named(self, queue: Any) -> str:
        """The name of a queue, as statements read it."""
        return str(queue)

    def standings(self, queue: str | None) -> Mapping[str, Standing]:
        oldest = {
            self.named(name): min((at for at in found if at is not None), default=None)
            for name, *found in self._execute(self.oldest, (queue,))
        }
        rows = self._execute(self.standing, (queue,))
        return {
            name: Standing(
                counts=dict(zip(Status, figures, strict=False)),
                pending_by_priority=dict(zip(BANDS, figures[len(Status) :], strict=True)),
                oldest_available_at=oldest.get(name),
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
