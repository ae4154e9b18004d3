"""Lanes: one per queue and task, known by number."""

from __future__ import annotations

from typing import Any, Final

import apsw

from leasehold.core.model.records import Stats
from leasehold.core.model.status import Status
from leasehold.stores.sqlite.writing.step import Step

FIND: Final = "SELECT id FROM lane WHERE queue = ? AND task = ?"
MAKE: Final = "INSERT INTO lane (queue, task) VALUES (?, ?) ON CONFLICT DO NOTHING"

_TOTALS: Final = (
    "submitted",
    "completed",
    "failed",
    "retried",
    "dead",
    "cancelled",
    "recovered",
    "rejected",
    "cleaned",
)
STATS: Final = (  # every name in it is our own
    "SELECT "  # noqa: S608
    + ", ".join(f"coalesce(sum({status.value}), 0)" for status in Status)
    + ", "
    + ", ".join(f"coalesce(sum(total_{name}), 0)" for name in _TOTALS)
    + " FROM lane WHERE queue = coalesce(?, queue)"
)


QUEUES: Final = "SELECT queue FROM lane UNION SELECT name FROM queue ORDER BY 1"


class Lanes:
    """Remembers lane numbers, which never change once they are committed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def number(self, step: Step, queue: str, task: str) -> int:
        """The number of a lane, which is made if need be."""
        known = self._known.get((queue, task))
        if known is not None:
            return known
        row = step.execute(FIND, (queue, task)).fetchone()
        if row is None:
            step.execute(MAKE, (queue, task))
            step.new_lanes.add((queue, task))
            return step.db.last_insert_rowid()
        number = int(row[0])
        # One made in this very write is not remembered yet: it may still be rolled back.
        if (queue, task) not in step.new_lanes:
            self._known[queue, task] = number
        return number


def stats(db: apsw.Connection, queue: str | None) -> Stats:
    """The counters of a queue, or of all."""
    row: Any = db.execute(STATS, (queue,)).fetchone()
    return stats_of(row)


def queues(db: apsw.Connection) -> list[str]:
    """Every queue that has jobs or rules, or had."""
    return [str(name) for (name,) in db.execute(QUEUES)]


def stats_of(row: tuple[int, ...]) -> Stats:
    """What the STATS query found."""
    counts = dict(zip(Status, row, strict=False))
    totals = dict(zip(_TOTALS, row[len(Status) :], strict=True))
    return Stats(counts=counts, **totals)
