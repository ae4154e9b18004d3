"""Leases from measured run times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leasehold import TaskQueue
from leasehold.stores.memory import MemoryStore
from leasehold.worker.measured import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, MeasuredLeases

runs = st.lists(st.floats(0, 10_000), min_size=1, max_size=50)


@given(runs)
def test_a_lease_is_never_shorter_than_twice_the_latest_run_within_its_bounds(
    seconds: list[float],
) -> None:
    leases = MeasuredLeases()
    for each in seconds:
        leases.measured("task", each)
    lease = leases.by_task["task"]
    assert LEASE_SECONDS_MIN <= lease <= LEASE_SECONDS_MAX
    assert lease >= min(2 * seconds[-1], LEASE_SECONDS_MAX)
    assert lease <= max(2 * max(seconds), LEASE_SECONDS_MIN)


def test_a_long_run_is_forgotten_after_many_short_ones() -> None:
    leases = MeasuredLeases()
    leases.measured("task", 1000.0)
    for _ in range(300):
        leases.measured("task", 1.0)
    assert leases.by_task["task"] == LEASE_SECONDS_MIN


def test_a_worker_measures_its_tasks() -> None:
    """The first lease has the default length; the next one follows the measured run time."""
    store = MemoryStore()
    seen: list[float] = []
    with TaskQueue(
        store,
        num_workers=1,
        lease_seconds="auto",
        on_start=lambda lease: seen.append(lease.lease_seconds),
    ) as queue:
        task = queue.task(name="nap")(_nap)
        for _ in range(2):
            task.submit().result(timeout=30)
    assert seen == [300.0, LEASE_SECONDS_MIN]


def _nap() -> None:
    """Done at once."""
