"""Histograms against sorted lists."""

from __future__ import annotations

from collections import Counter
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.histogram import (
    BOUNDS,
    MIDDLES,
    Measurements,
    bucket_of,
    percentile,
)

# From nothing at all to a year and a half, small ones as likely as large ones.
micros = st.integers(0, 45).flatmap(lambda octave: st.integers(0, 2**octave))
durations = st.lists(micros, min_size=1, max_size=200)


def histogram_of(values: list[int]) -> dict[int, int]:
    return dict(Counter(map(bucket_of, values)))


def measurements_of(values: list[int]) -> Measurements:
    return Measurements(sum(values), histogram_of(values))


@given(micros)
def test_no_duration_is_far_from_the_middle_of_its_bucket(value: int) -> None:
    middle = MIDDLES[bucket_of(value)]
    assert abs(middle - value) <= 0.091 * value


def test_buckets_follow_each_other_without_a_gap() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert BOUNDS[0] == 1
    middles = [MIDDLES[bucket] for bucket in range(len(BOUNDS) + 1)]
    assert middles == sorted(middles)
    for bucket, bound in enumerate(BOUNDS):
        assert (bucket_of(bound - 1), bucket_of(bound)) == (bucket, bucket + 1)


def test_what_takes_for_ever_is_still_counted() -> None:
    assert MIDDLES[bucket_of(2**60)] == BOUNDS[-1]
    assert bucket_of(-1) == 0


@given(durations, st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_within_ten_percent_of_the_sorted_list(
    values: list[int], share: float
) -> None:
    exact = sorted(values)[max(1, ceil(share * len(values))) - 1]
    found = percentile(histogram_of(values), share)
    assert found is not None
    assert abs(found - exact) <= 0.1 * exact


@given(durations, durations)
def test_measurements_are_added_like_their_lists(one: list[int], two: list[int]) -> None:
    assert measurements_of(one).plus(measurements_of(two)) == measurements_of(one + two)


@given(durations)
def test_a_summary_says_all_of_it(values: list[int]) -> None:
    told = measurements_of(values).summary()
    assert told.count == len(values)
    assert told.mean_seconds == sum(values) / len(values) / 1e6
    assert told.p50_seconds is not None
    assert told.p95_seconds is not None
    assert told.p99_seconds is not None
    assert told.p50_seconds <= told.p95_seconds <= told.p99_seconds


def test_nothing_measured_is_not_zero() -> None:
    assert percentile({}, 0.5) is None
    assert Measurements().summary().mean_seconds is None
