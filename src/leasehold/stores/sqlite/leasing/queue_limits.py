"""Limits of queues, counted from the lanes' counters in the write that leases or ends a job.

A job taken back from a lost holder is not counted any more, so a crash leaks no slot.

The circuit breakers of lanes, as rows; `core.model.breaker` says how they move.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

from leasehold.core.model.breaker import Breaker, BreakerState
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import queue_limits
from leasehold.core.rules.leasing import OpenQueue
from leasehold.core.rules.starting import count_starts, free_starts, next_start_at
from leasehold.stores.sqlite.submitting.gate import BucketBook
from leasehold.stores.sqlite.writing.step import Step

RUNNING: Final = "SELECT coalesce(sum(running), 0) FROM lane WHERE queue = ?"
PENDING: Final = "SELECT sum(pending) FROM lane WHERE queue = ?"
# What is no number is above all numbers, and left out.
NEXT_REST: Final = f"SELECT min(until) FROM resting WHERE queue = ? AND until <= {MOMENT_MAX}"  # noqa: S608  # our own number
QUEUE_OF_LANE: Final = "SELECT queue FROM lane WHERE id = ?"


def open_queues(step: Step, queues: Iterable[str]) -> list[OpenQueue]:
    """Those of these queues that jobs may be leased from. The counters must have been flushed."""
    opened = []
    for queue in dict.fromkeys(queues):
        rule = step.rules.get(queue)
        if rule is None:
            opened.append(OpenQueue(queue))
            continue
        free = free_slots(step, queue)
        if free and rule.config.start_rate is not None:
            free = min(free, free_starts(BucketBook(step.db, step.now), queue, rule.config))
        if free:
            opened.append(OpenQueue(queue, free, rule.config))
    return opened


def free_slots(step: Step, queue: str) -> int:
    """How many jobs more may be leased of a queue that has rules."""
    rule = step.rules[queue]
    row: Any = (0,)
    if rule.config.max_concurrency is not None:
        row = step.execute(RUNNING, (queue,)).fetchone()
    return queue_limits.free_slots(rule.state, rule.config, row[0])


def starts_used_up(step: Step, jobs: Iterable[tuple[str, str | None]]) -> None:
    """Jobs were leased, of these queues and keys."""
    book = BucketBook(step.db, step.now)
    by_queue: defaultdict[str, list[str | None]] = defaultdict(list)
    for queue, key in jobs:
        by_queue[queue].append(key)
    for queue, keys in by_queue.items():
        if queue in step.rules.paced:
            count_starts(book, queue, step.rules[queue].config, keys)


def next_starts(step: Step, queues: Iterable[str]) -> list[int]:
    """When the next jobs of these queues and of their keys may start, if time keeps them from it.

    The counters must have been flushed.
    """
    moments: list[int | None] = []
    for queue in dict.fromkeys(queues):
        rule = step.rules.get(queue)
        if rule is None or not rule.state.is_leased_from or queue not in step.rules.paced:
            continue
        pending: Any = step.execute(PENDING, (queue,)).fetchone()
        if pending[0]:
            moments.append(next_start_at(BucketBook(step.db, step.now), queue, rule.config))
            rest: Any = step.execute(NEXT_REST, (queue,)).fetchone()
            moments.append(rest[0])
    return [at for at in moments if at is not None]


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
