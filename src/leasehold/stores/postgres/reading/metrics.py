"""Reading metrics: counters, samples and a few seeks. Jobs are never scanned."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from leasehold.core.model.priority import FIRST_DEADLINE_TIER
from leasehold.core.model.span import BANDS
from leasehold.core.rules import metrics_check
from leasehold.core.rules.sampling import Resolution
from leasehold.stores.postgres.reading.sampling import SpanShelf
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.submitting.lanes import STATS
from leasehold.stores.tables.lanes import by_priority_from
from leasehold.stores.tables.metrics import TableMetrics
from leasehold.stores.tables.query import PlainReader

BY_PRIORITY: Final = by_priority_from("lane_now")
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


class MetricsReader(SpanShelf, TableMetrics):
    """What core.rules.metrics asks of a reader."""

    stats = STATS
    by_priority = BY_PRIORITY
    pending_lanes = PENDING_LANES
    next_head = NEXT_HEAD
    oldest_out_of_turn = OLDEST_OUT_OF_TURN

    def __init__(self, db: SqlConnection, now: int, lost: Collection[str] = ()) -> None:
        TableMetrics.__init__(self, PlainReader(db), now, lost)
        SpanShelf.__init__(self, db)


def problems(db: SqlConnection) -> Iterator[str]:
    """What does not fit together, as sentences."""
    pending: list[Any] = db.execute(RECOUNT).fetchall()
    counted: list[Any] = db.execute(COUNTED_BY_BAND).fetchall()
    latest: Any = db.execute(LATEST_MINUTE, (Resolution.MINUTE,)).fetchone()
    return metrics_check.problems(SpanShelf(db), pending, counted, latest[0])
