"""The alert rules: bounds on the figures of one queue.

A rule whose figure is missing says "unknown", never "ok".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.advice import words, worker_start
from leasehold.core.model.durations import duration_text
from leasehold.core.model.phrases import counted
from leasehold.observe.findings import Finding, Level

DEAD_PER_MINUTE_MAX: Final = 10.0
NO_WORKER_SECONDS_MAX: Final = 300.0
UNSERVED_SECONDS_MAX: Final = 10.0
PAUSED_SECONDS_MAX: Final = 1800.0
FAILURE_RATE_MAX: Final = 0.05
DEPTH_SHARE_MAX: Final = 0.80
TAIL_RATIO_MAX: Final = 10.0
WAIT_SECONDS_NOTICED: Final = 1.0
ATTEMPTS_MIN: Final = 20
"""With fewer attempts than this, one failure would already be an alert."""
LEASES_MIN: Final = 100
"""With fewer leases than this, one slow job would be the slowest hundredth."""
GROWING_PENDING_MIN: Final = 100
"""Fewer pending jobs than this are not a backlog, even if their number grows."""
GROWING_SHARE_MIN: Final = 0.10
"""How many more jobs, as a share, must have come than left, since a busy queue's depth varies."""
GROWING_STRETCHES: Final = 3
"""For how many stretches in a row: a burst fills only one of them."""


class BacklogChange(NamedTuple):
    """How the backlog of a queue changed in five minutes."""

    before: int
    """Pending jobs when it began, and when it ended."""
    pending: int
    leased: int

    @property
    def came(self) -> int:
        """Jobs that became pending, less those that were cancelled or moved elsewhere."""
        return self.pending - self.before + self.leased

    @property
    def grew(self) -> bool:
        """Whether clearly more jobs came than left."""
        growth = self.pending - self.before
        return growth > 0 and growth >= GROWING_SHARE_MIN * self.leased


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The known figures of one queue; None for unknown ones."""

    queue: str
    pending: int
    next_task: str | None = None
    """The task of the next job, if no worker serves the queue and it was looked up."""
    workers: int
    """How many live workers serve it."""
    paused: bool = False
    paused_seconds: float | None = None
    """If it is paused, how long ago its state or rules last changed, and who changed them."""
    paused_by: str | None = None
    max_depth: int | None = None
    oldest_pending_seconds: float | None = None
    dead_per_minute: float | None = None
    attempts: int | None = None
    """How many attempts ended in the period of the figures below."""
    failure_rate: float | None = None
    """The share of them that failed, from 0 to 1."""
    leased: int | None = None
    """How many jobs were leased in that time."""
    wait_p50_seconds: float | None = None
    wait_p99_seconds: float | None = None
    stretches: tuple[BacklogChange, ...] | None = None
    """The latest stretches, newest last. One that did not grow needs none before it."""


def alerts(figures: QueueFigures) -> list[Finding]:
    """The findings of every rule about a queue.

    >>> figures = QueueFigures(queue="mail", pending=90, workers=1, max_depth=100)
    >>> [(each.check, each.level.value) for each in alerts(figures) if each.level.value != "ok"]
    [('dead_letter_rate', 'unknown'), ('failure_rate', 'unknown'), ('depth', 'warning'), \
('growing', 'unknown'), ('long_waits', 'unknown')]
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
    """Critical when jobs have been pending for 5 minutes and no worker serves the queue.

    A warning after 10 seconds: a worker that is being restarted is back by then.
    """
    if figures.workers or not figures.pending or figures.paused:
        return _finding("no_worker", figures, Level.OK, counted(figures.workers, "worker"))
    found = f"{figures.pending:,} pending and no worker"
    age = figures.oldest_pending_seconds
    if age is None:
        return _unknown("no_worker", figures, f"{found}; for how long")
    level = Level.WARNING if age > UNSERVED_SECONDS_MAX else Level.OK
    if age > NO_WORKER_SECONDS_MAX:
        level = Level.CRITICAL
    return _finding(
        "no_worker",
        figures,
        level,
        f"{found}, the oldest for {duration_text(age)}",
        "no worker runs these jobs",
        worker_start(figures.queue, figures.next_task),
    )


