"""Limits of queues, counted from the lanes' counters in the write that leases or ends a job.

A job taken back from a lost holder is not counted any more, so a crash leaks no slot.

The circuit breakers of lanes, as rows; `core.model.breaker` says how they move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from leasehold.core.model.breaker import Breaker, BreakerState
from leasehold.core.rules import queue_limits
from leasehold.core.rules.leasing import OpenQueue
from leasehold.core.rules.queue_limits import UNLIMITED
from leasehold.stores.sqlite.writing.step import Step

RUNNING: Final = "SELECT coalesce(sum(running), 0) FROM lane WHERE queue = ?"
PENDING: Final = "SELECT sum(pending) FROM lane WHERE queue = ?"
QUEUE_OF_LANE: Final = "SELECT queue FROM lane WHERE id = ?"


def open_queues(step: Step, queues: Iterable[str]) -> list[OpenQueue]:
    """Those of these queues that jobs may be leased from. The counters must have been flushed."""
    opened = []
    for queue in dict.fromkeys(queues):
        free = free_slots(step, queue) if queue in step.rules else UNLIMITED
        if free:
            limits_keys = queue in step.rules.key_limits
            opened.append(OpenQueue(queue, free, limits_keys=limits_keys))
    return opened


def free_slots(step: Step, queue: str) -> int:
    """How many jobs more may be leased of a queue that has rules."""
    rule = step.rules[queue]
    row: Any = (0,)
    if rule.config.max_concurrency is not None:
        row = step.execute(RUNNING, (queue,)).fetchone()
    return queue_limits.free_slots(rule.state, rule.config, row[0])


def tell_who_may_go_on(step: Step) -> None:
    """After an operation: wake whoever may go on because of the places that it left free.

    What it left free and took again itself is no news: nobody is woken for nothing.
    """
    if step.newly_shown:
        step.newly_shown.clear()
        step.hints.ready = True
    pending: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for lane, (more_pending, more_running) in step.moved.items():
        found: Any = step.execute(QUEUE_OF_LANE, (lane,)).fetchone()
        queue = found[0]
        if queue in step.rules:
            pending[queue] += more_pending
            running[queue] += more_running
    step.moved.clear()
    for queue, more_pending in pending.items():
        row: Any = step.execute(PENDING, (queue,)).fetchone()
        if queue_limits.lets_somebody_go_on(
            step.rules[queue].config,
            pending=row[0],
            more_pending=more_pending,
            more_running=running[queue],
        ):
            step.hints.ready = True


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
