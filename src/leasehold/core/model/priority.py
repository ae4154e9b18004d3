"""The order of service: a pending job's effective priority at a given time, and its place.

`effective` is the formula. Its value changes every second, so no index could hold it; but most of
its terms never change the order of two jobs. `place` therefore puts a job into a *tier*: jobs of
one tier never change their order among themselves, so the best of a queue is the best of its tiers'
first jobs, and `score` is the present value of such a first job. `crosses_at` is when a job moves
to another tier; only jobs with a deadline ever do.

- Without a deadline, or long before it, a job's tier is its priority less its penalty: all jobs of
  a tier gain by waiting at the same pace and up to the same bound, so the job that has waited
  longest is always first.
- Within the horizon of its deadline, a job's tier is that deadline, rounded up to a multiple of the
  rebalance interval: all jobs of a tier have the same boost. Their turn is the time at which they
  would have been worth nothing, which orders them as long as they gain by waiting. Jobs that no
  longer gain have a tier of their own, ordered by priority, then by when they became available.

So a deadline is treated as up to one interval later than it is; the actual order lags behind the
formula by no more than that.

Clauses of the store contract; they hold for every method that makes a job pending, moves or leases
it:

- SCO-1  The pending job with the highest effective priority is leased first, and `position` counts
         by the same; among equals the first available, then the first submitted. Queues of one
         request are compared with each other, each by its own parameters.
- SCO-2  A job served before others was at least as good as them at some time within the last
         `rebalance_interval`; without deadlines, the order is exact.
- SCO-3  In `fifo_mode`, or with everything but priority turned off, the order is strictly by
         priority, then first submitted first: a job that returns gets its old place.
- SCO-4  A change of a queue's parameters also applies to its pending jobs, within the interval.
- SCO-5  A priority above the queue's `max_priority` counts as that.
- SCO-6  Parameters out of range raise InvalidQueueError and change nothing.
- SCO-7  A new priority counts with the job's waiting time, attempts and deadline.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.env import to_micros
from leasehold.errors import InvalidQueueError

EFFECTIVE_MAX: Final = 200
"""Effective priorities are clamped between 0 and this, so no term needs to be larger."""
BANDS_MAX: Final = 1000
"""The most rebalance intervals in a deadline's horizon: each is one more tier to read."""

_MILLI: Final = 1000
_HIGHEST: Final = 100 * _MILLI
_LOWEST: Final = -2 * EFFECTIVE_MAX * _MILLI
"""A lower value is worth 0 for ever, whatever aging and a deadline add to it."""
FIRST_DEADLINE_TIER: Final = 1 << 40
"""The tiers of deadlines begin here: first the tier of passed deadlines, then by deadline."""


_SINCE_BITS: Final = 42
"""Once waiting no longer adds to the priority, a turn is the job's value and, in this many bits,
the millisecond at which it became available.
"""


def _check(name: str, value: float, least: float, most: float, unit: str) -> None:
    # The comparison also refuses NaN, which is neither above nor below anything.
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidQueueError(
            f"{name} must be a number from {least:g} to {most:g} ({unit}), not {value!r}"
        )


