"""STA-1 to STA-4: how fast jobs start, by queue and by key."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from math import ceil

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Exchange, Lease, LeaseRequest
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    at_once,
    draft,
    lease_all,
    lease_one,
    settle,
    submit,
)

SECOND = timedelta(seconds=1)


def pace(store: Store, queue: str = "default", **options: float | None) -> None:
    store.create_queue(queue, QueueConfig.of(options), actor="me")


def fill(store: Store, count: int, prefix: str = "job", **options: object) -> None:
    submit(store, *(draft(f"{prefix}-{n}", **options) for n in range(count)))


def look(store: Store, limit: int = 1000, **options: object) -> Exchange:
    request = LeaseRequest(**{"worker": "worker", "limit": limit, **options})  # type: ignore[arg-type]
    return store.exchange(request=request)


def seconds_until(store: Store, moment: datetime | None) -> float | None:
    return None if moment is None else (moment - store.now()).total_seconds()


def run(store: Store, clock: ManualClock, seconds: float, limit: int = 1000) -> list[Lease]:
    """Lease whenever the store says that there may be more, for so long."""
    started: list[Lease] = []
    end = store.now() + timedelta(seconds=seconds)
    while True:
        answer = look(store, limit)
        started += answer.leases
        if len(answer.leases) == limit:
            continue
        if answer.next_due_at is None or answer.next_due_at >= end:
            return started
        assert answer.at is not None
        assert answer.next_due_at > answer.at
        clock.advance((answer.next_due_at - answer.at).total_seconds())


def most_in_a_second(starts: list[datetime]) -> int:
    """How many of these fall into one second at most, wherever it begins."""
    in_order = sorted(starts)
    return max(
        bisect_left(in_order, first + SECOND) - number for number, first in enumerate(in_order)
    )


class StartingClauses(ConformanceBase):
    # -- the rule ----------------------------------------------------------------------------

    def test_sta_1_starts_are_spaced_evenly(self, store: Store, clock: ManualClock) -> None:
        pace(store, starts_per_second=5)
        fill(store, 30)
        at = [lease.acquired_at for lease in run(store, clock, seconds=3)]
        assert [(each - at[0]).total_seconds() for each in at] == [n / 5 for n in range(15)]
        assert store.check() == []

    def test_sta_1_a_fraction_is_one_start_in_so_many_seconds(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, starts_per_second=0.2)
        fill(store, 5)
        assert len(lease_all(store)) == 1
        clock.advance(4.999999)
        assert lease_all(store) == []
        clock.advance(0.000001)
        assert len(lease_all(store)) == 1

    # One by one, at rates that a second can be divided by and not, and in batches of any size.
    @pytest.mark.parametrize(
        ("limit", "rate"), [(1, 2.5), (1, 40), (1, 97), (1000, 2.5), (1000, 97), (1000, 1000)]
    )
    def test_sta_1_no_second_has_more_starts_than_the_rate(
        self, store: Store, clock: ManualClock, rate: float, limit: int
    ) -> None:
        pace(store, starts_per_second=rate)
        fill(store, ceil(rate * 1.5))
        clock.advance(3600)  # After a pause no more may start at once than before.
        seconds = 1.2
        at = [lease.acquired_at for lease in run(store, clock, seconds=seconds, limit=limit)]
        assert most_in_a_second(at) <= ceil(rate)
        assert max(Counter(at).values()) <= max(1, rate / 20)
        assert len(at) >= seconds * rate * 0.95

    def test_sta_1_jobs_of_other_queues_are_leased_meanwhile(self, store: Store) -> None:
        pace(store, starts_per_second=1)
        fill(store, 3, priority=90)
        fill(store, 2, "other", queue="q2", priority=1)
        leases = lease_all(store, queues=("default", "q2"))
        assert [lease.job_id for lease in leases] == ["job-0", "other-0", "other-1"]

    def test_sta_1_racing_leases_share_the_rate(self, store: Store, clock: ManualClock) -> None:
        pace(store, starts_per_second=2)
        fill(store, 40)
        for _ in range(5):
            found = at_once(4, lambda _: lease_all(store))
            assert sum(map(len, found)) == 1
            clock.advance(0.5)

    def test_sta_2_each_key_has_a_rate_of_its_own(self, store: Store, clock: ManualClock) -> None:
        pace(store, key_starts_per_second=2)
        fill(store, 9, "a", limit_key="a")
        fill(store, 9, "b", limit_key="b", task="another")
        fill(store, 3, "free", priority=1)
        by_key: defaultdict[str, list[datetime]] = defaultdict(list)
        for lease in run(store, clock, seconds=2):
            by_key[lease.job_id.split("-")[0]].append(lease.acquired_at)
        assert {key: len(at) for key, at in by_key.items()} == {"a": 4, "b": 4, "free": 3}
        for key in "ab":
            began = by_key[key][0]
            spaced = [(at - began).total_seconds() for at in by_key[key]]
            assert spaced == [0.0, 0.5, 1.0, 1.5]
        assert store.check() == []

    @pytest.mark.parametrize("limit", [1, 1000])
    def test_sta_2_a_fast_key_may_start_some_at_once(
        self, store: Store, clock: ManualClock, limit: int
    ) -> None:
        pace(store, key_starts_per_second=100)
        fill(store, 200, "a", limit_key="a")
        at = [lease.acquired_at for lease in run(store, clock, seconds=1.5, limit=limit)]
        assert most_in_a_second(at) <= 100
        assert len(at) >= 150 * 0.95
        assert store.check() == []

    def test_sta_2_both_rates_count(self, store: Store, clock: ManualClock) -> None:
        pace(store, starts_per_second=3, key_starts_per_second=1)
        for key in "abcdef":
            fill(store, 3, key, limit_key=key)
        started = [lease.job_id for lease in run(store, clock, seconds=2)]
        assert started == ["a-0", "b-0", "c-0", "a-1", "b-1", "c-1"]

    # -- the meaning of a start ----------------------------------------------------------------

    def test_sta_3_what_is_handed_back_has_used_up_its_start(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, starts_per_second=1, key_starts_per_second=1)
        submit(store, draft(limit_key="a"))
        settle(store, lease_one(store), Release())
        assert lease_all(store) == []
        clock.advance(1)
        settle(store, lease_one(store), FAILURE)
        clock.advance(RETRY_SECONDS)
        lease_one(store)

    def test_sta_3_a_retry_and_a_recovered_job_start_once_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, starts_per_second=0.01)
        fill(store, 1, lease_seconds=10, max_retries=5)
        lost = lease_one(store)
        clock.advance(50)
        store.recover()
        answer = look(store)
        assert answer.leases == []
        assert seconds_until(store, answer.next_due_at) == 50
        clock.advance(50)
        assert lease_one(store).version > lost.version
        assert lease_all(store) == []

    # -- nothing waits longer than it must -----------------------------------------------------

    def test_sta_4_the_answer_says_when_the_next_may_start(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, starts_per_second=0.5)
        pace(store, "keyed", key_starts_per_second=0.25)
        fill(store, 1)
        assert look(store).next_due_at is None  # No job waits.
        fill(store, 1, "second")
        assert seconds_until(store, look(store).next_due_at) == 2
        fill(store, 2, "a", queue="keyed", limit_key="a")
        answer = look(store, queues=("keyed",))
        assert len(answer.leases) == 1
        assert seconds_until(store, answer.next_due_at) == 4
        store.set_queue_state("default", QueueState.PAUSED, actor="me")
        assert look(store).next_due_at is None
        clock.advance(4)
        assert len(look(store, queues=("keyed",)).leases) == 1

    def test_sta_4_a_newcomer_to_a_key_that_rests_waits_for_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, key_starts_per_second=0.5)
        fill(store, 1, "a", limit_key="a")
        lease_one(store)
        clock.advance(1)
        submit(store, draft("urgent", limit_key="a", priority=90), draft("late", limit_key="a"))
        answer = look(store)
        assert (answer.leases, seconds_until(store, answer.next_due_at)) == ([], 1)
        clock.advance(1)
        assert lease_one(store).job_id == "urgent"
        assert store.check() == []

    def test_sta_4_a_key_rests_in_all_its_tasks_and_tiers(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, key_starts_per_second=1)
        for task in ("one", "two", "three"):
            for priority in (20, 50, 80):
                submit(
                    store, draft(f"{task}-{priority}", task=task, priority=priority, limit_key="a")
                )
        started = [lease.job_id for lease in run(store, clock, seconds=9)]
        assert started == [f"{t}-{p}" for p in (80, 50, 20) for t in ("one", "two", "three")]
        assert store.check() == []

    def test_sta_4_the_limit_on_what_runs_counts_too(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, key_concurrency=1, key_starts_per_second=1)
        fill(store, 3, "a", limit_key="a")
        first = lease_one(store)
        clock.advance(2)
        assert look(store).leases == []  # One runs.
        settle(store, first, Complete())
        second = lease_one(store)
        settle(store, second, Complete())
        answer = look(store)
        assert (answer.leases, seconds_until(store, answer.next_due_at)) == ([], 1)
        clock.advance(1)
        assert lease_one(store).job_id == "a-2"
        assert store.check() == []

    def test_sta_4_a_group_is_paced_too(self, store: Store, clock: ManualClock) -> None:
        pace(store, key_starts_per_second=1)
        fill(store, 3, "other", limit_key="a", parent_id="another")
        fill(store, 3, "mine", limit_key="a", parent_id="parent")
        assert [lease.job_id for lease in lease_all(store, parent_id="parent")] == ["mine-0"]
        assert lease_all(store, parent_id="another") == []
        clock.advance(1)
        assert [lease.job_id for lease in lease_all(store, parent_id="parent")] == ["mine-1"]
