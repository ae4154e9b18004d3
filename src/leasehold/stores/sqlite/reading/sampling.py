"""The counters of the lanes, and the spans kept of them. core.rules.sampling says what is kept, and
when.

Guard: in the first write of a new minute, before it changes anything, and with it: if that write is
rolled back, so is the look, and whoever writes next takes it.

What the hot paths say to the metrics: how long jobs waited and ran, and who is pending.

Gathered in Python and written once per operation: the totals with the counters that are written
anyway, the histogram by one statement of a few rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.histogram import Measurements
from leasehold.core.model.span import (
    MINUTE_MICROS,
    SUMMED,
    Span,
)
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.stores.sqlite.reading.tallies import ADD_WORKED
from leasehold.stores.sqlite.schema.damaged_cells import sound_row
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX, whole
from leasehold.stores.tables.tallies import FORGET_WORKERS

SOUND: Final = f" AND {sound_row('span')}"
_COLUMNS: Final = (*SUMMED, "pending_before", "pending", "deepest", "measures")
_NAMES: Final = ", ".join(_COLUMNS)
# A sweep puts right what is no count; a minute that ends before it must not fail.
_TOTALS: Final = ", ".join(
    f"sum({whole(name)})" for name in ("pending", *(f"total_{name}" for name in SUMMED))
)
TOTALS: Final = f"""
    SELECT CAST(queue AS BLOB), {_TOTALS} FROM lane
    WHERE queue = coalesce(?, queue) GROUP BY queue
"""  # noqa: S608  # our own names
MEASURED: Final = """
    SELECT CAST(queue AS BLOB), measure, bucket, sum(jobs), sum(micros)
    FROM measured JOIN lane ON lane.id = measured.lane
    WHERE queue = coalesce(?, queue) GROUP BY queue, measure, bucket
"""
OPEN_MINUTE: Final = "SELECT open_minute FROM store_state"
KEPT: Final = f"""
    SELECT queue, at, {_NAMES} FROM span INDEXED BY span_by_time WHERE resolution = ?1 AND at >= ?2
"""  # noqa: S608  # our own names
KEPT_OF_QUEUE: Final = f"""
    SELECT queue, at, {_NAMES} FROM span WHERE resolution = ?1 AND at >= ?2 AND queue = ?3
"""  # noqa: S608  # our own names
KEEP: Final = f"""
    INSERT OR REPLACE INTO span (resolution, queue, at, {_NAMES})
    VALUES (?, ?, ?, {", ".join("?" * len(_COLUMNS))})
"""  # noqa: S608  # our own names
FORGET: Final = f"""
    DELETE FROM span WHERE (resolution, queue, at) IN (
        SELECT resolution, queue, at FROM span WHERE resolution = ? AND at < ?
        ORDER BY at LIMIT {FORGOTTEN_AT_ONCE})
"""  # noqa: S608  # our own number
FORGET_MEASURED: Final = "DELETE FROM measured"
NEXT_MINUTE: Final = "UPDATE store_state SET open_minute = ?"

_decode = msgspec.msgpack.Decoder(dict[int, Measurements]).decode


class SpanShelf:
    """The spans of a store, as core.rules.sampling asks for them."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def open_minute(self) -> int:
        row: Any = self._db.execute(OPEN_MINUTE).fetchone()
        return int(row[0])

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        found: dict[str, dict[int, Measurements]] = defaultdict(dict)
        measured: Any = self._db.execute(MEASURED, (queue,))
        for (name, measure), rows in groupby(measured, itemgetter(0, 1)):
            each = list(rows)
            buckets = {bucket: jobs for _, _, bucket, jobs, _ in each}
            micros = sum(row[4] for row in each)
            found[queue_name(name)][measure] = Measurements(micros, buckets)
        totals_of: Any = self._db.execute(TOTALS, (queue,))
        named = ((queue_name(name), *figures) for name, *figures in totals_of)
        return {
            name: Span(
                **dict(zip(SUMMED, totals, strict=True)),
                pending=pending,
                measures=found.get(name, {}),
            )
            for name, pending, *totals in named
        }

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        try:
            return self._kept_that("", resolution, queue, first)
        except UNREADABLE:
            # Also inside a write, and one that mends: each begins with the end of its minute.
            return self._kept_that(SOUND, resolution, queue, first)

    def _kept_that(
        self, condition: str, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        found: dict[str, dict[int, Span]] = defaultdict(dict)
        rows: Any = (
            self._db.execute(KEPT + condition, (resolution, first))
            if queue is None
            else self._db.execute(KEPT_OF_QUEUE + condition, (resolution, first, queue))
        )
        for name, at, *figures, measures in rows:
            _check_counts(figures)
            named: dict[str, Any] = dict(zip(_COLUMNS, figures, strict=False))
            found[name][at] = Span(**named, measures=_decode(measures))
        return found

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        self._db.executemany(KEEP, [(*each[:3], *_row(each.span)) for each in spans])

    def measure_anew(self, minute: int) -> None:
        self._db.execute(ADD_WORKED, (self.open_minute() * MINUTE_MICROS,))
        self._db.execute(FORGET_MEASURED)
        self._db.execute(NEXT_MINUTE, (minute,))

    def forget(self, resolution: Resolution, before: int) -> None:
        self._db.execute(FORGET, (resolution, before))

    def forget_workers(self, kept: int) -> None:
        self._db.execute(FORGET_WORKERS, (FORGOTTEN_AT_ONCE, kept))


def queue_name(queue: bytes) -> str:
    """A queue's name, whatever its lane holds."""
    return queue.decode(errors="replace")


def _check_counts(figures: Sequence[Any]) -> None:
    """Raise ValueError unless all of them can be counts: what is reckoned with them is kept."""
    if {*map(type, figures)} != {int} or min(figures) < 0 or max(figures) > WHOLE_MAX:
        raise ValueError(f"a span with other figures than counts: {figures}")


def _row(span: Span) -> tuple[Any, ...]:
    *figures, measures = msgspec.structs.astuple(span)
    return (*figures, msgspec.msgpack.encode(measures))
