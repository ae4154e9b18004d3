"""Reading metrics: counters, samples and a few seeks. Jobs are never scanned."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import apsw

from leasehold.core.model.span import BANDS
from leasehold.core.rules import metrics_check
from leasehold.core.rules.sampling import Resolution
from leasehold.stores.sqlite.reading.sampling import SpanShelf, queue_name
from leasehold.stores.sqlite.schema.rows import LenientReader
from leasehold.stores.sqlite.submitting.gate import STATS, queues
from leasehold.stores.tables.lanes import standings_from
from leasehold.stores.tables.metrics import TableMetrics, oldest_from

_QUEUE: Final = "CAST(queue AS BLOB)"
STANDING: Final = standings_from("lane", _QUEUE)
# The condition of the index stands in it word by word, or SQLite would not use it.
OLDEST: Final = oldest_from(
    "SELECT id, queue FROM lane WHERE queue = coalesce(?1, queue) AND pending > 0 "
    "UNION ALL SELECT -id, queue FROM key_lane WHERE queue = coalesce(?1, queue)",
    _QUEUE,
    moment="iif(typeof(available_at) = 'integer', available_at, NULL)",
    by_age="INDEXED BY ready_by_age",
)

# For the integrity check only: it does scan.
RECOUNT: Final = """
    SELECT lane.queue, lane.task, job.priority, count(*) FROM ready JOIN job USING (seq)
    JOIN lane ON lane.id = job.lane GROUP BY lane.id, job.priority
"""
COUNTED_BY_BAND: Final = (
    f"SELECT queue, task, {', '.join(f'pending_{band}' for band in BANDS)} FROM lane"  # noqa: S608  # our own names
)
LATEST_MINUTE: Final = "SELECT max(at) FROM span WHERE resolution = ?"


class MetricsReader(SpanShelf, TableMetrics):
    """What core.rules.metrics asks of a reader."""

    stats = STATS
    standing = STANDING
    oldest = OLDEST

    def __init__(self, db: apsw.Connection, now: int, lost: Collection[str] = ()) -> None:
        TableMetrics.__init__(self, LenientReader(db), now, lost)
        SpanShelf.__init__(self, db)

    def queues(self) -> list[str]:
        return queues(self._db)

    def named(self, queue: Any) -> str:
        return queue_name(queue)


def problems(db: apsw.Connection) -> Iterator[str]:
    """What does not fit together, as sentences."""
    pending: list[Any] = db.execute(RECOUNT).fetchall()
    counted: list[Any] = db.execute(COUNTED_BY_BAND).fetchall()
    latest: Any = db.execute(LATEST_MINUTE, (Resolution.MINUTE,)).fetchone()
    return metrics_check.problems(SpanShelf(db), pending, counted, latest[0])
