"""KEY-1, KEY-2, KEY-7, KEY-8: how many jobs of one key run at once, and how fast they come."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import Submitted
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import InvalidJobError, InvalidQueueError, RateLimitedError
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    RETRY_SECONDS,
    ConformanceBase,
    at_once,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)

PENDING = JobFilter(statuses=(Status.PENDING,))


def limit_keys(store: Store, limit: int | None, **options: Any) -> None:
    config = QueueConfig.of({"key_concurrency": limit, **options})
    store.create_queue("default", config, actor="me")


def of_key(key: str | None, count: int, prefix: str | None = None, **options: Any) -> list[Draft]:
    return [draft(f"{prefix or key}-{n}", limit_key=key, **options) for n in range(count)]


def ids(leases: list[Lease]) -> list[str]:
    return [lease.job_id for lease in leases]


class KeyingClauses(ConformanceBase):
    # -- no more than the limit ----------------------------------------------------------------

    def test_key_1_so_many_jobs_of_a_key_run_and_no_more(self, store: Store) -> None:
        limit_keys(store, 2)
        submit(store, *of_key("a", 5), *of_key("b", 1), *of_key(None, 3, "free"))
        submit(store, *of_key("a", 2, "elsewhere", queue="other"))
        leases = lease_all(store, queues=("default", "other"))
        assert sorted(ids(leases)) == [
            "a-0", "a-1", "b-0", "elsewhere-0", "elsewhere-1", "free-0", "free-1", "free-2",
        ]  # fmt: skip
        assert lease_all(store) == []
        assert store.check() == []
        settle(store, leases[0], Complete())
        assert ids(lease_all(store)) == ["a-2"]
        assert store.check() == []

    def test_key_1_over_several_tasks_too(self, store: Store) -> None:
        limit_keys(store, 2)
        for task in ("one", "two", "three"):
            submit(store, *of_key("a", 3, task, task=task))
        assert ids(lease_all(store)) == ["one-0", "one-1"]
        assert lease_all(store, tasks=("two", "three")) == []
        assert store.check() == []

    def test_key_1_threads_that_race_take_no_more(self, store: Store) -> None:
        limit_keys(store, 3)
        submit(store, *of_key("a", 40), *of_key("b", 40))

        def one(number: int) -> int:
            most = 0
            held: list[Lease] = []
            for _ in range(10):
                ends = [Settlement(each.job_id, each.version, Complete()) for each in held]
                request = LeaseRequest(worker=f"w{number}", limit=2)
                held = store.exchange(ends, request).leases
                most = max(most, store.key_info("default", "a").running)
            store.exchange([Settlement(each.job_id, each.version, Release()) for each in held])
            return most

        assert max(at_once(5, one)) <= 3
        assert store.check() == []
        # Every slot is to be had again.
        left = Counter(job.limit_key for job in store.search(PENDING).jobs)
        assert len(lease_all(store)) == min(3, left["a"]) + min(3, left["b"])

    def test_key_1_a_key_that_is_full_holds_nobody_up(self, store: Store) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("big", 10_000, priority=90))
        submit(store, *of_key("small", 2))
        assert ids(lease_all(store, limit=2)) == ["big-0", "small-0"]
        assert lease_all(store) == []
        assert store.stats("default").counts[Status.PENDING] == 10_000

    def test_key_1_bad_limits_are_refused(self, store: Store) -> None:
        for bad in (0, -1, 1.5, True, "2"):
            with pytest.raises(InvalidQueueError, match="key_concurrency"):
                limit_keys(store, bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidQueueError, match="key_rate_per_second"):
            limit_keys(store, None, key_rate_per_second=0)

    # -- slots come back -----------------------------------------------------------------------

    @pytest.mark.parametrize(
        "outcome", [Complete(), FAILURE, FATAL, Snooze(60), Release(), Release(60), Cancel("no")]
    )
    def test_key_2_whatever_ends_a_lease_frees_its_slot(
        self, store: Store, outcome: Outcome
    ) -> None:
        limit_keys(store, 1)
        submit(store, draft("first", limit_key="a", priority=40), *of_key("a", 2))
        store.reprioritize("first", 90, actor="me")
        held = lease_one(store)
        assert held.job_id == "first"
        # The answer's own lease finds the slot free.
        ends = [Settlement(held.job_id, held.version, outcome)]
        answer = store.exchange(ends, LeaseRequest(worker="w", limit=5))
        again = isinstance(outcome, Release) and not outcome.delay_seconds
        assert ids(answer.leases) == ["first" if again else "a-0"]
        assert store.check() == []

    def test_key_2_what_is_taken_back_frees_its_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit_keys(store, 2)
        submit(store, *of_key("a", 4, max_retries=5))
        lease_all(store, lease_seconds=10)
        assert store.key_info("default", "a").running == 2
        clock.advance(11)
        assert store.recover().recovered == 2
        assert store.key_info("default", "a").running == 0
        assert store.check() == []
        first, second = lease_all(store)
        assert (
            store.recover_one(
                first.job_id, first.version, reset_attempts=False, reason="stuck"
            ).status
            is Status.PENDING
        )
        assert len(lease_all(store)) == 1
        store.cancel([second.job_id], reason="enough", actor="me")
        clock.advance(400)
        store.recover()
        assert len(lease_all(store)) == 2
        assert store.check() == []

    def test_key_2_a_stale_holder_frees_nothing(self, store: Store, clock: ManualClock) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 3, max_retries=5))
        stale = lease_one(store, lease_seconds=10)
        clock.advance(11)
        store.recover()
        lease_one(store)
        store.exchange([Settlement(stale.job_id, stale.version, Complete())])
        assert lease_all(store) == []
        assert store.check() == []

    # -- rates ---------------------------------------------------------------------------------

    def test_key_7_each_key_has_its_own_rate(self, store: Store, clock: ManualClock) -> None:
        limit_keys(store, None, key_rate_per_second=1)
        submit(store, *of_key("a", 2))
        with pytest.raises(RateLimitedError, match="from key 'a'") as caught:
            store.submit([draft("more", limit_key="a")])
        assert caught.value.retry_after_seconds == pytest.approx(1.0)
        assert store.get("more") is None
        submit(store, *of_key("b", 2), *of_key(None, 9, "none"))
        clock.advance(1)
        answers = store.submit(of_key("a", 2, "again"), partial=True)
        assert [type(answer) for answer in answers] == [Submitted, RateLimitedError]
        assert store.stats("default").rejected == 2

    # -- the key itself ------------------------------------------------------------------------

    def test_key_8_the_key_is_kept(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("with", limit_key="tenant-7"), draft("without"))
        assert get(store, "with").limit_key == "tenant-7"
        assert get(store, "without").limit_key is None
        for bad in ("", "a\nb", "x" * 10_000):
            with pytest.raises(InvalidJobError, match="limit_key"):
                store.submit([draft("bad", limit_key=bad)])
        assert store.key_info("default", "tenant-7").running == 0
        held = lease_one(store)
        assert store.key_info("default", "tenant-7").running == 1
        assert store.key_info("other", "tenant-7").running == 0
        settle(store, held, FAILURE)
        assert store.key_info("default", "tenant-7").running == 0
        clock.advance(RETRY_SECONDS)
        store.promote()
        assert get(store, "with").limit_key == "tenant-7"

    # -- and what else counts pending jobs -----------------------------------------------------

    def test_key_1_what_is_parked_counts_among_the_figures(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 4, priority=80))
        clock.advance(30)
        submit(store, *of_key("b", 1))
        lease_all(store)
        clock.advance(12)

        def figures() -> tuple[int, int, float | None]:
            metrics = store.metrics("default")
            by_priority = metrics.pending_by_priority
            return metrics.pending, by_priority["high"], metrics.oldest_pending_age_seconds

        assert figures() == (3, 3, 42)
        store.reprioritize("a-3", 10, actor="me")
        store.cancel(["a-1"], reason="", actor="me")
        assert figures() == (2, 1, 42)
        assert store.metrics("default").pending_by_priority["low"] == 1
        assert store.check() == []
        store.update_queue("default", {"key_concurrency": None}, actor="me")
        assert len(lease_all(store)) == 2
        assert figures() == (0, 0, None)
        assert store.check() == []
