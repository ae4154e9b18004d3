"""The alert rules: what the figures of one queue must not be.

A rule whose figure is missing says "unknown", never "ok".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from leasehold.observe.findings import Finding, Level

DEAD_PER_MINUTE_MAX: Final = 10.0
NO_WORKER_SECONDS_MAX: Final = 300.0
FAILURE_RATE_MAX: Final = 0.05
DEPTH_SHARE_MAX: Final = 0.80
TAIL_RATIO_MAX: Final = 10.0
ATTEMPTS_MIN: Final = 20
"""With fewer attempts than this, one failure or one slow job would already be an alert."""


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one queue; None where it is not."""

    queue: str
    pending: int
    workers: int
    """How many live workers serve it."""
    paused: bool = False
    max_depth: int | None = None
    oldest_pending_seconds: float | None = None
    dead_per_minute: float | None = None
    attempts: int | None = None
    """How many attempts ended in the time that the figures below are about."""
    failure_rate: float | None = None
    """The share of them that failed, from 0 to 1."""
    run_p50_seconds: float | None = None
    run_p99_seconds: float | None = None


def alerts(figures: QueueFigures) -> list[Finding]:
    """What every rule says about a queue.

    >>> figures = QueueFigures(queue="mail", pending=90, workers=1, max_depth=100)
    >>> [(each.check, each.level.value) for each in alerts(figures) if each.level.value != "ok"]
    [('dead_letter_rate', 'unknown'), ('failure_rate', 'unknown'), ('depth', 'warning'), \
('slow_tail', 'unknown')]
    """
    return [rule(figures) for rule in RULES]


def dead_letter_rate(figures: QueueFigures) -> Finding:
    """Critical above 10 dead letters a minute."""
    rate = figures.dead_per_minute
    if rate is None:
        return _unknown("dead_letter_rate", figures, "how many jobs die a minute")
    level = Level.CRITICAL if rate > DEAD_PER_MINUTE_MAX else Level.OK
    return _finding(
        "dead_letter_rate",
        figures,
        level,
        f"{rate:.1f} dead letters a minute",
        "jobs fail for good faster than anybody can look at them",
        "see why: queuectl dlq list; mend the cause, then: queuectl dlq retry",
    )


def no_worker(figures: QueueFigures) -> Finding:
    """Critical when jobs have been pending for 5 minutes and no worker serves the queue."""
    if figures.workers or not figures.pending or figures.paused:
        return _finding("no_worker", figures, Level.OK, f"{figures.workers} worker(s)")
    found = f"{figures.pending:,} pending and no worker"
    age = figures.oldest_pending_seconds
    if age is None:
        return _unknown("no_worker", figures, f"{found}; for how long")
    level = Level.CRITICAL if age > NO_WORKER_SECONDS_MAX else Level.OK
    return _finding(
        "no_worker",
        figures,
        level,
        f"{found}, the oldest for {age:,.0f} s",
        "nobody runs these jobs",
        f"queuectl worker start --queues {figures.queue}",
    )


def failure_rate(figures: QueueFigures) -> Finding:
    """A warning when more than 5 % of the attempts fail."""
    rate = figures.failure_rate
    if rate is None or figures.attempts is None:
        return _unknown("failure_rate", figures, "how many attempts fail")
    enough = figures.attempts >= ATTEMPTS_MIN
    level = Level.WARNING if enough and rate > FAILURE_RATE_MAX else Level.OK
    return _finding(
        "failure_rate",
        figures,
        level,
        f"{rate:.1%} of {figures.attempts:,} attempts failed"
        + ("" if enough else f" (fewer than {ATTEMPTS_MIN} are too few to judge)"),
        "retries cost time, and some of these jobs will be dead letters",
        "see the errors: queuectl list --status failed,dead",
    )


def depth(figures: QueueFigures) -> Finding:
    """A warning when a queue is filled to more than 80 %."""
    if figures.max_depth is None:
        return _finding("depth", figures, Level.OK, f"{figures.pending:,} pending, no limit")
    share = figures.pending / figures.max_depth
    return _finding(
        "depth",
        figures,
        Level.WARNING if share > DEPTH_SHARE_MAX else Level.OK,
        f"{figures.pending:,} of {figures.max_depth:,} pending",
        "submits are refused when it is full",
        "start more workers, or raise max_depth: queuectl queue update",
    )


def slow_tail(figures: QueueFigures) -> Finding:
    """A warning when the slowest hundredth takes more than 10 times as long as the middle."""
    middle, slow = figures.run_p50_seconds, figures.run_p99_seconds
    if figures.attempts == 0:
        return _finding("slow_tail", figures, Level.OK, "no attempt ended lately")
    if middle is None or slow is None or figures.attempts is None:
        return _unknown("slow_tail", figures, "how long jobs run")
    enough = figures.attempts >= ATTEMPTS_MIN
    level = Level.WARNING if enough and slow > TAIL_RATIO_MAX * middle else Level.OK
    return _finding(
        "slow_tail",
        figures,
        level,
        f"p50 {middle:.3g} s, p99 {slow:.3g} s",
        "a few jobs hold their slots very much longer than the others",
        "give them a timeout, or a queue of their own",
    )


RULES: Final[tuple[Callable[[QueueFigures], Finding], ...]] = (
    dead_letter_rate,
    no_worker,
    failure_rate,
    depth,
    slow_tail,
)


def _finding(
    check: str,
    figures: QueueFigures,
    level: Level,
    found: str,
    meaning: str = "",
    advice: str = "",
) -> Finding:
    if level is Level.OK:
        return Finding(check=check, level=level, found=found, queue=figures.queue)
    return Finding(
        check=check, level=level, found=found, meaning=meaning, advice=advice, queue=figures.queue
    )


def _unknown(check: str, figures: QueueFigures, what: str) -> Finding:
    return Finding(
        check=check, level=Level.UNKNOWN, found=f"{what} is not known", queue=figures.queue
    )
