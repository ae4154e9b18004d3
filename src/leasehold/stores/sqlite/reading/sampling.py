"""The counters of the lanes, and the spans kept of them. core.rules.sampling says what is kept, and
when.

Guard: in the first write of a new minute, before it changes anything, and with it: if that write is
rolled back, so is the look, and whoever writes next takes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.histogram import Histogram
from leasehold.core.model.span import SUMMED, Span
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.stores.sqlite.reading.measuring import RUN, WAIT

_COLUMNS: Final = (*SUMMED, "pending_before", "pending", "deepest", "waits", "runs")
_NAMES: Final = ", ".join(_COLUMNS)
_TOTALS: Final = ", ".join(f"sum(total_{name})" for name in SUMMED)
TOTALS: Final = f"""
    SELECT queue, sum(pending), {_TOTALS} FROM lane WHERE queue = coalesce(?, queue) GROUP BY queue
"""  # noqa: S608  # our own names
MEASURED: Final = """
    SELECT queue, kind, bucket, sum(jobs) FROM measured JOIN lane ON lane.id = measured.lane
    WHERE queue = coalesce(?, queue) GROUP BY queue, kind, bucket
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

_decode = msgspec.json.Decoder(Histogram).decode


class Spans:
    """The spans of a store, as core.rules.sampling asks for them."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def open_minute(self) -> int:
        row: Any = self._db.execute(OPEN_MINUTE).fetchone()
        return int(row[0])

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        durations: dict[tuple[str, int], Histogram] = defaultdict(dict)
        measured: Any = self._db.execute(MEASURED, (queue,))
        for name, kind, bucket, jobs in measured:
            durations[name, kind][bucket] = jobs
        rows: Any = self._db.execute(TOTALS, (queue,))
        return {
            name: Span(
                **dict(zip(SUMMED, totals, strict=True)),
                pending=pending,
                waits=durations.get((name, WAIT), {}),
                runs=durations.get((name, RUN), {}),
            )
            for name, pending, *totals in rows
        }

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        found: dict[str, dict[int, Span]] = defaultdict(dict)
        rows: Any = (
            self._db.execute(KEPT, (resolution, first))
            if queue is None
            else self._db.execute(KEPT_OF_QUEUE, (resolution, first, queue))
        )
        for name, at, *figures, waits, runs in rows:
            named: dict[str, Any] = dict(zip(_COLUMNS, figures, strict=False))
            found[name][at] = Span(**named, waits=_decode(waits), runs=_decode(runs))
        return found

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        self._db.executemany(KEEP, [(*each[:3], *_row(each.span)) for each in spans])

    def measure_anew(self, minute: int) -> None:
        self._db.execute(FORGET_MEASURED)
        self._db.execute(NEXT_MINUTE, (minute,))

    def forget(self, resolution: Resolution, before: int) -> None:
        self._db.execute(FORGET, (resolution, before))


def _row(span: Span) -> tuple[Any, ...]:
    *figures, waits, runs = msgspec.structs.astuple(span)
    return (*figures, msgspec.json.encode(waits).decode(), msgspec.json.encode(runs).decode())
