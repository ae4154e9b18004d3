"""The counters of the lanes, and the spans kept of them. core.rules.sampling says what is kept, and
when.

Guard: in the first write of a new minute, before it changes anything, and with it: if that write is
rolled back, so is the look, and whoever writes next takes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.histogram import Measurements
from leasehold.core.model.span import MINUTE_MICROS, SUMMED, Span
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.stores.postgres.reading.tallies import ADD_WORKED
from leasehold.stores.postgres.server.connection import SqlConnection, unnested
from leasehold.stores.tables.tallies import FORGET_WORKERS

_COLUMNS: Final = (*SUMMED, "pending_before", "pending", "deepest", "measures")
_NAMES: Final = ", ".join(_COLUMNS)
_TOTALS: Final = ", ".join(f"sum(total_{name})::bigint" for name in SUMMED)
TOTALS: Final = f"""
    SELECT queue, sum(pending)::bigint, {_TOTALS} FROM lane_now
    WHERE queue = coalesce($1, queue) GROUP BY queue
"""  # noqa: S608  # our own names
MEASURED: Final = """
    SELECT queue, measure, bucket, sum(jobs)::bigint, sum(micros)::bigint
    FROM measured JOIN lane ON lane.id = measured.lane
    WHERE queue = coalesce($1, queue) GROUP BY queue, measure, bucket
"""
OPEN_MINUTE: Final = "SELECT open_minute FROM store_state"
KEPT: Final = f"""
    SELECT queue, at, {_NAMES} FROM span WHERE resolution = $1 AND at >= $2
"""  # noqa: S608  # our own names
KEPT_OF_QUEUE: Final = f"""
    SELECT queue, at, {_NAMES} FROM span WHERE resolution = $1 AND at >= $2 AND queue = $3
"""  # noqa: S608  # our own names
KEEP: Final = f"""
    INSERT INTO span (resolution, queue, at, {_NAMES})
    SELECT * FROM {unnested("bigint text bigint" + " bigint" * (len(_COLUMNS) - 1) + " bytea")}
    ON CONFLICT (resolution, queue, at) DO UPDATE
    SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
"""  # noqa: S608  # our own names
FORGET: Final = f"""
    DELETE FROM span WHERE (resolution, queue, at) IN (
        SELECT resolution, queue, at FROM span WHERE resolution = $1 AND at < $2
        ORDER BY at LIMIT {FORGOTTEN_AT_ONCE})
"""  # noqa: S608  # our own number
FORGET_MEASURED: Final = "DELETE FROM measured"
NEXT_MINUTE: Final = "UPDATE store_state SET open_minute = $1"

_decode = msgspec.msgpack.Decoder(dict[int, Measurements]).decode


class SpanShelf:
    """The spans of a store, as core.rules.sampling asks for them."""

    def __init__(self, db: SqlConnection) -> None:
        self._db = db

    def open_minute(self) -> int:
        row: Any = self._db.execute(OPEN_MINUTE).fetchone()
        return int(row[0])

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        found: dict[str, dict[int, Measurements]] = defaultdict(dict)
        measured: Any = self._db.execute(MEASURED, (queue,))
        for name, measure, bucket, jobs, micros in measured:
            one = Measurements(micros, {bucket: jobs})
            known = found[name].get(measure)
            found[name][measure] = one if known is None else known.plus(one)
        rows: Any = self._db.execute(TOTALS, (queue,))
        return {
            name: Span(
                **dict(zip(SUMMED, totals, strict=True)),
                pending=pending,
                measures=found.get(name, {}),
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
        for name, at, *figures, measures in rows:
            named: dict[str, Any] = dict(zip(_COLUMNS, figures, strict=False))
            found[name][at] = Span(**named, measures=_decode(measures))
        return found

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        self._db.many(KEEP, [(*each[:3], *_row(each.span)) for each in spans])

    def measure_anew(self, minute: int) -> None:
        self._db.execute(ADD_WORKED, (self.open_minute() * MINUTE_MICROS,))
        self._db.execute(FORGET_MEASURED)
        self._db.execute(NEXT_MINUTE, (minute,))

    def forget_workers(self, kept: int) -> None:
        self._db.execute(FORGET_WORKERS, (FORGOTTEN_AT_ONCE, kept))

    def forget(self, resolution: Resolution, before: int) -> None:
        self._db.execute(FORGET, (resolution, before))


def _row(span: Span) -> tuple[Any, ...]:
    *figures, measures = msgspec.structs.astuple(span)
    return (*figures, msgspec.msgpack.encode(measures))
