"""Limits of a queue that count jobs: how many more may run, and who may continue when one leaves.

The clauses are LIM-1, LIM-2 and LIM-5 of `core.contract.queue_rules`; `core.rules.admission` is
LIM-1 itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.queue_config import QueueConfig, QueueRule, QueueState
from leasehold.core.rules.leasing import OpenQueue
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.starting import StartBook, count_starts, free_starts, next_start_at


class LimitBook(Protocol):
    """The counts behind the limits of queues in a store of tables, inside one write.

    A job taken back from a lost holder no longer counts, so a crash leaks no slot.
    """

    @property
    def rules(self) -> RuleBook: ...

    @property
    def buckets(self) -> StartBook: ...

    def running(self, queue: str, /) -> int: ...

    def pending(self, queue: str, /) -> int: ...

    def next_rest(self, queue: str, /) -> int | None:
        """When the next resting key of a queue may start jobs again."""

    def queue_of(self, lane: int, /) -> str | None: ...


def open_queues(book: LimitBook, queues: Iterable[str]) -> Iterator[OpenQueue]:
    """The given queues from which jobs may be leased."""
    for queue in dict.fromkeys(queues):
        rule = book.rules.get(queue)
        if rule is None:
            yield OpenQueue(queue)
            continue
        limited = rule.config.max_concurrency is not None
        free = free_slots(rule.state, rule.config, book.running(queue) if limited else 0)
        if free and rule.config.start_rate is not None:
            free = min(free, free_starts(book.buckets, queue, rule.config))
        if free:
            yield OpenQueue(queue, free, rule.config)


def starts_used_up(book: LimitBook, jobs: Iterable[tuple[str, str | None]]) -> None:
    """Record the starts of leased jobs, by queue and key."""
    by_queue: defaultdict[str, list[str | None]] = defaultdict(list)
    for queue, key in jobs:
        by_queue[queue].append(key)
    for queue, keys in by_queue.items():
        if queue in book.rules.paced:
            count_starts(book.buckets, queue, book.rules[queue].config, keys)


def next_starts(book: LimitBook, queues: Iterable[str]) -> list[int]:
    """When the next jobs of these queues and their keys may start, if a start rate delays them."""
    moments: list[int | None] = []
    for queue in dict.fromkeys(queues):
        rule = book.rules.get(queue)
        if rule is None or not rule.state.is_leased_from or queue not in book.rules.paced:
            continue
        if book.pending(queue):
            moments.append(next_start_at(book.buckets, queue, rule.config))
            moments.append(book.next_rest(queue))
    return [at for at in moments if at is not None]


def made_way(book: LimitBook, moved: Mapping[int, tuple[int, int]]) -> bool:
    """Whether an operation that moved pending and running jobs of each lane made room for others. A
    slot that it freed and took again itself does not count.
    """
    pending: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for lane, (more_pending, more_running) in moved.items():
        queue = book.queue_of(lane)
        if queue is not None and _is_bounded(book.rules.get(queue)):
            pending[queue] += more_pending
            running[queue] += more_running
    return any(
        lets_somebody_go_on(
            book.rules[queue].config,
            pending=book.pending(queue),
            more_pending=more_pending,
            more_running=running[queue],
        )
        for queue, more_pending in pending.items()
    )


def _is_bounded(rule: QueueRule | None) -> bool:
    """Whether a job that leaves the queue, or ends, can be what another one waits for."""
    if rule is None:
        return False
    return rule.config.max_depth is not None or rule.config.max_concurrency is not None


def free_slots(state: QueueState, config: QueueConfig, running: int) -> int:
    """How many more jobs of a queue may be leased while `running` jobs run.

    >>> free_slots(QueueState.ACTIVE, QueueConfig(max_concurrency=3), running=1)
    2
    >>> free_slots(QueueState.PAUSED, QueueConfig(), running=0)
    0
    """
    if not state.is_leased_from:
        return 0
    limit = config.max_concurrency
    return UNLIMITED if limit is None else max(0, limit - running)


def lets_somebody_go_on(
    config: QueueConfig, *, pending: int, more_pending: int = 0, more_running: int = 0
) -> bool:
    """Whether a change lets somebody continue: a submit that was refused, or a lease.

    `pending` is the number after the change; the others are its changes, negative for jobs that
    left.

    >>> lets_somebody_go_on(QueueConfig(max_depth=5), pending=4, more_pending=-1)
    True
    >>> lets_somebody_go_on(QueueConfig(max_concurrency=1), pending=0, more_running=-1)
    False
    """
    depth = config.max_depth
    may_submit = depth is not None and pending < depth <= pending - more_pending
    return may_submit or (config.max_concurrency is not None and more_running < 0 < pending)
