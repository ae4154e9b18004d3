"""Reading metrics: counters, samples and a few seeks. Jobs are never scanned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from leasehold.core.model.priority import FIRST_DEADLINE_TIER
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.span import BANDS
from leasehold.core.model.status import Status
from leasehold.core.rules import metrics_check
from leasehold.core.rules.failures import ErrorType
from leasehold.core.rules.sampling import Resolution
from leasehold.stores.postgres.reading.records import who_works
from leasehold.stores.postgres.reading.sampling import Spans
from leasehold.stores.postgres.reading.tallies import failed_with, worker_totals
from leasehold.stores.postgres.server.connection import Connection, Cursor
from leasehold.stores.postgres.submitting.lanes import STATS, stats_of

BY_PRIORITY: Final = (  # every name in it is our own
    f"SELECT {', '.join(f'coalesce(sum(pending_{band}), 0)::bigint' for band in BANDS)} "  # noqa: S608
    "FROM lane_now WHERE queue = coalesce($1, queue)"
)
# Where pending jobs stand: in their lanes, or parked beside them for a key that is full.
PENDING_LANES: Final = """
    SELECT id FROM lane WHERE queue = coalesce($1, queue)
    UNION ALL SELECT -id FROM key_lane WHERE queue = coalesce($1, queue)
"""
# From one tier to the next by a seek in the primary key, however many jobs are in it.
NEXT_HEAD: Final = f"""
    SELECT tier, available_at FROM ready
    WHERE lane = $1 AND tier > $2 AND tier < {FIRST_DEADLINE_TIER} ORDER BY tier, turn, seq LIMIT 1
"""  # noqa: S608  # our own number
OLDEST_OUT_OF_TURN: Final = f"""
    SELECT min(available_at) FROM ready
    WHERE lane = $1 AND (available_at <> turn OR tier >= {FIRST_DEADLINE_TIER})
"""  # noqa: S608  # our own number

# For the integrity check only: it does scan.
RECOUNT: Final = """
    SELECT lane.queue, lane.task, job.priority, count(*) FROM ready JOIN job USING (seq)
    JOIN lane ON lane.id = job.lane GROUP BY lane.queue, lane.task, job.priority
"""
COUNTED_BY_BAND: Final = (
    f"SELECT queue, task, {', '.join(f'pending_{band}' for band in BANDS)} FROM lane_now"  # noqa: S608  # our own names
)
LATEST_MINUTE: Final = "SELECT max(at) FROM span WHERE resolution = $1"


class Look(Spans):
    """What core.rules.metrics asks of a reader."""

    def __init__(self, db: Connection, now: int, lost: Collection[str] = ()) -> None:
        super().__init__(db)
        self._db = db
        self.now = now
        self._lost = lost

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        row: Any = self._db.execute(STATS, (queue,)).fetchone()
        return stats_of(row).counts

    def pending_by_priority(self, queue: str | None) -> Mapping[str, int]:
        row: Any = self._db.execute(BY_PRIORITY, (queue,)).fetchone()
        return dict(zip(BANDS, row, strict=True))

    def leased_by(self) -> Mapping[tuple[str, str], int]:
        totals = worker_totals(self._db, self.open_minute())
        return {(queue, each.worker): each.leased for queue, each in totals}

    def failed_with(self) -> Mapping[ErrorType, int]:
        return failed_with(self._db)

    def workers(self) -> list[WorkerInfo]:
        return [each for each in who_works(self._db, self.now) if each.id not in self._lost]

    def oldest_available_at(self, queue: str | None) -> int | None:
        """When the pending job that waits longest became available.

        Where a job's turn is the time since when it is available, the first of a tier waits
        longest; those whose turn is another have an index of their own.
        """
        db = self._db
        oldest: list[int] = []
        for (lane,) in db.execute(PENDING_LANES, (queue,)).fetchall():
            tier = -1
            while (head := _row(db.execute(NEXT_HEAD, (lane, tier)))) is not None:
                tier, available_at = head
                oldest.append(available_at)
            oldest += (at for (at,) in db.execute(OLDEST_OUT_OF_TURN, (lane,)) if at is not None)
        return min(oldest, default=None)


def _row(cursor: Cursor) -> Any:
    return cursor.fetchone()


def problems(db: Connection) -> Iterator[str]:
    """What does not fit together, as sentences."""
    pending: list[Any] = db.execute(RECOUNT).fetchall()
    counted: list[Any] = db.execute(COUNTED_BY_BAND).fetchall()
    latest: Any = db.execute(LATEST_MINUTE, (Resolution.MINUTE,)).fetchone()
    return metrics_check.problems(Spans(db), pending, counted, latest[0])
