"""Limits of queues, counted from the lanes' counters in the write that leases or ends a job."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.queue_limits import made_way
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.tables.step import TableStep

RUNNING: Final = "SELECT CAST(coalesce(sum(running), 0) AS bigint) FROM lane WHERE queue = $1"
PENDING: Final = "SELECT CAST(coalesce(sum(pending), 0) AS bigint) FROM lane WHERE queue = $1"
# SQLite takes a value that is no number for greater than all numbers: it is left out.
NEXT_REST: Final = f"SELECT min(until) FROM resting WHERE queue = $1 AND until <= {MOMENT_MAX}"  # noqa: S608  # our own number


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
    """After an operation: wake workers that may go on because of the places that it left free."""
    if step.newly_shown:
        step.newly_shown.clear()
        step.hints.ready = True
    if step.moved:
        step.hints.ready = made_way(Limits(step), step.moved) or step.hints.ready
        step.moved.clear()
