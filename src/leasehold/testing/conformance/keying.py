"""KEY: limits per key. How many jobs of one key run at once, and how fast they come."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from leasehold.core.job import Draft
from leasehold.core.lease import Lease, LeaseRequest, Settlement
from leasehold.core.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.queue_config import QueueConfig
from leasehold.core.records import Submitted
from leasehold.core.search import JobFilter
from leasehold.core.status import Status
from leasehold.core.store import Store
from leasehold.env import ManualClock
from leasehold.errors import InvalidJobError, InvalidQueueError, LeaseholdError, RateLimitedError
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
from leasehold.testing.conformance.waking import Ears

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
                most = max(most, store.running_of_key("default", "a"))
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
        assert store.running_of_key("default", "a") == 2
        clock.advance(11)
        assert store.recover().recovered == 2
        assert store.running_of_key("default", "a") == 0
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

    # -- the best of those that may run --------------------------------------------------------

    def test_key_3_the_best_of_a_key_comes_first(self, store: Store) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 3, "low", priority=10))
        submit(store, *of_key("a", 2, "high", priority=90))
        store.reprioritize("low-2", 95, actor="me")
        served = []
        while leases := lease_all(store):
            (lease,) = leases
            served.append(lease.job_id)
            settle(store, lease, Complete())
            assert store.check() == []
        assert served == ["low-2", "high-0", "high-1", "low-0", "low-1"]

    def test_key_3_the_order_over_all_keys_is_the_order_of_service(self, store: Store) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 2, priority=60), *of_key("b", 2, priority=70))
        submit(store, *of_key(None, 1, "none", priority=65), *of_key("c", 1, priority=90))
        assert ids(lease_all(store)) == ["c-0", "b-0", "none-0", "a-0"]

    def test_key_3_what_became_more_urgent_by_its_deadline(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit_keys(store, 1)
        soon = store.now() + timedelta(hours=3)
        submit(store, draft("plain", limit_key="a", priority=60))
        submit(store, draft("urgent", limit_key="a", deadline=soon))
        submit(store, draft("other", priority=70))
        clock.advance(3 * 3600)
        assert ids(lease_all(store)) == ["urgent", "other"]
        assert store.check() == []

    def test_key_3_what_no_worker_asks_for_hides_no_other_task(self, store: Store) -> None:
        limit_keys(store, 2)
        submit(store, *of_key("a", 5, "one", task="one", priority=90))
        submit(store, *of_key("a", 5, "two", task="two"))
        assert ids(lease_all(store, tasks=("two",))) == ["two-0", "two-1"]
        assert lease_all(store, tasks=("one",)) == []

    def test_key_3_narrowed_to_a_group(self, store: Store) -> None:
        limit_keys(store, 2)
        submit(store, *of_key("a", 5, "other"), *of_key("a", 3, "mine", parent_id="g"))
        submit(store, *of_key("b", 3, "theirs", parent_id="g", task="two", priority=60))
        assert ids(lease_all(store, limit=3, parent_id="g")) == ["theirs-0", "theirs-1", "mine-0"]
        assert store.check() == []
        assert ids(lease_all(store, parent_id="g")) == ["mine-1"]
        assert lease_all(store, parent_id="g") == []
        assert lease_all(store) == []
        assert store.check() == []

    def test_key_3_narrowed_to_a_group_and_a_task(self, store: Store) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 2, "one", task="one", parent_id="g", priority=80))
        submit(store, *of_key("a", 2, "two", task="two", parent_id="g"))
        assert ids(lease_all(store, parent_id="g", tasks=("two",))) == ["two-0"]
        assert lease_all(store, parent_id="g", tasks=("one",)) == []

    def test_key_3_beside_the_limit_of_the_queue(self, store: Store) -> None:
        limit_keys(store, 2, max_concurrency=3)
        submit(store, *of_key("a", 5, priority=80), *of_key("b", 5))
        leases = lease_all(store)
        assert ids(leases) == ["a-0", "a-1", "b-0"]
        settle(store, leases[2], Complete())
        assert ids(lease_all(store)) == ["b-1"]
        assert store.check() == []

    def test_key_3_nobody_starves_behind_their_own(self, store: Store, clock: ManualClock) -> None:
        """Newcomers of a higher priority go first, but aging counts for the parked ones too."""
        limit_keys(store, 1, aging_factor=1.0, max_aging_bonus=100.0)
        submit(store, draft("old", limit_key="a", priority=10))
        served = []
        for n in range(100):
            submit(store, draft(f"new-{n}", limit_key="a", priority=50))
            clock.advance(1)
            (lease,) = lease_all(store)
            served.append(lease.job_id)
            settle(store, lease, Complete())
        assert "old" in served[:45]

    # -- pending like any other ----------------------------------------------------------------

    def test_key_4_parked_jobs_are_pending_to_everybody(self, store: Store) -> None:
        limit_keys(store, 1, max_depth=6)
        submit(store, *of_key("a", 5), draft("grouped", limit_key="a", parent_id="g"))
        names = ["a-0", "a-1", "a-2", "a-3", "a-4", "grouped"]
        assert {get(store, name).status for name in names} == {Status.PENDING}
        assert [store.position(name) for name in names] == [0, 1, 2, 3, 4, 5]
        assert store.stats("default").counts[Status.PENDING] == 6
        with pytest.raises(LeaseholdError):
            store.submit([draft("too many")])
        found = store.search(PENDING)
        assert {job.id for job in found.jobs} == set(names)
        held = lease_one(store)
        store.cancel(["a-2"], reason="no", actor="me")
        where = JobFilter(parent_id="g")
        assert store.purge_queue("default", where, actor="me").purged == 1
        assert store.check() == []
        settle(store, held, Complete())
        assert ids(lease_all(store)) == ["a-1"]
        assert store.delete_queue("default", force=True, actor="me") == 2
        assert get(store, "a-3").status is Status.DEAD
        assert store.check() == []

    def test_key_4_one_that_is_shown_makes_way_for_the_next(self, store: Store) -> None:
        limit_keys(store, 2)
        submit(store, *of_key("a", 5))
        store.cancel(["a-0", "a-3"], reason="no", actor="me")
        assert store.check() == []
        assert ids(lease_all(store)) == ["a-1", "a-2"]

    def test_key_4_too_late_ones_make_way_in_the_same_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 3, "late", start_within_seconds=5), *of_key("a", 1))
        clock.advance(6)
        assert ids(lease_all(store)) == ["a-0"]
        assert get(store, "late-0").status is Status.CANCELLED
        assert store.check() == []

    def test_key_4_whatever_makes_a_job_pending(self, store: Store, clock: ManualClock) -> None:
        limit_keys(store, 1)
        submit(store, draft("runs", limit_key="a"))
        held = lease_one(store)
        submit(store, draft("delayed", limit_key="a", delay_seconds=1))
        submit(store, draft("blocked", limit_key="a", depends_on=("needed",)), draft("needed"))
        settle(store, lease_one(store), Complete())
        submit(store, draft("dead", limit_key="b"))
        settle(store, lease_one(store), FATAL)
        store.replay(["dead"], reset_attempts=False, actor="me")
        clock.advance(2)
        store.promote()
        assert get(store, "blocked").status is Status.PENDING
        assert store.check() == []
        assert ids(lease_all(store)) == ["dead"]
        settle(store, held, Complete())
        order = []
        while leases := lease_all(store):
            order += ids(leases)
            settle(store, leases[0], Complete())
        assert sorted(order) == ["blocked", "delayed"]

    # -- changing the limit --------------------------------------------------------------------

    def test_key_5_a_limit_counts_at_once(self, store: Store) -> None:
        limit_keys(store, None)
        submit(store, *of_key("a", 9), *of_key("b", 2))
        held = lease_all(store, limit=3)
        store.update_queue("default", {"key_concurrency": 2}, actor="me")
        assert store.check() == []
        assert ids(lease_all(store)) == ["b-0", "b-1"]
        settle(store, held[0], Complete())
        assert lease_all(store) == []
        settle(store, held[1], Complete())
        assert ids(lease_all(store)) == ["a-3"]
        store.update_queue("default", {"key_concurrency": 4}, actor="me")
        assert store.check() == []
        assert ids(lease_all(store)) == ["a-4", "a-5"]
        store.update_queue("default", {"key_concurrency": 1}, actor="me")
        assert lease_all(store) == []
        store.update_queue("default", {"key_concurrency": None}, actor="me")
        assert store.check() == []
        assert ids(lease_all(store)) == ["a-6", "a-7", "a-8"]

    def test_key_5_on_and_off_and_on_again(self, store: Store) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 6))
        first = lease_one(store)
        store.update_queue("default", {"key_concurrency": None}, actor="me")
        second = lease_one(store)
        settle(store, first, Complete())
        store.update_queue("default", {"key_concurrency": 1}, actor="me")
        assert lease_all(store) == []
        settle(store, second, Complete())
        assert ids(lease_all(store)) == ["a-2"]
        assert store.check() == []

    def test_key_5_with_the_order_of_service_at_once(self, store: Store) -> None:
        limit_keys(store, 1, fifo_mode=True)
        submit(store, *of_key("a", 3, "low", priority=10), *of_key("a", 3, "high", priority=90))
        store.update_queue("default", {"max_priority": 10, "key_concurrency": 2}, actor="me")
        assert store.check() == []
        assert ids(lease_all(store)) == ["low-0", "low-1"]

    # -- news ----------------------------------------------------------------------------------

    def test_key_6_listeners_hear_of_a_free_slot(self, store: Store) -> None:
        limit_keys(store, 1)
        submit(store, *of_key("a", 2))
        held = lease_one(store)
        ears = Ears(store)
        forget = store.subscribe(ears)
        settle(store, held, Complete())
        assert ears.wait_for(lambda: ears.ready > 0)
        forget()

    def test_key_6_also_if_the_other_job_was_seen_before(self, store: Store) -> None:
        """Nobody has asked for it since its key was full, so nobody has set it aside."""
        limit_keys(store, 1)
        submit(store, draft("one", limit_key="a", task="one", priority=80))
        submit(store, draft("two", limit_key="a", task="two"))
        held = lease_one(store)
        ears = Ears(store)
        forget = store.subscribe(ears)
        settle(store, held, Complete())
        assert ears.wait_for(lambda: ears.ready > 0)
        forget()

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
        assert store.running_of_key("default", "tenant-7") == 0
        held = lease_one(store)
        assert store.running_of_key("default", "tenant-7") == 1
        assert store.running_of_key("other", "tenant-7") == 0
        settle(store, held, FAILURE)
        assert store.running_of_key("default", "tenant-7") == 0
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
