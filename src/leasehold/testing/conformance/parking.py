"""KEY-3 to KEY-6: jobs whose key is full. They are pending, and the best of them comes next."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.budget import PARKED_KEYS_AT_ONCE
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import LeaseholdError
from leasehold.testing.conformance.base import (
    FATAL,
    ConformanceBase,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.keying import PENDING, ids, limit_keys, of_key
from leasehold.testing.conformance.waking import Ears


class ParkingClauses(ConformanceBase):
    # -- the best of the runnable jobs ---------------------------------------------------------

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

    def test_key_3_narrowed_to_a_group_with_more_keys_than_one_lease_asks(
        self, store: Store
    ) -> None:
        keys = [f"key-{n}" for n in range(2 * PARKED_KEYS_AT_ONCE + 10)]
        limit_keys(store, 1)
        for group in ("theirs", "mine", "mine too"):
            submit(
                store,
                *(draft(f"{group}-{key}", limit_key=key, parent_id=group[:4]) for key in keys),
            )
        leased: list[str] = []
        rounds = 0
        while rounds < len(keys):
            found = store.exchange(request=LeaseRequest(worker="w", parent_id="mine", limit=70))
            leased += [lease.job_id for lease in found.leases]
            rounds += 1
            if len(found.leases) < 70 and found.next_due_at != found.at:
                break
        # All were found, and no lease goes round for ever once all the keys are full.
        assert sorted(leased) == sorted(f"mine-{key}" for key in keys)
        assert rounds <= 10
        assert lease_all(store, parent_id="mine") == []
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
        """No lease has met it since its key was full, so it is not parked."""
        limit_keys(store, 1)
        submit(store, draft("one", limit_key="a", task="one", priority=80))
        submit(store, draft("two", limit_key="a", task="two"))
        held = lease_one(store)
        ears = Ears(store)
        forget = store.subscribe(ears)
        settle(store, held, Complete())
        assert ears.wait_for(lambda: ears.ready > 0)
        forget()
