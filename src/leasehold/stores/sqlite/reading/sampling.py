"""The look at the counters that ends a minute, and what is kept of it.

Guard: taken in the first write of a new minute, before it changes anything, and with it: if that
write is rolled back, so is the look, and whoever writes next takes it. So what the counters grew by
since the last look happened in the minute of the writes in between, all of it in one and the same.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.budget import FORGOTTEN_AT_ONCE
from leasehold.core.histogram import Histogram
from leasehold.core.span import (
    COUNTED,
    DAY_MICROS,
    DAYS_KEPT,
    MINUTE_MICROS,
    MINUTES_KEPT,
    SUMMED,
    Span,
)
from leasehold.stores.sqlite.reading.measuring import RUN, WAIT

MINUTES_PER_DAY: Final = DAY_MICROS // MINUTE_MICROS

_KEPT: Final = (*SUMMED, "pending_before", "pending", "deepest", "waits", "runs")
_TOTALS: Final = ", ".join(f"sum(lane.total_{name})" for name in SUMMED)
_GROWTH: Final = ", ".join(
    f"sum(lane.total_{name}) - coalesce(max(sampled.{name}), 0)" for name in SUMMED
)
# What the counters of each queue, or of one, grew by since the last look.
OPEN: Final = f"""
    SELECT queue, {_GROWTH}, coalesce(max(sampled.pending), 0), sum(lane.pending)
    FROM lane LEFT JOIN sampled USING (queue) WHERE queue = coalesce(?, queue) GROUP BY queue
"""  # noqa: S608  # our own names
MEASURED: Final = """
    SELECT queue, kind, bucket, sum(jobs) FROM measured JOIN lane ON lane.id = measured.lane
    WHERE queue = coalesce(?, queue) GROUP BY queue, kind, bucket
"""
TOTALS: Final = f"""
    SELECT {", ".join(f"coalesce(sum(total_{name}), 0)" for name in COUNTED)}
    FROM lane WHERE queue = coalesce(?, queue)
"""  # noqa: S608  # our own names
FORGET_MEASURED: Final = "DELETE FROM measured"
SAMPLE: Final = f"""
    INSERT OR REPLACE INTO sampled
    SELECT queue, {_TOTALS}, sum(lane.pending) FROM lane WHERE queue = ? GROUP BY queue
"""  # noqa: S608  # our own names
OPEN_MINUTE: Final = "UPDATE store_state SET open_minute = ?"


class Resolution(NamedTuple):
    """Minutes, or days: the statements about one table of spans."""

    keep: str
    find: str
    since: str
    forget: str
    micros: int


def _resolution(table: str, micros: int) -> Resolution:
    columns = ", ".join(_KEPT)
    values = ", ".join("?" * (len(_KEPT) + 2))
    return Resolution(
        keep=f"INSERT OR REPLACE INTO {table} VALUES ({values})",  # noqa: S608  # our own names
        find=f"SELECT {columns} FROM {table} WHERE queue = ? AND at = ?",  # noqa: S608  # as above
        since=f"SELECT at, {columns} FROM {table} WHERE queue = ? AND at >= ?",  # noqa: S608  # as above
        forget=f"""
            DELETE FROM {table} WHERE (queue, at) IN (
                SELECT queue, at FROM {table} WHERE at < ? ORDER BY at LIMIT {FORGOTTEN_AT_ONCE})
        """,  # noqa: S608  # as above
        micros=micros,
    )


MINUTES: Final = _resolution("minute", MINUTE_MICROS)
DAYS: Final = _resolution("day", DAY_MICROS)

_decode = msgspec.json.Decoder(Histogram).decode


def take(db: apsw.Connection, ended: int, minute: int) -> None:
    """End the minute of the latest writes and open another one."""
    day = ended // MINUTES_PER_DAY
    happened = [(queue, span) for queue, span in open_spans(db).items() if span.happened]
    for queue, span in happened:
        earlier: Any = db.execute(DAYS.find, (queue, day)).fetchone()
        whole = span if earlier is None else span_of(earlier).then(span)
        db.execute(MINUTES.keep, (queue, ended, *_row(span)))
        db.execute(DAYS.keep, (queue, day, *_row(whole)))
        db.execute(SAMPLE, (queue,))
    if happened:
        db.execute(FORGET_MEASURED)
    db.execute(MINUTES.forget, (minute - MINUTES_KEPT,))
    db.execute(DAYS.forget, (minute // MINUTES_PER_DAY - DAYS_KEPT,))
    db.execute(OPEN_MINUTE, (minute,))


def open_spans(db: apsw.Connection, queue: str | None = None) -> dict[str, Span]:
    """What happened since the last look, by queue; those that are idle included."""
    durations: dict[tuple[str, int], Histogram] = defaultdict(dict)
    for name, kind, bucket, jobs in db.execute(MEASURED, (queue,)):
        durations[str(name), kind][bucket] = jobs
    spans = {}
    rows: list[tuple[Any, ...]] = db.execute(OPEN, (queue,)).fetchall()
    for name, *growth, before, pending in rows:
        spans[name] = Span(
            **dict(zip(SUMMED, growth, strict=True)),
            pending_before=before,
            pending=pending,
            deepest=max(before, pending),
            waits=durations.get((name, WAIT), {}),
            runs=durations.get((name, RUN), {}),
        )
    return spans


def span_of(row: tuple[Any, ...]) -> Span:
    """What a row of `minute` or `day` says, from `submitted` on."""
    *figures, waits, runs = row
    named: dict[str, Any] = dict(zip(_KEPT, figures, strict=False))
    return Span(**named, waits=_decode(waits), runs=_decode(runs))


def _row(span: Span) -> tuple[Any, ...]:
    *figures, waits, runs = msgspec.structs.astuple(span)
    return (*figures, msgspec.json.encode(waits).decode(), msgspec.json.encode(runs).decode())
