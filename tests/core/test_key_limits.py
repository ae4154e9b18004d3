"""The rule of limits per key: which jobs are shown."""

from __future__ import annotations

from bisect import insort

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.key_limits import Rank, free_slots, is_shown

turns = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1000)), unique=True, max_size=30)


@given(turns, st.integers(0, 5))
def test_those_that_are_shown_are_always_the_best(jobs: list[Rank], free: int) -> None:
    """Jobs that come one by one, each judged by the rule alone: as if all had been sorted."""
    shown: list[Rank] = []
    for job in jobs:
        last = shown[free - 1] if 0 < free <= len(shown) else None
        if is_shown(job, last, free):
            insort(shown, job)
            del shown[free:]
    assert shown == sorted(jobs)[:free]


@given(st.integers(1, 10), st.integers(0, 20))
def test_slots_are_never_below_none(limit: int, running: int) -> None:
    assert free_slots(limit, running) == (limit - running if running < limit else 0)
