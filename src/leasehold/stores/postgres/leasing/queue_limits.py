"""Limits of queues, counted from the lanes' counters in the write that leases or ends a job."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.rules.queue_limits import made_way
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.postgres.leasing.ready import queue_of
from leasehold.stores.postgres.submitting.gate import BucketBook
from leasehold.stores.postgres.writing.step import Step

RUNNING: Final = "SELECT coalesce(sum(running), 0)::bigint FROM lane WHERE queue = $1"
NEXT_REST: Final = "SELECT min(until) FROM resting WHERE queue = $1"
PENDING: Final = "SELECT coalesce(sum(pending), 0)::bigint FROM lane WHERE queue = $1"


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
        return queue_of(self._step, lane)

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
