"""WRK, STK, LEA-2: workers and consumers, how long they lease, and jobs that they are stuck on."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.lease import Consumer, Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import SILENT_SECONDS, WorkerInfo
from leasehold.core.model.retention import DAY_SECONDS
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import (
    ConformanceBase,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.recovering import worker_info

HERE = Consumer(queues=("default", "mail"), host="here", pid=7)
FAREWELL = LeaseRequest(
    worker="anna", queues=(), limit=0, consumer=Consumer(queues=(), host="here", pid=7)
)


def consume(store: Store, worker: str = "anna", limit: int = 1) -> list[Lease]:
    """Lease as a consumer does that has not told of itself for a while."""
    return lease_all(store, limit, worker=worker, consumer=HERE)


def registered(store: Store) -> dict[str, WorkerInfo]:
    return {info.id: info for info in store.workers()}


def expiry(job: Job) -> timedelta:
    assert job.lease_expires_at is not None
    assert job.lease_acquired_at is not None
    return job.lease_expires_at - job.lease_acquired_at


class ConsumingClauses(ConformanceBase):
    def test_lea_2_what_the_request_says_of_all_wins(self, store: Store) -> None:
        submit(store, draft("own", lease_seconds=600), draft("none"), draft("other", task="other"))
        leases = lease_all(
            store, lease_seconds=60, lease_seconds_by_task={"other": 90}, lease_seconds_override=7.5
        )
        assert {lease.lease_seconds for lease in leases} == {7.5}
        assert {expiry(get(store, lease.job_id)) for lease in leases} == {timedelta(seconds=7.5)}

    def test_lea_2_else_the_job_then_the_request(self, store: Store) -> None:
        submit(store, draft("own", lease_seconds=600), draft("none"), draft("other", task="other"))
        leases = lease_all(store, lease_seconds=60, lease_seconds_by_task={"other": 90})
        seconds = {lease.job_id: lease.lease_seconds for lease in leases}
        assert seconds == {"own": 600, "none": 60, "other": 90}

    # -- the registry ------------------------------------------------------------------------

    def test_wrk_1_a_worker_stays_until_it_leaves(self, store: Store, clock: ManualClock) -> None:
        life = store.register_worker(worker_info(store))
        submit(store, draft())
        lease_one(store)
        clock.advance(SILENT_SECONDS * 2)
        store.recover()
        assert registered(store)["worker"].running == 1
        assert not registered(store)["worker"].is_consumer
        life.close()
        assert store.workers() == []

    def test_wrk_1_a_worker_that_nobody_hears_of_is_forgotten_after_a_day(
        self, store: Store, clock: ManualClock
    ) -> None:
        life = store.register_worker(worker_info(store))
        submit(store, draft(lease_seconds=60))
        lease_one(store)
        clock.advance(DAY_SECONDS)
        store.recover()
        # One far away is left out before (WRK-8).
        assert [each.id for each in store.workers()] in (["worker"], [])
        clock.advance(1)
        store.recover()
        assert store.workers() == []
        life.close()

    def test_wrk_9_in_the_order_of_their_latest_registration(
        self, store: Store, clock: ManualClock
    ) -> None:
        for name, seconds in (("b", 1), ("a", 1), ("b", 0), ("0", 0)):
            store.register_worker(msgspec.structs.replace(worker_info(store), id=name))
            clock.advance(seconds)
        assert [each.id for each in store.workers()] == ["a", "0", "b"]

    def test_wrk_5_a_worker_far_away_belongs_to_no_process(
        self, store: Store, clock: ManualClock
    ) -> None:
        info = worker_info(store, "far")
        assert store.register_worker(info, is_remote=True).lock_fd is None
        submit(store, draft())
        lease_one(store, worker="far", lease_seconds=60)
        assert store.recover().workers_proved_dead == ()
        assert registered(store)["far"].running == 1
        # Through another process, it may be: that has no life of it, and ends its entry.
        store.register_worker(info, is_remote=True).close()
        assert store.workers() == []
        assert get(store).status is Status.RUNNING
        clock.advance(61)
        assert store.recover().recovered == 1

    def test_wrk_5_the_end_of_an_older_registration_leaves_the_newer_one(
        self, store: Store
    ) -> None:
        old = worker_info(store, "far")
        new = msgspec.structs.replace(old, pid=(old.pid or 0) + 1)
        first = store.register_worker(old, is_remote=True)
        second = store.register_worker(new, is_remote=True)
        first.close()
        # Through another process, it may be.
        store.register_worker(old, is_remote=True, is_entered=True).close()
        assert registered(store)["far"].pid == new.pid
        second.close()
        assert store.workers() == []

    def test_wrk_8_a_worker_far_away_that_fell_silent_is_gone_until_it_is_heard_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.register_worker(worker_info(store, "far"), is_remote=True)
        submit(store, draft())
        lease_one(store, worker="far", lease_seconds=2 * SILENT_SECONDS)
        clock.advance(SILENT_SECONDS + 1)
        store.recover()
        assert registered(store)["far"].running == 1, "whoever holds a lease may be at work"
        clock.advance(SILENT_SECONDS)
        store.recover()
        assert store.workers() == []
        store.renew("far", [])
        assert registered(store)["far"].running == 0
        clock.advance(25 * 3600)
        store.recover()
        store.renew("far", [])
        assert store.workers() == []

    def test_wrk_2_a_consumer_is_entered_by_its_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        assert consume(store) == []
        [info] = store.workers()
        assert info == WorkerInfo(
            id="anna", host="here", pid=7, queues=("default", "mail"), slots=1,
            started_at=store.now(), heartbeat_at=store.now(), is_consumer=True,
        )  # fmt: skip
        clock.advance(10)
        submit(store, draft())
        far = Consumer(queues=("default",))
        lease_all(store, 5, worker="anna", consumer=far)
        [again] = store.workers()
        assert (again.host, again.pid, again.queues, again.slots) == (None, None, ("default",), 5)
        assert (again.started_at, again.heartbeat_at) == (info.started_at, store.now())
        assert again.running == 1

    def test_wrk_7_the_entry_says_which_tasks_it_knows(self, store: Store) -> None:
        info = msgspec.structs.replace(worker_info(store, "anna"), tasks=("work", "shop:*"))
        life = store.register_worker(info)
        lease_all(store, 5, worker="bert", tasks=("play",), consumer=Consumer(queues=("default",)))
        tasks = {each.id: each.tasks for each in store.workers()}
        assert tasks == {"anna": ("work", "shop:*"), "bert": ("play",)}
        lease_all(store, 5, worker="bert", consumer=Consumer(queues=("default",)))
        assert registered(store)["bert"].tasks == ()
        life.close()

    def test_wrk_2_who_says_nothing_is_not_entered(self, store: Store) -> None:
        submit(store, draft())
        lease_one(store, worker="anna")
        assert store.workers() == []

    def test_wrk_2_a_registered_worker_stays_what_it_is(self, store: Store) -> None:
        life = store.register_worker(worker_info(store, "anna"))
        before = registered(store)["anna"]
        consume(store)
        assert registered(store)["anna"] == before
        life.close()

    def test_wrk_2_a_renewal_is_a_sign_of_life(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        [lease] = consume(store)
        clock.advance(SILENT_SECONDS - 1)
        store.renew("anna", [Renewal("job", lease.version, 300)])
        settle(store, lease, Complete())
        clock.advance(SILENT_SECONDS - 1)
        assert registered(store)["anna"].heartbeat_at == store.now() - timedelta(
            seconds=SILENT_SECONDS - 1
        )

    def test_wrk_3_a_silent_consumer_is_gone(self, store: Store, clock: ManualClock) -> None:
        consume(store)
        clock.advance(SILENT_SECONDS)
        assert registered(store).keys() == {"anna"}
        clock.advance(1)
        assert store.workers() == []
        start = store.changes().cursor
        store.recover()
        gone = [each for each in store.changes(start).changes if each.kind == "worker"]
        assert [each.name for each in gone] == ["anna"], "the sweep has forgotten it"
        consume(store)
        assert registered(store)["anna"].started_at == store.now()

    def test_wrk_3_not_while_it_holds_a_lease(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(lease_seconds=600))
        [lease] = consume(store)
        clock.advance(SILENT_SECONDS * 3)
        store.recover()
        assert registered(store)["anna"].running == 1
        settle(store, lease, Complete())
        assert store.workers() == []

    def test_wrk_6_a_consumer_that_serves_nothing_more_is_gone(self, store: Store) -> None:
        consume(store)
        start = store.changes().cursor
        for _ in range(2):
            assert store.exchange((), FAREWELL).leases == []
            assert store.workers() == []
        told = [each for each in store.changes(start).changes if each.kind == "worker"]
        assert [each.name for each in told] == ["anna"]

    def test_wrk_6_not_while_a_lease_of_its_name_is_held(
        self, store: Store, clock: ManualClock
    ) -> None:
        consume(store)
        submit(store, draft())
        # Of the two consumers of this name, the other leases, and need not tell of itself again.
        lease = lease_one(store, worker="anna", lease_seconds=600)
        store.exchange((), FAREWELL)
        assert registered(store)["anna"].running == 1
        clock.advance(SILENT_SECONDS + 1)
        store.renew("anna", [Renewal("job", lease.version, 600)])
        assert registered(store)["anna"].heartbeat_at == store.now()
        # A job settled in the same write is not held any more.
        store.exchange([Settlement("job", lease.version, Complete())], FAREWELL)
        assert get(store).status is Status.COMPLETED
        assert store.workers() == []

    def test_wrk_6_the_entries_of_others_stay(self, store: Store) -> None:
        consume(store)
        life = store.register_worker(worker_info(store, "bert"))
        for worker, pid in (("anna", 8), ("bert", 7), ("cora", 7)):
            gone = Consumer(queues=(), host="here", pid=pid)
            store.exchange((), LeaseRequest(worker=worker, queues=(), limit=0, consumer=gone))
        assert registered(store).keys() == {"anna", "bert"}
        life.close()

    # -- stuck jobs --------------------------------------------------------------------------

    def test_stk_1_silent_or_running_for_too_long(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("busy", priority=70))
        [busy] = lease_all(store, worker="anna", lease_seconds=600)
        clock.advance(100)
        submit(store, draft("silent"))
        lease_one(store, worker="bert", lease_seconds=600)
        clock.advance(50)
        submit(store, draft("fresh"))
        lease_one(store, worker="cora", lease_seconds=600)
        store.renew("anna", [Renewal("busy", busy.version, 600)])

        def found(silent: float | None, running: float | None = None) -> list[str]:
            return [each.job_id for each in store.stuck(silent, running_seconds=running)]

        assert found(40) == ["silent"]
        assert found(None, 120) == ["busy"]
        assert found(40, 120) == ["silent", "busy"]
        assert found(None) == []
        assert found(None, 0) == ["silent", "busy", "fresh"]
        [job] = store.stuck(None, running_seconds=120)
        assert (job.worker, job.priority, job.lease_version) == ("anna", 70, busy.version)
        assert (job.started_at, job.heartbeat_at) == (busy.acquired_at, store.now())
