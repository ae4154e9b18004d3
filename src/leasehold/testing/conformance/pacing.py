"""STA-5 to STA-7: start rates and jobs leased ahead, changes of rates, and their description."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import ManualClock
from leasehold.errors import InvalidQueueError
from leasehold.testing.conformance.base import ConformanceBase, lease_all, lease_one
from leasehold.testing.conformance.starting import fill, look, pace, run, seconds_until


class PacingClauses(ConformanceBase):
    # -- leasing ahead -----------------------------------------------------------------------

    @pytest.mark.parametrize("rule", ["starts_per_second", "key_starts_per_second"])
    def test_sta_5_what_has_a_rate_is_not_leased_ahead(self, store: Store, rule: str) -> None:
        pace(store, "paced", **{rule: 1000})
        fill(store, 3, "first", priority=90)
        fill(store, 9, "paced", queue="paced", limit_key="a")
        fill(store, 3, "last", priority=10)
        queues = ("default", "paced")
        leases = lease_all(store, limit=9, free_slots=2, queues=queues)
        # One more was leased ahead; then it is the turn of jobs that need a free slot.
        assert [lease.job_id for lease in leases] == ["first-0", "first-1", "first-2"]
        assert lease_all(store, limit=5, free_slots=0, queues=queues) == []
        leases = lease_all(store, limit=5, free_slots=2, queues=queues)
        assert [lease.job_id for lease in leases] == ["paced-0", "paced-1"]

    # -- changes -----------------------------------------------------------------------------

    @pytest.mark.parametrize("rule", ["starts_per_second", "key_starts_per_second"])
    def test_sta_6_a_change_counts_for_the_next_lease(
        self, store: Store, clock: ManualClock, rule: str
    ) -> None:
        store.create_queue("default", QueueConfig.of({rule: 0.001}), actor="me")
        fill(store, 40, limit_key="a")
        lease_one(store)
        assert seconds_until(store, look(store).next_due_at) == 1000
        store.update_queue("default", {rule: 4}, actor="me")
        assert len(run(store, clock, seconds=1)) == 4
        store.update_queue("default", {rule: 0.5}, actor="me")
        assert seconds_until(store, look(store).next_due_at) == 0.25  # It was used up before.
        assert len(run(store, clock, seconds=4)) == 2
        store.update_queue("default", {rule: None}, actor="me")
        assert len(lease_all(store)) == 33
        assert store.check() == []

    def test_sta_6_a_rate_may_be_given_while_jobs_wait(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, key_concurrency=3)
        fill(store, 9, limit_key="a")
        lease_one(store)
        store.update_queue("default", {"key_starts_per_second": 1}, actor="me")
        assert len(lease_all(store)) == 1
        assert lease_all(store) == []
        clock.advance(1)
        assert len(lease_all(store)) == 1
        clock.advance(1)
        assert look(store).leases == []  # Three run.
        assert store.check() == []

    def test_sta_6_a_rate_that_makes_no_sense_is_refused(self, store: Store) -> None:
        for rule in ("starts_per_second", "key_starts_per_second"):
            for value in (0, -1, 1e7, float("nan"), "5", True):
                with pytest.raises(InvalidQueueError, match=rule):
                    pace(store, **{rule: value})  # type: ignore[arg-type]

    # -- looking -----------------------------------------------------------------------------

    def test_sta_7_queue_and_key_say_when_the_next_may_start(
        self, store: Store, clock: ManualClock
    ) -> None:
        pace(store, starts_per_second=0.1, key_starts_per_second=0.05)
        fill(store, 2, limit_key="a")
        info = store.queue_info("default")
        assert info is not None
        assert info.next_start_at is None
        assert store.key_info("default", "a") == KeyInfo()
        lease_one(store)
        info = store.queue_info("default")
        assert info is not None
        assert seconds_until(store, info.next_start_at) == 10
        key = store.key_info("default", "a")
        assert (key.running, seconds_until(store, key.next_start_at)) == (1, 20)
        clock.advance(15)
        (info,) = store.list_queues()
        assert info.next_start_at is None
        assert seconds_until(store, store.key_info("default", "a").next_start_at) == 5
        assert store.key_info("default", "b") == KeyInfo()
