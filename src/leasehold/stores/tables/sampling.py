"""The counters of the lanes, and the spans kept from them; core.rules.sampling decides.

Guard: a sample is taken in the first write of a new minute, before it changes anything. If that
write is rolled back, so is the sample, and the next write takes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.histogram import Measurements, sum_of
from leasehold.core.model.priority import FIRST_DEADLINE_TIER
from leasehold.core.model.span import MINUTE_MICROS, SUMMED, Span, span_of_counts
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.stores.tables.statements import SqlConnection


def oldest_from(pending_lanes: str, queue: str, *, moment: str, by_age: str) -> str:
    """The statement for when the longest-waiting pending job of each queue became available.

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
    """


LANE_COUNTERS: Final = ("pending", *(f"total_{name}" for name in SUMMED))


Added = Callable[[str], str]
"""How a database adds up a column of counts, with an integer as the sum."""


def totals_from(lanes: str, queue: str, added: Added, more: str = "") -> str:
    """The statement for the counters of each queue, or of one: LANE_COUNTERS, in their order.

    `queue` is the expression for the queue's name.
    """
    sums = (f"{added(name)} AS {name}" for name in LANE_COUNTERS)
    return f"""
        SELECT {queue} AS name, {", ".join(sums)}{more} FROM {lanes}
        WHERE queue = coalesce($1, queue) GROUP BY queue
    """


def totals_of_all_from(totals: str, added: Added, more: str = "") -> str:
    """The same for all queues together, and how many jobs are pending in the deepest."""
    sums = (f"coalesce({added(name)}, 0)" for name in LANE_COUNTERS)
    deepest = "coalesce(max(pending), 0)"
    return f"SELECT {', '.join(sums)}, {deepest}{more} FROM ({totals}) AS of_each"


def look_of_all_from(added: Added) -> str:
    """The statement for the totals of all queues at the last look, and the depth of the deepest."""
    sums = ", ".join(map(added, (*SUMMED, "pending")))
    return f"SELECT {sums}, max(pending) FROM span WHERE resolution = $1"


def summed_from(spans: str, added: Added) -> str:
    """The statement that adds up the spans of each queue; see `TableSpans.summed_counts`."""
    sums = ", ".join(map(added, SUMMED))
    return f"""
        SELECT queue, {sums}, max(deepest), max(oldest_micros) FROM {spans}
        WHERE resolution = $1 AND at >= $2 GROUP BY queue
    """


SPAN_COLUMNS: Final = (
    *SUMMED, "pending_before", "pending", "deepest", "oldest_micros", "measures",
)  # fmt: skip
SPAN_NAMES: Final = ", ".join(SPAN_COLUMNS)
KEYS_AGED_AT_ONCE: Final = 1000
"""How many keys the write that ends a minute checks for the longest-waiting job: those that have
had jobs for longest.
"""
EVERY_KEY: Final = 1 << 62
LAST_COUNTS: Final = f"""
    SELECT queue, {", ".join(SUMMED)}, pending FROM span WHERE resolution = $1
"""
LAST_COUNTS_OF_QUEUE: Final = f"{LAST_COUNTS} AND queue = $2"
OPEN_MINUTE: Final = "SELECT open_minute FROM store_state"
FORGET: Final = f"""
    DELETE FROM span WHERE (resolution, queue, at) IN (
        SELECT resolution, queue, at FROM span WHERE resolution = $1 AND at < $2
        ORDER BY at LIMIT {FORGOTTEN_AT_ONCE})
"""
MEASURED_OF_ALL: Final = """
    SELECT measure, bucket, CAST(sum(jobs) AS bigint), CAST(sum(micros) AS bigint)
    FROM measured WHERE lane <> 0 GROUP BY measure, bucket
"""
FORGET_WORKERS: Final = """
    DELETE FROM worker_total WHERE id IN (
        SELECT id FROM worker_total ORDER BY last_at DESC, id DESC LIMIT $1 OFFSET $2)
