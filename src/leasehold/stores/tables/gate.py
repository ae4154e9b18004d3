"""The state of queues and lanes that admits jobs to submits (`core.rules.gate`) and leases.

Guard: depth, slots and buckets are read and saved in the write that stores, leases or ends the
jobs, so no other process comes in between. A lane is one queue and one task, identified by number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from leasehold.core.model.breaker import Breaker, BreakerState
from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.drain import Drain
from leasehold.core.model.queue_config import QueueRule
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.gate import QueueFill
from leasehold.core.rules.queue_limits import made_way
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

LOAD_BREAKER: Final = "SELECT failures_in_row, held_until, hold_micros FROM lane WHERE id = $1"
KEEP_BREAKER: Final = """
    UPDATE lane SET failures_in_row = $1, held_until = $2, hold_micros = $3 WHERE id = $4
"""


def breaker_failed(step: TableStep, lane: int, rule: Breaker) -> None:
    """Count one more failure in a row, and hold the lane back if there are too many."""
    step.flush()  # Earlier completions close the breaker first.
    row = step.execute(LOAD_BREAKER, (lane,)).fetchone()
    keep_breaker(step, lane, BreakerState(*row).failed(rule, step.now))


def keep_breaker(step: TableStep, lane: int, breaker: BreakerState) -> None:
    """Save the state of a lane's breaker."""
    step.look_again()
    step.execute(KEEP_BREAKER, (*breaker, lane))


RUNNING: Final = "SELECT CAST(coalesce(sum(running), 0) AS bigint) FROM lane WHERE queue = $1"
PENDING: Final = "SELECT CAST(coalesce(sum(pending), 0) AS bigint) FROM lane WHERE queue = $1"
# In SQLite a value that is not a number sorts above all numbers; it is left out.
NEXT_REST: Final = f"SELECT min(until) FROM resting WHERE queue = $1 AND until <= {MOMENT_MAX}"


class Limits:
    """See `leasehold.core.rules.queue_limits.LimitBook`; the counters must have been flushed."""

    __slots__ = ("_execute", "buckets", "queue_of", "rules")

    def __init__(self, step: TableStep) -> None:
        self._execute = step.execute
        self.queue_of = step.queue_of
        self.rules: RuleBook = step.rules
        self.buckets = step.buckets

    def running(self, queue: str) -> int:
        return int(self._value(RUNNING, queue))

    def pending(self, queue: str) -> int:
        return int(self._value(PENDING, queue))

    def next_rest(self, queue: str) -> int | None:
        until = self._value(NEXT_REST, queue)
        return None if until is None else int(until)

    def _value(self, statement: str, queue: str) -> Any:
        return self._execute(statement, (queue,)).fetchone()[0]


def tell_who_may_go_on(step: TableStep) -> None:
    """After an operation: wake workers that may continue because of slots that it freed."""
    if step.newly_shown:
        step.newly_shown.clear()
        step.hints.ready = True
    if step.moved:
        step.hints.ready = made_way(Limits(step), step.moved) or step.hints.ready
        step.moved.clear()


# Only the UNIQUE (queue, task) index and the queue's few lanes are read, never its jobs.
FILLED: Final = """
    SELECT CAST(coalesce(sum(pending), 0) AS bigint),
           CAST(coalesce(sum(total_completed + total_dead + total_cancelled), 0) AS bigint)
    FROM lane WHERE queue = $1
"""
DRAIN: Final = "SELECT older_at, older_ended, newer_at, newer_ended FROM queue WHERE name = $1"
KEEP_DRAIN: Final = """
    UPDATE queue SET older_at = $1, older_ended = $2, newer_at = $3, newer_ended = $4
    WHERE name = $5
"""
FULL_AT: Final = "SELECT full_at FROM bucket WHERE queue = $1 AND name = $2"
FORGET_FULL_BUCKETS: Final = f"""
    DELETE FROM bucket WHERE (queue, name) IN (
        SELECT queue, name FROM bucket WHERE full_at <= $1 ORDER BY full_at
        LIMIT {FORGOTTEN_AT_ONCE})
"""

LaneName = tuple[str, str]
"""Queue and task."""


class TableStartBook(ABC):
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ("_db", "now")

    def __init__(self, db: Any, now: int) -> None:
        self._db: SqlConnection = db
        self.now = now

    @abstractmethod
    def _keep(self, buckets: Sequence[tuple[str, str, int]]) -> None:
        """Save rows of `bucket`, replacing existing ones."""

    def full_at(self, queue: str, bucket: str) -> int:
        row = self._db.execute(FULL_AT, (queue, bucket)).fetchone()
        # An unreadable bucket counts as missing, that is, as full.
        return row[0] if row is not None and type(row[0]) is int else 0

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        self._db.execute(FORGET_FULL_BUCKETS, (self.now * 1000,))
        self._keep([(queue, name, full_at) for name, full_at in buckets.items()])


class TableGate:
    """See `leasehold.core.rules.gate.GateBook`."""

    __slots__ = ("now", "step")

    def __init__(self, step: Any) -> None:
        self.step: TableStep = step
        self.now: int = step.now

    def full_at(self, queue: str, bucket: str) -> int:
        return self.step.buckets.full_at(queue, bucket)

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        self.step.buckets.keep_buckets(queue, buckets)

    def rule_of(self, queue: str) -> QueueRule | None:
        return self.step.rules.get(queue)

    def fill_of(self, queue: str) -> QueueFill:
        # This write may already have made jobs pending, and the lanes must include them.
        self.step.write_counters()
        pending, ended = self._row(FILLED, queue)
        drain = self._row(DRAIN, queue)
        # None before the first look; a damaged sample is measured again.
        is_known = all(type(each) is int for each in drain)
        return QueueFill(pending, ended, Drain(*drain) if is_known else None)

    def keep_drain(self, queue: str, drain: Drain) -> None:
        self.step.execute(
            KEEP_DRAIN,
            (drain.older_at, drain.older_ended, drain.newer_at, drain.newer_ended, queue),
        )

    def _row(self, statement: str, queue: str) -> Any:
        return self.step.execute(statement, (queue,)).fetchone()


class TableLaneNumbers(ABC):
    """Remembers lane numbers, which never change once they are committed."""

    def __init__(self) -> None:
        self._known: dict[LaneName, int] = {}

    @abstractmethod
    def _find(self, step: Any, names: Collection[LaneName]) -> dict[LaneName, int]:
        """The numbers of the given lanes that exist."""

    @abstractmethod
    def _make(self, step: Any, names: Collection[LaneName]) -> dict[LaneName, int]:
        """Create these lanes."""

    def forget(self) -> None:
        """Forget all numbers, since committed rows may be lost."""
        self._known = {}

    def known(self, queue: str, task: str) -> int | None:
        """The remembered number of a lane, if there is one."""
        return self._known.get((queue, task))

    def numbers(self, step: TableStep, names: set[LaneName]) -> Mapping[LaneName, int]:
        """The numbers of lanes; missing ones are created."""
        known = self._known
        if names <= known.keys():
            return known
        found = self._find(step, names)
        # A number created in this write is not remembered yet, since it may still be rolled back.
        known.update({name: id_ for name, id_ in found.items() if name not in step.new_lanes})
        missing = [name for name in names if name not in found]
        if missing:
            step.must_be_alone()
            found |= self._make(step, missing)
            step.new_lanes.update(missing)
        return found
