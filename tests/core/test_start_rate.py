"""Start rates: no second has more starts than the rate, and nobody waits longer than it asks."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.start_rate import BURSTS_PER_SECOND, StartRate
from leasehold.errors import InvalidQueueError

SECOND = 1_000_000
rates = st.sampled_from(
    [0.01, 0.2, 1 / 3, 1, 2.5, 5, 7, 39, 40, 41, 97, 200, 999, 1000]
) | st.floats(0.001, 3000)
visits = st.lists(
    st.tuples(
        st.integers(0, 3 * SECOND) | st.integers(0, 60_000) | st.just(None), st.integers(1, 200)
    ),
    max_size=150,
)
"""How much later somebody comes (None: at the moment he was told), and how many he would start."""


@given(rates, visits)
def test_no_second_has_more_starts_than_the_rate(
    per_second: float, visits: list[tuple[int | None, int]]
) -> None:
    rate, full_at, now = StartRate(per_second), 0, 1_000_000_000
    starts: list[int] = []
    for later, wanted in visits:
        told = rate.next_at(full_at, now=now)
        now += (told or now) - now if later is None else later
        jobs = min(wanted, rate.free(full_at, now=now))
        if jobs:
            full_at = rate.take(full_at, jobs=jobs, now=now)
            starts += [now] * jobs
    for first, began in enumerate(starts):
        within = [at for at in starts[first:] if at < began + SECOND]
        assert len(within) <= ceil(per_second)
    if per_second < 2 * BURSTS_PER_SECOND:
        gaps = [after - before for before, after in pairwise(starts)]
        assert all(Fraction(gap, SECOND) * Fraction(per_second) > 0.999999 for gap in gaps)


@given(rates, st.integers(1, 1000), st.integers(1, 200))
def test_whoever_comes_when_he_is_told_loses_nothing(
    per_second: float, rounds: int, wanted: int
) -> None:
    rate, full_at, now, started = StartRate(per_second), 0, 0, 0
    for _ in range(min(rounds, 300)):
        jobs = min(wanted, rate.free(full_at, now=now))
        assert jobs, "he came when he was told, in vain"
        full_at = rate.take(full_at, jobs=jobs, now=now)
        started += jobs
        told = rate.next_at(full_at, now=now)
        if told is not None:
            assert told > now
            assert rate.free(full_at, now=told - 1) == 0
            now = told
    share = 1 if per_second < 2 * BURSTS_PER_SECOND else 0.95
    # A moment is a microsecond: each may come late by so much.
    assert started >= now * per_second * share / (SECOND + rounds) - 1


@given(rates, rates, st.integers(0, 10 * SECOND))
def test_after_a_change_nobody_waits_longer_than_the_new_rate_asks(
    before: float, after: float, later: int
) -> None:
    full_at = StartRate(before).take(0, jobs=StartRate(before).burst, now=0)
    rate = StartRate(after)
    told = rate.next_at(full_at, now=later)
    assert told is None or told - later <= rate.interval_nanos / 1000 + 1


@pytest.mark.parametrize("bad", [0, -1, 1e7, float("nan"), float("inf")])
def test_what_is_no_rate_is_refused(bad: float) -> None:
    with pytest.raises(InvalidQueueError, match="a rate must be"):
        StartRate(bad)
