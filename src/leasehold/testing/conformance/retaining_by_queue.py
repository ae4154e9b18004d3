"""RET-1 and RET-14: queues that keep their jobs for a time of their own."""

from __future__ import annotations

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import (
    FATAL,
    ConformanceBase,
    draft,
    lease_all,
    settle,
    submit,
)
from leasehold.testing.conformance.configuring import end_all
from leasehold.testing.conformance.retaining import EMERGENCY, SHORT, archived, clean, stored


def keep(store: Store, queue: str, **seconds: float | None) -> None:
    config = QueueConfig(retention=QueueRetention(**seconds))
    store.create_queue(queue, config, actor="me")


class RetainingByQueueClauses(ConformanceBase):
    def test_ret_14_shorter_and_longer_than_the_policy(
        self, store: Store, clock: ManualClock
    ) -> None:
        keep(store, "brief", completed_seconds=10)
        keep(store, "long", completed_seconds=600)
        for queue in ("brief", "default", "long"):
            submit(store, draft(queue, queue=queue))
        end_all(store, "brief", "default", "long")
        clock.advance(10)
        clean(store)
        assert (stored(store), archived(store)) == ({"default", "long"}, {"brief"})
        clock.advance(50)
        clean(store)
        assert stored(store) == {"long"}
        clock.advance(540)
        clean(store)
        assert (stored(store), archived(store)) == (set(), {"brief", "default", "long"})
        assert store.check() == []

    def test_ret_14_what_is_not_said_is_left_to_the_policy(
        self, store: Store, clock: ManualClock
    ) -> None:
        keep(store, "mail", completed_seconds=None, dead_seconds=20)
        for name in ("dead", "done", "cancelled"):
            submit(store, draft(name, queue="mail"))
        leases = {each.job_id: each for each in lease_all(store, limit=2, queues=("mail",))}
        settle(store, leases["dead"], FATAL)
        settle(store, leases["done"], Complete())
        store.cancel(["cancelled"], reason="", actor="me")
        clock.advance(20)
        clean(store)
        assert stored(store) == {"done", "cancelled"}
        clock.advance(1000)
        clean(store)
        assert stored(store) == {"done"}

    def test_ret_14_many_of_each_in_small_writes(self, store: Store, clock: ManualClock) -> None:
        keep(store, "long", completed_seconds=600, cancelled_seconds=600)
        for number in range(30):
            queue = ("default", "long", "other")[number % 3]
            task = ("one", "two")[number % 2]
            submit(store, draft(f"done-{number}", queue=queue, task=task))
        end_all(store, "default", "long", "other")
        for number in range(30):
            queue = ("default", "long", "other")[number % 3]
            submit(store, draft(f"gone-{number}", queue=queue))
        store.cancel([f"gone-{number}" for number in range(30)], reason="", actor="me")
        clock.advance(60)
        reports = clean(store, limit=7)
        assert sum(report.completed for report in reports) == 20
        assert sum(report.cancelled for report in reports) == 20
        assert all(report.pruned <= 7 for report in reports)
        assert stored(store) == {f"{end}-{n}" for end in ("done", "gone") for n in range(1, 30, 3)}
        counts = store.stats("long").counts
        assert (counts[Status.COMPLETED], counts[Status.CANCELLED]) == (10, 10)
        assert store.check() == []

    def test_ret_14_a_change_counts_for_what_is_there(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one", queue="mail"), draft("two", queue="mail"), draft("other"))
        end_all(store, "mail", "default")
        long = QueueRetention(completed_seconds=600)
        store.update_queue("mail", {"retention": long}, actor="me")
        clock.advance(60)
        clean(store)
        assert stored(store) == {"one", "two"}
        store.update_queue("mail", {"retention": None}, actor="me")
        assert store.check() == []
        clean(store)
        assert stored(store) == set()

    def test_ret_14_a_change_counts_in_the_midst_of_a_clean_up(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one", queue="mail"), draft("two", queue="mail"))
        end_all(store, "mail")
        clock.advance(60)
        force = Scope(force=True)
        report = store.prune(SHORT, scope=force, actor="me")
        report = store.prune(SHORT, run=report.run, scope=force, limit=1, actor="me")
        store.update_queue("mail", {"retention": QueueRetention(completed_seconds=600)}, actor="me")
        while report.more:
            report = store.prune(SHORT, run=report.run, scope=force, limit=1, actor="me")
        assert stored(store) == {"two"}

    def test_ret_1_a_report_has_each_job_that_its_call_removed(
        self, store: Store, clock: ManualClock
    ) -> None:
        # A store that forgets by itself leaves this job to the clean-up, too.
        keep(store, "mail", completed_seconds=10)
        submit(store, draft("one", queue="mail"))
        end_all(store, "mail")
        clock.advance(60)
        report = store.prune(SHORT, scope=Scope(force=True), actor="me")
        assert (report.pruned, stored(store)) == (0, {"one"})
        clock.advance(60)
        report = store.prune(SHORT, run=report.run, scope=Scope(force=True), actor="me")
        assert (report.completed, stored(store)) == (1, set())

    def test_ret_14_a_deleted_queue_has_no_say(self, store: Store, clock: ManualClock) -> None:
        keep(store, "mail", completed_seconds=None)
        submit(store, draft("done", queue="mail"))
        end_all(store, "mail")
        store.delete_queue("mail", force=False, actor="me")
        assert store.check() == []
        clock.advance(60)
        clean(store)
        assert stored(store) == set()

    def test_ret_14_an_emergency_is_for_all(self, store: Store) -> None:
        keep(store, "mail", completed_seconds=None, dead_seconds=None)
        submit(store, draft("done", queue="mail"), draft("dead", queue="mail"))
        done, dead = lease_all(store, queues=("mail",))
        settle(store, done, Complete())
        settle(store, dead, FATAL)
        clean(store, scope=EMERGENCY)
        assert stored(store) == {"dead"}
        clean(store, scope=Scope(emergency=True, dead=True))
        assert stored(store) == set()

    def test_ret_14_it_makes_a_clean_up_worth_it(self, store: Store) -> None:
        policy = RetentionPolicy(completed_seconds=None, cancelled_seconds=None, worth_cleaning=2)
        keep(store, "mail", completed_seconds=10)
        submit(store, draft("default"), draft("one", queue="mail"), draft("two", queue="mail"))
        end_all(store, "default")
        assert store.prune(policy, actor="me").run is None
        end_all(store, "mail")
        assert store.prune(policy, actor="me").run is not None

    def test_ret_14_a_replayed_job_is_at_home_again(self, store: Store) -> None:
        keep(store, "mail", cancelled_seconds=600)
        submit(store, draft(queue="mail"))
        store.cancel(["job"], reason="", actor="me")
        store.replay(["job"], reset_attempts=False, actor="me")
        end_all(store, "mail")
        store.discard(["job"], actor="me")
        assert store.check() == []