class Scoring(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The parameters of the formula in one queue. See `QueueConfig` for each field."""

    aging_factor: float | None = 3600.0
    max_aging_bonus: float = 50.0
    retry_penalty: float = 2.0
    deadline_weight: float = 30.0
    deadline_horizon: float = 3600.0
    rebalance_interval: float = 60.0
    fifo_mode: bool = False
    max_priority: int | None = None

    def __post_init__(self) -> None:
        if self.aging_factor is not None:
            _check(
                "aging_factor", self.aging_factor, 0.001, SECONDS_MAX, "seconds, or None for off"
            )
        _check("max_aging_bonus", self.max_aging_bonus, 0, EFFECTIVE_MAX, "points, 0 for off")
        _check("retry_penalty", self.retry_penalty, 0, EFFECTIVE_MAX, "points, 0 for off")
        _check("deadline_weight", self.deadline_weight, 0, EFFECTIVE_MAX, "points, 0 for off")
        _check("deadline_horizon", self.deadline_horizon, 0.001, SECONDS_MAX, "seconds")
        _check("rebalance_interval", self.rebalance_interval, 0.001, SECONDS_MAX, "seconds")
        if self.deadline_horizon / self.rebalance_interval > BANDS_MAX:
            raise InvalidQueueError(
                f"deadline_horizon may be at most {BANDS_MAX:,} times rebalance_interval, not "
                f"{self.deadline_horizon:g} s of {self.rebalance_interval:g} s: raise "
                "rebalance_interval"
            )
        if not isinstance(self.fifo_mode, bool):
            raise InvalidQueueError(f"fifo_mode must be True or False, not {self.fifo_mode!r}")
        limit = self.max_priority
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= 100
        ):
            raise InvalidQueueError(
                f"max_priority must be a whole number from 0 to 100, or None, not {limit!r}"
            )

    @cached_property
    def aging_micros(self) -> int | None:
        """How long a job waits for one more point; None if waiting does not count."""
        if self.aging_factor is None or not self.max_aging_bonus:
            return None
        return round(self.aging_factor * 1e6)

    @cached_property
    def is_plain(self) -> bool:
        """Whether only priority and creation count, so that the order never changes."""
        return self.fifo_mode or not (
            self.retry_penalty or self.deadline_weight or self.aging_micros
        )


DEFAULT_SCORING: Final = Scoring()


class Place(NamedTuple):
    """The place of a pending job: within a tier, jobs are served by turn, then by number."""

    tier: int
    turn: int
    crosses_at: int | None = None
    """When the job has to move to another place; None for never."""


def effective(
    base: int,
    attempts: int,
    available_at: int,
    deadline: int | None,
    now: int,
    scoring: Scoring = DEFAULT_SCORING,
) -> float:
    """A job's effective priority: the formula. Times are in microseconds.

    >>> hour = 3_600_000_000
    >>> effective(50, 1, 0, None, 10 * hour)  # base + aging - penalty
    58.0
    >>> effective(50, 0, 0, hour, hour // 2)  # half an hour left
    58.0
    """
    value = _value(base, attempts, scoring) / _MILLI
    if scoring.is_plain:
        return value
    boost = 0.0 if deadline is None else _boost(deadline - now, scoring)
    return _clamped(value + _aging(now - available_at, scoring) + boost)


def place(
    base: int,
    attempts: int,
    available_at: int,
    created_at: int,
    deadline: int | None,
    now: int,
    scoring: Scoring = DEFAULT_SCORING,
) -> Place:
    """The place where a pending job belongs. Times are in microseconds."""
    value = _value(base, attempts, scoring)
    if scoring.is_plain:
        return Place(_HIGHEST - value, created_at)
    if deadline is None or not scoring.deadline_weight:
        return Place(_HIGHEST - value, available_at)
    interval = round(scoring.rebalance_interval * 1e6)
    band = -(-deadline // interval)
    end = band * interval
    begin = end - round(scoring.deadline_horizon * 1e6)
    if now < begin:
        return Place(_HIGHEST - value, available_at, begin)
    tier = FIRST_DEADLINE_TIER if now >= end else FIRST_DEADLINE_TIER + 2 * band
    crossings = [] if now >= end else [end]
    aging = scoring.aging_micros
    capped_at = available_at + round((aging or 0) * scoring.max_aging_bonus)
    if aging is not None and now < capped_at:
        turn = available_at - value * aging // _MILLI
        crossings.append(capped_at)
    else:
        turn = (-value << _SINCE_BITS) + available_at // 1000
        tier += 1
    return Place(tier, turn, min(crossings, default=None))


def service_order(job: Job, now: datetime, scoring: Scoring) -> tuple[float, int]:
    """The sort key of a pending job; the lowest is served first, and equal ones by submission."""
    available_at, created_at = to_micros(max(job.run_at, job.created_at)), to_micros(job.created_at)
    stands = place(
        job.inherited_priority or job.priority,
        job.attempts,
        available_at,
        created_at,
        None if job.deadline is None else to_micros(job.deadline),
        to_micros(now),
        scoring,
    )
    since = created_at if scoring.is_plain else available_at
    return -score(stands.tier, stands.turn, to_micros(now), scoring), since


def default_place(priority: int, created_at: int) -> Place:
    """The place of nearly every job: not delayed, not retried, without a deadline.

    A store need not record the places of such jobs.
    """
    return Place(default_tier(priority), created_at)


def default_tier(priority: int) -> int:
    """The tier of jobs of this priority without a bonus or a penalty."""
    return _HIGHEST - priority * _MILLI


DEFAULT_TIERS: Final = tuple(default_tier(priority) for priority in range(101))
"""The default tiers of all priorities, for lookup."""


def score(tier: int, turn: int, now: int, scoring: Scoring = DEFAULT_SCORING) -> float:
    """The present value of a job at this place: its effective priority, apart from the lag."""
    if tier < FIRST_DEADLINE_TIER:
        value = (_HIGHEST - tier) / _MILLI
        return value if scoring.is_plain else _clamped(value + _aging(now - turn, scoring))
    band, capped = divmod(tier - FIRST_DEADLINE_TIER, 2)
    end = band * round(scoring.rebalance_interval * 1e6)
    boost = _boost(end - now, scoring) if band else scoring.deadline_weight
    aging = scoring.aging_micros
    if aging is not None and not capped:
        return _clamped(boost + (now - turn) / aging)
    bonus = 0.0 if aging is None else scoring.max_aging_bonus
    return _clamped(boost + bonus - (turn >> _SINCE_BITS) / _MILLI)


def score_limit(tier: int, now: int, scoring: Scoring) -> float:
    """The highest value that a job of this tier, or of a later one of its kind, can have now."""
    bonus = 0.0 if scoring.aging_micros is None else scoring.max_aging_bonus
    if tier < FIRST_DEADLINE_TIER:
        return _clamped((_HIGHEST - tier) / _MILLI + bonus)
    band = (tier - FIRST_DEADLINE_TIER) // 2
    end = band * round(scoring.rebalance_interval * 1e6)
    boost = _boost(end - now, scoring) if band else scoring.deadline_weight
    return _clamped(_HIGHEST / _MILLI + bonus + boost)


def _value(base: int, attempts: int, scoring: Scoring) -> int:
    """The part of the value that does not change with time, in thousandths."""
    if scoring.max_priority is not None:
        base = min(base, scoring.max_priority)
    if not attempts or scoring.is_plain:
        return base * _MILLI
    return max(_LOWEST, base * _MILLI - attempts * round(scoring.retry_penalty * _MILLI))


def _aging(waited: int, scoring: Scoring) -> float:
    aging = scoring.aging_micros
    return 0.0 if aging is None else min(max(waited, 0) / aging, scoring.max_aging_bonus)


def _boost(remaining: int, scoring: Scoring) -> float:
    horizon = round(scoring.deadline_horizon * 1e6)
    if remaining >= horizon:
        return 0.0
    nearness: float = 1 - max(remaining, 0) / horizon
    return scoring.deadline_weight * nearness**2


def _clamped(points: float) -> float:
    return min(max(points, 0.0), float(EFFECTIVE_MAX))
