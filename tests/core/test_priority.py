"""The formula, and that a job's place says the same: pure rules, held for all inputs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.priority import (
    BANDS_MAX,
    DEFAULT_SCORING,
    EFFECTIVE_MAX,
    FIRST_DEADLINE_TIER,
    Scoring,
    default_place,
    effective,
    place,
    score,
    score_limit,
)
from leasehold.core.model.queue_config import QueueConfig
from leasehold.errors import InvalidQueueError

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 1_700_000_000 * SECOND
EPSILON = 1e-6

scorings = st.builds(
    Scoring,
    aging_factor=st.none() | st.floats(0.01, 100_000),
    max_aging_bonus=st.just(0) | st.floats(0, EFFECTIVE_MAX),
    retry_penalty=st.sampled_from([0, 0.001, 0.5, 2, 200]),
    deadline_weight=st.just(0) | st.floats(0, EFFECTIVE_MAX),
    deadline_horizon=st.floats(60, 10_000),
    rebalance_interval=st.floats(10, 10_000),
    fifo_mode=st.sampled_from([False] * 9 + [True]),
    max_priority=st.none() | st.integers(0, 100),
)
moments = st.integers(START, START + 100 * HOUR)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[int, int, int, int, int | None]:
    """Base, attempts, available_at, created_at and deadline."""
    available_at = draw(moments)
    created_at = draw(st.integers(START, available_at))
    deadline = draw(st.none() | moments | st.integers(0, 10 * HOUR).map(lambda d: available_at + d))
    return draw(st.integers(0, 100)), draw(st.integers(0, 1000)), available_at, created_at, deadline


def formula(
    base: int, attempts: int, available_at: int, deadline: int | None, now: int, rules: Scoring
) -> float:
    """As it is written in the specification, word by word."""
    base = base if rules.max_priority is None else min(base, rules.max_priority)
    if rules.fifo_mode:
        return base
    waiting_seconds = (now - available_at) / 1e6
    aging = 0.0
    if rules.aging_factor is not None:
        aging = min(waiting_seconds / rules.aging_factor, rules.max_aging_bonus)
    retry_penalty = attempts * rules.retry_penalty
    deadline_boost = 0.0
    if deadline is not None:
        remaining = (deadline - now) / 1e6
        if remaining < rules.deadline_horizon:
            nearness = 1 - remaining / rules.deadline_horizon
            deadline_boost = rules.deadline_weight * (nearness**2 if remaining > 0 else 1)
    return min(max(base + aging - retry_penalty + deadline_boost, 0), 200)


@given(jobs(), st.integers(0, 1000 * HOUR), scorings)
def test_effective_is_the_formula(
    job: tuple[int, int, int, int, int | None], waited: int, rules: Scoring
) -> None:
    base, attempts, available_at, _, deadline = job
    now = available_at + waited
    expected = formula(base, attempts, available_at, deadline, now, rules)
    assert effective(base, attempts, available_at, deadline, now, rules) == pytest.approx(
        expected, abs=1e-4
    )


def test_the_defaults_are_those_of_the_specification() -> None:
    assert QueueConfig().scoring == DEFAULT_SCORING
    assert effective(50, 3, 0, None, 7 * HOUR) == 50 + 7 - 6
    assert effective(50, 0, 0, None, 500 * HOUR) == 50 + 50
    assert effective(0, 40, 0, None, HOUR) == 0
    assert effective(50, 0, 2 * HOUR, 3 * HOUR, 2 * HOUR) == 50
    assert effective(50, 0, 0, HOUR // 2, HOUR) == 50 + 1 + 30
    assert effective(50, 0, HOUR, HOUR + HOUR // 4, HOUR) == pytest.approx(50 + 30 * 0.75**2)


@given(jobs(), st.integers(0, 300 * HOUR), scorings)
def test_a_place_says_what_the_formula_says_but_for_the_lag(
    job: tuple[int, int, int, int, int | None], waited: int, rules: Scoring
) -> None:
    base, attempts, available_at, _, deadline = job
    now = available_at + waited
    found = place(*job, now, rules)
    worth = score(found.tier, found.turn, now, rules)
    at_most = effective(base, attempts, available_at, deadline, now, rules)
    lag = round(rules.rebalance_interval * 1e6)
    at_least = effective(base, attempts, available_at, deadline, now - lag, rules)
    assert at_least - EPSILON <= worth <= at_most + EPSILON
    if deadline is None:
        assert worth == at_most


@given(jobs(), st.integers(0, 300 * HOUR), st.integers(0, 300 * HOUR), scorings)
def test_a_job_stays_until_it_crosses(
    job: tuple[int, int, int, int, int | None], waited: int, more: int, rules: Scoring
) -> None:
    now = job[2] + waited
    found = place(*job, now, rules)
    later = place(*job, now + more, rules)
    if found.crosses_at is None or now + more < found.crosses_at:
        assert later == found
    else:
        assert found.crosses_at > now
        assert later != found


@given(jobs(), jobs(), st.integers(0, 300 * HOUR), st.integers(0, 300 * HOUR), scorings)
def test_within_a_tier_the_order_never_changes(
    one: tuple[int, int, int, int, int | None],
    two: tuple[int, int, int, int, int | None],
    waited: int,
    more: int,
    rules: Scoring,
) -> None:
    # The same but for what a tier leaves open, so that they often meet in one.
    two = (two[0], one[1], two[2], two[3], one[4])
    now = max(one[2], two[2]) + waited
    first, second = place(*one, now, rules), place(*two, now, rules)
    if first.tier != second.tier:
        second = place(one[0], *two[1:], now, rules)
    if first.tier != second.tier:
        return  # One of them gains no more by waiting, near its deadline.
    if second.turn < first.turn:
        first, second = second, first
    until = min(found.crosses_at or now + more for found in (first, second))
    for moment in (now, max(now, min(now + more, until - 1))):
        ahead = score(first.tier, first.turn, moment, rules)
        assert ahead >= score(second.tier, second.turn, moment, rules)


@given(jobs(), jobs(), st.integers(0, 300 * HOUR), scorings)
def test_no_later_tier_of_the_kind_can_be_better_than_the_limit(
    one: tuple[int, int, int, int, int | None],
    two: tuple[int, int, int, int, int | None],
    waited: int,
    rules: Scoring,
) -> None:
    now = max(one[2], two[2]) + waited
    first, second = sorted((place(*one, now, rules), place(*two, now, rules)))
    limit = score_limit(first.tier, now, rules)
    assert score(first.tier, first.turn, now, rules) <= limit + EPSILON
    if (first.tier >= FIRST_DEADLINE_TIER) == (second.tier >= FIRST_DEADLINE_TIER):
        assert score(second.tier, second.turn, now, rules) <= limit + EPSILON


@given(st.lists(jobs(), max_size=50), moments, scorings)
def test_there_are_few_tiers_of_deadlines(
    pending: list[tuple[int, int, int, int, int | None]], now: int, rules: Scoring
) -> None:
    tiers = {place(*job, now, rules).tier for job in pending if job[2] <= now}
    boosted = [tier for tier in tiers if tier >= FIRST_DEADLINE_TIER]
    bands = rules.deadline_horizon / rules.rebalance_interval + 2
    assert len(boosted) <= 2 * min(bands, BANDS_MAX + 2)


@given(st.integers(0, 100), moments)
def test_a_plain_new_job_stands_at_its_default_place(priority: int, now: int) -> None:
    assert place(priority, 0, now, now, None, now) == default_place(priority, now)
    assert place(priority, 3, now + 5, now, None, now + 9, Scoring(fifo_mode=True)) == (
        default_place(priority, now)
    )


@given(scorings)
def test_scores_stay_within_their_bounds(rules: Scoring) -> None:
    for deadline in (None, START, START + HOUR):
        for attempts in (0, 1_000_000):
            for now in (START, START + HOUR // 2, START + 1000 * HOUR):
                found = place(100, attempts, START, START, deadline, now, rules)
                assert 0 <= score(found.tier, found.turn, now, rules) <= EFFECTIVE_MAX
                # What a store can keep in a column.
                assert -(1 << 62) < found.turn < 1 << 62


def test_too_fine_an_interval_is_refused() -> None:
    with pytest.raises(InvalidQueueError, match="raise rebalance_interval"):
        QueueConfig(deadline_horizon=86_400, rebalance_interval=1)
    assert QueueConfig(deadline_horizon=86_400, rebalance_interval=90).scoring.deadline_weight == 30


def test_a_job_that_is_not_available_yet_has_not_aged() -> None:
    """A clock that was set back shows a time before a job became available."""
    assert effective(50, 0, START + HOUR, None, START) == 50
    stands = place(50, 0, START + HOUR, START, None, START)
    assert score(stands.tier, stands.turn, START) == 50


def test_times_are_rounded_to_the_next_microsecond() -> None:
    assert Scoring(aging_factor=0.0019999).aging_micros == 2000
    rules = Scoring(aging_factor=None, rebalance_interval=10.0000009)
    # The first band ends at the first multiple of the interval from the deadline on.
    assert place(50, 0, 0, 0, 10 * SECOND, 0, rules)[2] == 10_000_001
