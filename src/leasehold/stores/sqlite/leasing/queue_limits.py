"""Limits of queues, counted from the lanes' counters in the write that leases or ends a job.

The circuit breakers of lanes, as rows; `core.model.breaker` says how they move.
"""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.model.breaker import Breaker, BreakerState
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.queue_limits import made_way
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.sqlite.submitting.gate import BucketBook
from leasehold.stores.sqlite.writing.step import Step

RUNNING: Final = "SELECT coalesce(sum(running), 0) FROM lane WHERE queue = ?"
PENDING: Final = "SELECT coalesce(sum(pending), 0) FROM lane WHERE queue = ?"
# What is no number is above all numbers, and left out.
NEXT_REST: Final = f"SELECT min(until) FROM resting WHERE queue = ? AND until <= {MOMENT_MAX}"  # noqa: S608  # our own number
QUEUE_OF_LANE: Final = "SELECT queue FROM lane WHERE id = ?"


class Limits:
    """See `leasehold.core.rules.queue_limits.LimitBook`; the counters must have been flushed."""

    __slots__ = ("_step", "buckets", "rules")

    def __init__(self, step: Step) -> None:
        self._step = step
        self.rules: RuleBook = step.rules
        self.buckets = BucketBook(step.db, step.now)

    def running(self, queue: str) -> int:
        return int(self._value(RUNNING, queue))

    def pending(self, queue: str) -> int:
        return int(self._value(PENDING, queue))

    def next_rest(self, queue: str) -> int | None:
        until = self._value(NEXT_REST, queue)
        return None if until is None else int(until)

    def queue_of(self, lane: int) -> str | None:
        row: Any = self._step.execute(QUEUE_OF_LANE, (lane,)).fetchone()
        return None if row is None else row[0]

    def _value(self, statement: str, queue: str) -> Any:
        row: Any = self._step.execute(statement, (queue,)).fetchone()
        return row[0]


def tell_who_may_go_on(step: Step) -> None:
    """After an operation: wake whoever may go on because of the places that it left free."""
    if step.newly_shown:
        step.newly_shown.clear()
        step.hints.ready = True
    if step.moved:
        step.hints.ready = made_way(Limits(step), step.moved) or step.hints.ready
        step.moved.clear()


BREAKER: Final = "SELECT failures_in_row, held_until, hold_micros FROM lane WHERE id = ?"
KEEP_BREAKER: Final = (
    "UPDATE lane SET failures_in_row = ?, held_until = ?, hold_micros = ? WHERE id = ?"
)


def count_failure(step: Step, lane: int, rule: Breaker) -> None:
    """Count one more failure in a row, and hold the lane back when they are too many."""
    step.flush()  # What was completed before closes the breaker first.
    row: Any = step.execute(BREAKER, (lane,)).fetchone()
    keep_breaker(step, lane, BreakerState(*row).failed(rule, step.now))


def keep_breaker(step: Step, lane: int, breaker: BreakerState) -> None:
    """Write down how a lane's breaker stands."""
    step.execute(KEEP_BREAKER, (*breaker, lane))
