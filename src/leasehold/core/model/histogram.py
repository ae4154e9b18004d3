"""Histograms of durations: a few numbers that give percentiles with a known error.

Buckets grow by the fourth root of two, four to each doubling, so a value differs from the middle of
its bucket by at most 9.1 %. Histograms are added bucket by bucket; this is how minutes become hours
and days.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import ceil, sqrt
from typing import Final

import msgspec

BOUNDS: Final = tuple(sorted({ceil(2 ** (quarter / 4)) for quarter in range(4 * 46)}))
"""Where buckets begin, in microseconds; the last one takes everything above two years.

Stored figures depend on them: never change them.
"""

bucket_of = partial(bisect_right, BOUNDS)
"""The number of the bucket for a duration in microseconds; bucket 0 is for durations of zero."""

Histogram = dict[int, int]
"""How many durations fell into each bucket, by its number; empty ones are left out."""


class Durations(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A summary of durations: their number, the mean (exact) and percentiles (within 10 %)."""

    count: int = 0
    mean_seconds: float | None = None
    """None, like the others, if there was nothing to measure."""
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    p99_seconds: float | None = None


NOTHING: Final = Durations()
"""Nothing was measured."""


MIDDLES: Final = (
    0.0,
    *(sqrt(lowest * (above - 1)) for lowest, above in pairwise(BOUNDS)),
    float(BOUNDS[-1]),
)
"""The microseconds that represent a bucket: no duration in it is more than 9.1 % away."""


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """The microseconds that this share of the durations did not exceed; None if there are none.

    >>> round(percentile({bucket_of(1000): 99, bucket_of(64_000): 1}, 0.5) / 1000, 1)
    0.9
    """
    return percentiles(histogram, (share,))[0]


def percentiles(histogram: Mapping[int, int], shares: Sequence[float]) -> list[float | None]:
    """The percentiles for several shares."""
    buckets = sorted(histogram)
    reached = list(accumulate(map(histogram.__getitem__, buckets)))
    if not reached or not reached[-1]:
        return [None] * len(shares)
    count = reached[-1]
    return [MIDDLES[buckets[bisect_left(reached, ceil(share * count) or 1)]] for share in shares]


class Measurements(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Durations of one kind: their exact sum, and their distribution."""

    micros: int = 0
    buckets: Histogram = {}

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    def plus(self, other: Measurements) -> Measurements:
        """Both as one."""
        return sum_of((self, other))

    def mean_seconds(self) -> float | None:
        """None if nothing was measured."""
        count = self.count
        return self.micros / count / 1e6 if count else None

    def summary(self) -> Durations:
        """Their number, mean and percentiles."""
        count = self.count
        if not count:
            return NOTHING
        p50, p95, p99 = percentiles(self.buckets, (0.50, 0.95, 0.99))
        return Durations(
            count=count,
            mean_seconds=self.micros / count / 1e6,
            p50_seconds=_seconds(p50),
            p95_seconds=_seconds(p95),
            p99_seconds=_seconds(p99),
        )


def _seconds(micros: float | None) -> float | None:
    return None if micros is None else micros / 1e6


def measured(seconds: Iterable[float]) -> Measurements:
    """Measurements of durations that were not counted as they ended.

    >>> measured([0.5, 1.5]).mean_seconds()
    1.0
    """
    micros = [round(each * 1e6) for each in seconds]
    return Measurements(sum(micros), dict(Counter(map(bucket_of, micros))))


def sum_of(several: Iterable[Measurements]) -> Measurements:
    """All of them as one."""
    micros, buckets = 0, Histogram()
    known = buckets.get
    for each in several:
        micros += each.micros
        if not buckets:
            buckets.update(each.buckets)
            continue
        for bucket, jobs in each.buckets.items():
            buckets[bucket] = known(bucket, 0) + jobs
    return Measurements(micros, buckets)
