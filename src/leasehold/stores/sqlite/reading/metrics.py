"""Reading metrics: counters, samples and a few seeks. Jobs are never scanned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import apsw

from leasehold.core.metrics import Moment, active_workers
from leasehold.core.priority import FIRST_DEADLINE_TIER
from leasehold.core.span import BANDS, COUNTED, SUMMED, Record, Span, band_of
from leasehold.stores.sqlite.reading.sampling import (
    MINUTES,
    TOTALS,
    Resolution,
    open_spans,
    span_of,
)
from leasehold.stores.sqlite.schema.rows import Kind, Lenient, queues_of
from leasehold.stores.sqlite.submitting.lanes import STATS, stats_of

OPEN_MINUTE: Final = "SELECT open_minute FROM store_state"
BY_PRIORITY: Final = (  # every name in it is our own
    f"SELECT {', '.join(f'coalesce(sum(pending_{band}), 0)' for band in BANDS)} "  # noqa: S608
    "FROM lane WHERE queue = coalesce(?, queue)"
)
WORKERS: Final = Lenient({"queues": Kind.TEXT, "heartbeat_at": Kind.MOMENT}, "FROM worker")
# Where pending jobs stand: in their lanes, or parked beside them for a key that is full.
PENDING_LANES: Final = """
    SELECT id FROM lane WHERE queue = coalesce(?1, queue) AND pending > 0
    UNION ALL SELECT -id FROM key_lane WHERE queue = coalesce(?1, queue)
"""
# From one tier to the next by a seek in the primary key, however many jobs are in it.
NEXT_HEAD: Final = f"""
    SELECT tier, available_at FROM ready
    WHERE lane = ? AND tier > ? AND tier < {FIRST_DEADLINE_TIER} ORDER BY tier, turn, seq LIMIT 1
"""  # noqa: S608  # our own number
# The condition is that of the index, word by word, or SQLite would not use it.
OLDEST_OUT_OF_TURN: Final = f"""
    SELECT min(available_at) FROM ready INDEXED BY ready_by_age
    WHERE lane = ? AND (available_at <> turn OR tier >= {FIRST_DEADLINE_TIER})
"""  # noqa: S608  # our own number

# For the integrity check only: it does scan.
RECOUNT: Final = """
    SELECT lane.queue, lane.task, job.priority, count(*) FROM ready JOIN job USING (seq)
    JOIN lane ON lane.id = job.lane GROUP BY lane.id, job.priority
"""
COUNTED_BY_BAND: Final = (
    f"SELECT queue, task, {', '.join(f'pending_{band}' for band in BANDS)} FROM lane"  # noqa: S608  # our own names
)
LATEST_MINUTE: Final = "SELECT max(at) FROM minute"


def records(
    db: apsw.Connection, queue: str | None, resolution: Resolution, first: int
) -> list[Record]:
    """What each queue, or this one, did from a minute or day on, the open minute included."""
    row: Any = db.execute(OPEN_MINUTE).fetchone()
    now = row[0] * MINUTES.micros // resolution.micros
    found = []
    for name, latest in open_spans(db, queue).items():
        spans = {
            int(at): span_of(rest) for at, *rest in db.execute(resolution.since, (name, first))
        }
        if latest.happened and now >= first:
            earlier: Span | None = spans.get(now)
            spans[now] = latest if earlier is None else earlier.then(latest)
        found.append(Record(spans, latest.pending))
    return found


def moment(db: apsw.Connection, queue: str | None, now: int) -> Moment:
    """How a queue, or all of them, stands."""
    stats: Any = db.execute(STATS, (queue,)).fetchone()
    totals: Any = db.execute(TOTALS, (queue,)).fetchone()
    bands: Any = db.execute(BY_PRIORITY, (queue,)).fetchone()
    workers = ((queues_of(queues), heartbeat_at) for queues, heartbeat_at in WORKERS.rows(db))
    return Moment(
        now=now,
        counts=stats_of(stats).counts,
        totals=dict(zip(COUNTED, totals, strict=True)),
        oldest_available_at=oldest_available_at(db, queue),
        pending_by_priority=dict(zip(BANDS, bands, strict=True)),
        active_workers=active_workers(workers, queue, now),
    )


def oldest_available_at(db: apsw.Connection, queue: str | None) -> int | None:
    """When the pending job that waits longest became available.

    Where a job's turn is the time since when it is available, the first of a tier waits longest;
    those whose turn is another have an index of their own.
    """
    oldest: list[int] = []
    for (lane,) in db.execute(PENDING_LANES, (queue,)).fetchall():
        tier = -1
        while (head := _row(db.execute(NEXT_HEAD, (lane, tier)))) is not None:
            tier, available_at = head
            oldest.append(available_at)
        oldest += (at for (at,) in db.execute(OLDEST_OUT_OF_TURN, (lane,)) if at is not None)
    return min(oldest, default=None)


def _row(cursor: apsw.Cursor) -> Any:
    return cursor.fetchone()


def problems(db: apsw.Connection) -> Iterator[str]:
    """What does not fit together, as sentences."""
    found: Counter[tuple[str, str, str]] = Counter()
    for queue, task, priority, jobs in db.execute(RECOUNT):
        found[queue, task, band_of(priority)] += jobs
    for queue, task, *counted in db.execute(COUNTED_BY_BAND):
        for band, jobs in zip(BANDS, counted, strict=True):
            if jobs != found[queue, task, band]:
                yield (
                    f"queue {queue!r}, task {task!r}: {jobs} pending jobs are counted as {band}, "
                    f"but there are {found[queue, task, band]}"
                )
    for queue, span in open_spans(db).items():
        lower = [name for name in SUMMED if getattr(span, name) < 0]
        if lower:
            names = ", ".join(lower)
            yield f"queue {queue!r}: these totals are lower than at the last look: {names}"
        if sum(span.waits.values()) != span.leased:
            yield f"queue {queue!r}: {span.leased} jobs were leased, not as many waits measured"
        runs, ended = sum(span.runs.values()), span.completed + span.failed
        if runs != ended:
            yield f"queue {queue!r}: {runs} runs were measured, but {ended} attempts ended"
    latest: Any = db.execute(LATEST_MINUTE).fetchone()
    opened: Any = db.execute(OPEN_MINUTE).fetchone()
    if latest[0] is not None and latest[0] >= opened[0]:
        yield f"minute {latest[0]} was ended although minute {opened[0]} is open"