def paused(figures: QueueFigures) -> Finding:
    """A warning when jobs wait in a queue that was paused more than 30 minutes ago.

    A pause is an order: until then somebody is probably at work on it.
    """
    if not figures.paused or not figures.pending:
        return _finding("paused", figures, Level.OK, "paused" if figures.paused else "not paused")
    waits = "waits" if figures.pending == 1 else "wait"
    found = f"{counted(figures.pending, 'pending job')} {waits}"
    if figures.paused_seconds is None:
        return _unknown("paused", figures, f"{found}; for how long")
    by = f" by {figures.paused_by}" if figures.paused_by else ""
    return _finding(
        "paused",
        figures,
        Level.WARNING if figures.paused_seconds > PAUSED_SECONDS_MAX else Level.OK,
        f"{found}; last changed {duration_text(figures.paused_seconds)} ago{by}",
        "no job of it starts until somebody resumes it",
        f"if nobody needs the pause any more: queuectl queue resume {_name(figures)}",
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
        f"see which errors, and since when: queuectl stats --by error {_name(figures)}",
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
        f"it is paused, so nothing leaves it: queuectl queue resume {_name(figures)}"
        if figures.paused
        else f"see what takes so long: queuectl stats {_name(figures)}; start more workers, or "
        f"raise the limit: queuectl queue update --max-depth N {_name(figures)}",
    )


def growing(figures: QueueFigures) -> Finding:
    """A warning when a queue with workers gets more jobs than leave it.

    That means a tenth more in each third of the last 15 minutes, and at least 100 pending jobs.
    """
    if figures.stretches is None:
        return _unknown("growing", figures, "how many jobs come and leave")
    # Nothing leaves a queue that is paused or that nobody serves: its state or no_worker says so.
    served = figures.workers and not figures.paused
    latest = figures.stretches[-GROWING_STRETCHES:]
    grew = len(latest) == GROWING_STRETCHES and all(each.grew for each in latest)
    if not (served and grew and figures.pending >= GROWING_PENDING_MIN):
        return _finding("growing", figures, Level.OK, f"{figures.pending:,} pending")
    came, left = sum(each.came for each in latest), sum(each.leased for each in latest)
    return _finding(
        "growing",
        figures,
        Level.WARNING,
        f"from {latest[0].before:,} to {figures.pending:,} pending in 15 minutes: {came:,} came, "
        f"{left:,} were leased",
        "jobs come faster than the workers take them, so they wait longer and longer",
        f"see what takes so long: queuectl stats {_name(figures)}; start more workers, or raise "
        f"the queue's limits if it has any: queuectl queue show {_name(figures)}",
    )


def long_waits(figures: QueueFigures) -> Finding:
    """A warning when the hundredth that waits longest waits more than 10 times as long as most."""
    middle, long = figures.wait_p50_seconds, figures.wait_p99_seconds
    if figures.leased == 0:
        return _finding("long_waits", figures, Level.OK, "no job was leased lately")
    if middle is None or long is None or figures.leased is None:
        return _unknown("long_waits", figures, "how long jobs wait")
    enough = figures.leased >= LEASES_MIN
    # Below it, a ratio says more about the clock than about anybody's waiting.
    noticed = long >= WAIT_SECONDS_NOTICED
    level = Level.WARNING if enough and noticed and long > TAIL_RATIO_MAX * middle else Level.OK
    return _finding(
        "long_waits",
        figures,
        level,
        f"p50 {duration_text(middle)}, p99 {duration_text(long)}",
        "a few jobs wait very much longer than the others: bursts, a low priority or a limited key",
        f"see who: queuectl stats --by priority {_name(figures)}; then start more workers, or give "
        "them a queue of their own",
    )


RULES: Final[tuple[Callable[[QueueFigures], Finding], ...]] = (
    dead_letter_rate,
    no_worker,
    paused,
    failure_rate,
    depth,
    growing,
    long_waits,
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


def _name(figures: QueueFigures) -> str:
    """The queue's name at the end of a command."""
    return words(figures.queue)


def _unknown(check: str, figures: QueueFigures, what: str) -> Finding:
    return Finding(
        check=check, level=Level.UNKNOWN, found=f"{what} is not known", queue=figures.queue
    )
