"""The state of queues that the gate of a submit reads and keeps; `core.rules.gate` decides.

Guard: depth and buckets are read, and written down, in the write that stores the jobs, so no other
process comes in between.

Lanes: one per queue and task, known by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import apsw

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.drain import Drain
from leasehold.core.model.queue_config import QueueRule
from leasehold.core.rules.gate import QueueFill

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.step import Step

# Only the UNIQUE (queue, task) index and the queue's few lanes are read, never its jobs.
FILLED: Final = """
    SELECT coalesce(sum(pending), 0),
           coalesce(sum(total_completed + total_dead + total_cancelled), 0)
    FROM lane WHERE queue = ?
"""
DRAIN: Final = "SELECT older_at, older_ended, newer_at, newer_ended FROM queue WHERE name = ?"
KEEP_DRAIN: Final = """
    UPDATE queue SET older_at = ?, older_ended = ?, newer_at = ?, newer_ended = ? WHERE name = ?
"""
FULL_AT: Final = "SELECT full_at FROM bucket WHERE queue = ? AND name = ?"
KEEP_BUCKET: Final = "INSERT OR REPLACE INTO bucket VALUES (?, ?, ?)"
FORGET_FULL_BUCKETS: Final = f"""
    DELETE FROM bucket WHERE (queue, name) IN (
        SELECT queue, name FROM bucket WHERE full_at <= ? ORDER BY full_at
        LIMIT {FORGOTTEN_AT_ONCE})
"""  # noqa: S608  # our own number


class StartBook:
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ("_db", "now")

    def __init__(self, db: apsw.Connection, now: int) -> None:
        self._db = db
        self.now = now

    def full_at(self, queue: str, bucket: str) -> int:
        row: Any = self._db.execute(FULL_AT, (queue, bucket)).fetchone()
        # A bucket that cannot be read is as good as none: it is full.
        return row[0] if row is not None and type(row[0]) is int else 0

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        self._db.execute(FORGET_FULL_BUCKETS, (self.now * 1000,))
        self._db.executemany(
            KEEP_BUCKET, [(queue, name, full_at) for name, full_at in buckets.items()]
        )


class GateBook(StartBook):
    """See `leasehold.core.rules.gate.GateBook`."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self._db = step.db
        self.now = step.now
        self.step = step

    def rule_of(self, queue: str) -> QueueRule | None:
        return self.step.rules.get(queue)

    def fill_of(self, queue: str) -> QueueFill:
        # This write may have made jobs pending before, and the lanes must say so.
        self.step.write_counters()
        pending, ended = self._row(FILLED, queue)
        drain = self._row(DRAIN, queue)
        # None before the first look; and a damaged sample is measured anew.
        is_known = all(type(each) is int for each in drain)
        return QueueFill(pending, ended, Drain(*drain) if is_known else None)

    def _row(self, statement: str, queue: str) -> Any:
        return self.step.execute(statement, (queue,)).fetchone()

    def keep_drain(self, queue: str, drain: Drain) -> None:
        self.step.execute(
            KEEP_DRAIN,
            (drain.older_at, drain.older_ended, drain.newer_at, drain.newer_ended, queue),
        )


FIND: Final = "SELECT id FROM lane WHERE queue = ? AND task = ?"
MAKE: Final = """
    INSERT INTO lane (queue, task, made_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""


QUEUES: Final = """
    SELECT CAST(queue AS BLOB) FROM lane UNION SELECT CAST(name AS BLOB) FROM queue ORDER BY 1
"""


class LaneNumbers:
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
            step.execute(MAKE, (queue, task, step.now))
            step.new_lanes.add((queue, task))
            return step.db.last_insert_rowid()
        number = int(row[0])
        # One made in this very write is not remembered yet: it may still be rolled back.
        if (queue, task) not in step.new_lanes:
            self._known[queue, task] = number
        return number


def queues(db: apsw.Connection) -> list[str]:
    """Every queue that has jobs or rules, or had."""
    names: Any = db.execute(QUEUES)
    return [name.decode(errors="replace") for (name,) in names]