"""
FORGET_MEASURED: Final = "DELETE FROM measured"
NEXT_MINUTE: Final = "UPDATE store_state SET open_minute = $1"

_decode = msgspec.msgpack.Decoder(dict[int, Measurements]).decode


class TableSpans(ABC):
    """See `leasehold.core.rules.sampling.SpanShelf`."""

    lane_totals: ClassVar[str]
    """By queue, or for one: how many jobs are pending, and a sum for each name in SUMMED."""
    oldest: ClassVar[str]
    """By queue, or for one: when the longest-waiting pending jobs became available, looking at this
    many keys with parked jobs.
    """
    keys_aged: ClassVar[int] = KEYS_AGED_AT_ONCE
    """How many keys to check; a read-only caller checks all of them."""
    lane_totals_of_all: ClassVar[str]
    """The same for all queues, and the depth of the deepest."""
    measured: ClassVar[str]
    """By queue, or for one: measure, bucket, jobs and microseconds since the minute began."""
    kept_spans: ClassVar[str]
    """Selects queue, time and SPAN_COLUMNS of the spans of a resolution from a time on."""
    kept_spans_of_queue: ClassVar[str]
    """The same for one queue."""
    look_of_all: ClassVar[str]
    """For a resolution: a sum for each name in SUMMED, of `pending`, and the largest of that."""
    summed_counts: ClassVar[str]
    """By queue, for the spans of a resolution from a time on: a sum for each name in SUMMED, and
    the largest `deepest` and `oldest_micros`."""
    kept_measures: ClassVar[str]
    """Queue, `pending_before`, `pending` and `measures` of the same spans, the earliest first."""
    keep_span: ClassVar[str]
    """For `many`: resolution, queue, time and SPAN_COLUMNS."""
    add_worked: ClassVar[str]
    """Adds the workers' counts since the minute began to their totals."""

    def __init__(self, db: Any) -> None:
        self._db: SqlConnection = db

    @abstractmethod
    def _many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a statement about many rows, as the database wants it."""

    def _check(self, figures: Sequence[Any]) -> None:  # noqa: B027  # nothing here
        """Raise ValueError if a span holds anything but counts."""

    def open_minute(self) -> int:
        return int(self._db.execute(OPEN_MINUTE).fetchone()[0])

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        found: dict[str, dict[int, Measurements]] = defaultdict(dict)
        for name, measure, bucket, jobs, micros in self._db.execute(self.measured, (queue,)):
            _add(found[queue_name(name)], measure, bucket, jobs, micros)
        rows = ((queue_name(name), *figures) for name, *figures in self._lane_totals(queue))
        return {
            name: span_of_counts(*totals, pending=pending, measures=found.get(name, {}))
            for name, pending, *totals in rows
        }

    def _lane_totals(self, queue: str | None) -> Iterable[Any]:
        return self._db.execute(self.lane_totals, (queue,))

    def totals_of_all(self) -> Span:
        measures: dict[int, Measurements] = {}
        for measure, bucket, jobs, micros in self._db.execute(MEASURED_OF_ALL):
            _add(measures, measure, bucket, jobs, micros)
        pending, *totals, deepest = self._lane_totals_of_all()
        return span_of_counts(*totals, pending=pending, deepest=deepest, measures=measures)

    def _lane_totals_of_all(self) -> Sequence[int]:
        return tuple(self._db.execute(self.lane_totals_of_all, (None,)).fetchone())

    def last_counts(self, queue: str | None) -> Mapping[str, Span]:
        rows = (
            self._db.execute(LAST_COUNTS, (Resolution.EVER,))
            if queue is None
            else self._db.execute(LAST_COUNTS_OF_QUEUE, (Resolution.EVER, queue))
        )
        found = {}
        for name, *figures in rows:
            self._check(figures)
            *counts, pending = figures
            found[name] = span_of_counts(*counts, pending=pending)
        return found

    def last_look_of_all(self) -> Span:
        row = self._db.execute(self.look_of_all, (Resolution.EVER,)).fetchone()
        if row[0] is None:
            return Span()
        self._check(row)
        *counts, pending, deepest = row
        return span_of_counts(*counts, pending=pending, deepest=deepest)

    def available_since(self, queue: str | None) -> Mapping[str, int]:
        found = {
            queue_name(name): [at for at in moments if at is not None]
            for name, *moments in self._oldest(queue)
        }
        return {name: min(moments) for name, moments in found.items() if moments}

    def _oldest(self, queue: str | None) -> Iterable[Any]:
        return self._db.execute(self.oldest, (queue, self.keys_aged))

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        return self._kept_that(resolution, queue, first)

    def _kept_that(
        self, resolution: Resolution, queue: str | None, first: int, condition: str = ""
    ) -> Mapping[str, dict[int, Span]]:
        found: dict[str, dict[int, Span]] = defaultdict(dict)
        rows = (
            self._db.execute(self.kept_spans + condition, (resolution, first))
            if queue is None
            else self._db.execute(self.kept_spans_of_queue + condition, (resolution, first, queue))
        )
        for name, at, *figures, measures in rows:
            self._check(figures)
            # In the order of SPAN_COLUMNS: hundreds of queues have thousands of them.
            found[name][at] = span_of_counts(*figures, _decode(measures))
        return found

    def summed(
        self, resolution: Resolution, first: int, measures: Collection[int]
    ) -> Mapping[str, Span]:
        asked = (resolution, first)
        depths: dict[str, tuple[int, int]] = {}
        measured: dict[str, list[dict[int, Measurements]]] = defaultdict(list)
        for name, before, pending, found in self._db.execute(self.kept_measures, asked):
            depths[name] = (depths[name][0] if name in depths else before, pending)
            measured[name].append(_decode(found))
        summed = {}
        for name, *figures in self._db.execute(self.summed_counts, asked):
            *counts, deepest, oldest = figures
            before, pending = depths[name]
            self._check((*figures, before, pending))
            of_queue = measured[name]
            summed[name] = span_of_counts(
                *counts,
                pending_before=before,
                pending=pending,
                deepest=deepest,
                oldest_micros=oldest,
                measures={
                    measure: several[0] if len(several) == 1 else sum_of(several)
                    for measure in measures
                    if (several := [each[measure] for each in of_queue if measure in each])
                },
            )
        return summed

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        self._many(self.keep_span, [(*each[:3], *_row(each.span)) for each in spans])

    def measure_anew(self, minute: int) -> None:
        self._db.execute(self.add_worked, (self.open_minute() * MINUTE_MICROS,))
        self._db.execute(FORGET_MEASURED)
        self._db.execute(NEXT_MINUTE, (minute,))

    def forget(self, resolution: Resolution, before: int) -> None:
        self._db.execute(FORGET, (resolution, before))

    def forget_workers(self, kept: int) -> None:
        self._db.execute(FORGET_WORKERS, (FORGOTTEN_AT_ONCE, kept))


def _add(found: dict[int, Measurements], measure: int, bucket: int, jobs: int, micros: int) -> None:
    known = found.get(measure)
    if known is None:
        found[measure] = Measurements(micros, {bucket: jobs})
    else:
        known.buckets[bucket] = known.buckets.get(bucket, 0) + jobs
        found[measure] = Measurements(known.micros + micros, known.buckets)


def _row(span: Span) -> tuple[Any, ...]:
    *figures, measures = msgspec.structs.astuple(span)
    return (*figures, msgspec.msgpack.encode(measures))


def queue_name(queue: str | bytes) -> str:
    """A queue's name, whatever its lane holds."""
    return queue if isinstance(queue, str) else queue.decode(errors="replace")
