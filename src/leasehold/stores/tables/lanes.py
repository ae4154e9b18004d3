"""The counters of lanes, summed up."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.records import Stats
from leasehold.core.model.span import BANDS, COUNTED
from leasehold.core.model.status import Status
from leasehold.stores.tables.statements import SqlConnection

OF_QUEUE: Final = "queue = coalesce($1, queue)"
"""One queue, or all of them."""


def stats_from(lanes: str) -> str:
    """The statement for the counters of a queue, or of all; `lanes` names the table or view."""
    names = (*(status.value for status in Status), *(f"total_{name}" for name in COUNTED))
    return f"SELECT {_sums(names)} FROM {lanes} WHERE {OF_QUEUE}"  # noqa: S608  # our own names


def standings_from(lanes: str, queue: str) -> str:
    """The statement for each queue's jobs by status, and its pending ones by band of priority.

    `queue` is how the queue's name is read.
    """
    names = (*(status.value for status in Status), *(f"pending_{band}" for band in BANDS))
    return f"SELECT {queue}, {_sums(names)} FROM {lanes} WHERE {OF_QUEUE} GROUP BY queue"  # noqa: S608  # our own names


def _sums(names: tuple[str, ...]) -> str:
    return ", ".join(f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in names)


def stats(db: SqlConnection, statement: str, queue: str | None) -> Stats:
    """The columns of a statement of `stats_from`."""
    row = db.execute(statement, (queue,)).fetchone()
    counts = dict(zip(Status, row, strict=False))
    totals = dict(zip(COUNTED, row[len(Status) :], strict=True))
    return Stats(counts=counts, **totals)
