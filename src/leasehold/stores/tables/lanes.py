"""The counters of lanes, summed up."""

from __future__ import annotations

from leasehold.core.model.records import Stats
from leasehold.core.model.span import BANDS, COUNTED
from leasehold.core.model.status import Status
from leasehold.stores.tables.statements import SqlConnection


def stats_from(lanes: str) -> str:
    """The statement for the counters of a queue, or of all; `lanes` names the table or view."""
    names = (*(status.value for status in Status), *(f"total_{name}" for name in COUNTED))
    return _sums(names, lanes)


def by_priority_from(lanes: str) -> str:
    """The statement for how many jobs are pending in each band of priorities."""
    return _sums(tuple(f"pending_{band}" for band in BANDS), lanes)


def _sums(names: tuple[str, ...], lanes: str) -> str:
    sums = ", ".join(f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in names)
    return f"SELECT {sums} FROM {lanes} WHERE queue = coalesce($1, queue)"  # noqa: S608  # our own names


def stats(db: SqlConnection, statement: str, queue: str | None) -> Stats:
    """What a statement of `stats_from` finds."""
    row = db.execute(statement, (queue,)).fetchone()
    counts = dict(zip(Status, row, strict=False))
    totals = dict(zip(COUNTED, row[len(Status) :], strict=True))
    return Stats(counts=counts, **totals)
