"""LEA: which worker gets which job, and the terms of a lease."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.core.contract.store import Store
from leasehold.core.model.budget import PASSED_OVER_AT_ONCE
from leasehold.core.model.job import Draft, MetadataValue
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.status import Event, Status
from leasehold.env import Env, ManualClock
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    MakeStore,
    at_once,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)

drafts_in_order = st.lists(
    st.builds(
        draft,
        st.uuids().map(str),
        queue=st.sampled_from(["default", "other"]),
        task=st.sampled_from(["work", "play"]),
        parent_id=st.sampled_from([None, "family"]),
        priority=st.integers(0, 100) | st.sampled_from([25, 50]),
        delay_seconds=st.sampled_from([None, 0, 60]),
    ),
    max_size=25,
    unique_by=lambda each: each.id,
)
requests = st.lists(
    st.builds(
        LeaseRequest,
        worker=st.just("worker"),
        queues=st.sampled_from([("default",), ("other",), ("default", "other"), ("none",)]),
        limit=st.integers(1, 6),
        tasks=st.sampled_from([None, ("work",), ("work", "play"), ("rest",)]),
        except_lanes=st.sampled_from([(), (("default", "work"),)]),
        parent_id=st.sampled_from([None, "family"]),
    ),
    max_size=10,
)


def best(waiting: list[Draft], request: LeaseRequest) -> list[str]:
    """The oracle: look at every job, sort them all, take the first."""
    fitting = [
        each
        for each in waiting
        if each.queue in request.queues
        and request.wants(each.queue, each.task)
        and (request.parent_id is None or each.parent_id == request.parent_id)
        and not each.delay_seconds
    ]
    ordered = sorted(fitting, key=lambda each: (-each.priority, waiting.index(each)))
    return [each.id for each in ordered[: request.limit]]


class LeasingClauses(ConformanceBase):
    def test_lea_1_what_is_left_to_others_is_not_leased(self, store: Store) -> None:
        for name, queue, task in [("a", "default", "x"), ("b", "other", "x"), ("c", "other", "y")]:
            submit(store, draft(name, queue=queue, task=task))
        submit(store, draft("later", task="x", delay_seconds=60))
        request = LeaseRequest(
            worker="worker",
            queues=("default", "other"),
            limit=9,
            except_lanes=(("default", "x"), ("other", "y")),
        )
        assert [lease.job_id for lease in store.exchange([], request).leases] == ["b"]
        assert [lease.job_id for lease in lease_all(store, queues=("default",))] == ["a"]

    def test_lea_1_priority_then_order(self, store: Store) -> None:
        for name, priority in [("a", 10), ("b", 90), ("c", 50), ("d", 90), ("e", 100), ("f", 0)]:
            submit(store, draft(name, priority=priority))
        assert "".join(lease.job_id for lease in lease_all(store)) == "ebdcaf"

    # The factory makes a store for every example, and every store's own subclass runs this: the
    # fixture and the test are shared on purpose.
    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    @given(drafts=drafts_in_order, requests=requests)
    def test_lea_1_the_order_is_the_oracles(
        self, make_store: MakeStore, drafts: list[Draft], requests: list[LeaseRequest]
    ) -> None:
        store = make_store(Env(clock=ManualClock(), random=Random(7)))
        waiting = list(drafts)
        submit(store, *drafts)
        for request in requests:
            leases = [lease.job_id for lease in store.exchange(request=request).leases]
            assert leases == best(waiting, request)
            waiting = [each for each in waiting if each.id not in leases]
        assert store.check() == []
        store.close()

    def test_lea_1_a_job_that_comes_back_keeps_its_place(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"))
        settle(store, lease_one(store), Release())
        assert [lease.job_id for lease in lease_all(store)] == ["one", "two"]

    def test_lea_1_narrowed_to_nothing_is_nothing(self, store: Store) -> None:
        submit(store, draft())
        assert lease_all(store, tasks=()) == []
        assert lease_all(store, queues=()) == []
        assert lease_all(store, parent_id="nobody") == []
        assert len(lease_all(store)) == 1

    def test_lea_2_what_a_lease_is(self, store: Store) -> None:
        metadata: dict[str, MetadataValue] = {"tenant": "a"}
        submit(
            store,
            draft(
                payload=b"[1]", priority=70, queue="letters", timeout_seconds=3.0, parent_id="p",
                metadata=metadata, deadline=store.now() + timedelta(hours=1), max_retries=2,
            ),
        )  # fmt: skip
        now = store.now()
        lease = lease_one(store, worker="me", queues=("letters",), lease_seconds=60)
        assert lease == Lease(
            job_id="job", version=lease.version, worker="me", queue="letters", task="work",
            payload=b"[1]", codec="json", priority=70, attempt=1, allowance=3, acquired_at=now,
            expires_at=now + timedelta(seconds=60), lease_seconds=60, timeout_seconds=3.0,
            deadline=now + timedelta(hours=1), retry=draft().retry, metadata=metadata,
            parent_id="p",
        )  # fmt: skip
        assert lease.version >= 1
        job = get(store)
        assert (job.status, job.worker, job.attempts) == (Status.RUNNING, "me", 1)
        assert (job.lease_version, job.lease_acquired_at) == (lease.version, now)
        assert (job.lease_expires_at, job.heartbeat_at, job.started_at) == (
            lease.expires_at, now, now,
        )  # fmt: skip
        (attempt,) = store.attempts("job")
        assert (attempt.number, attempt.worker, attempt.ended_at) == (1, "me", None)

    def test_lea_2_the_jobs_own_lease_time_wins(self, store: Store) -> None:
        submit(store, draft(lease_seconds=7.5))
        lease = lease_one(store, lease_seconds=60)
        assert lease.lease_seconds == 7.5
        assert lease.expires_at == store.now() + timedelta(seconds=7.5)

    def test_lea_2_versions_only_grow(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(max_retries=2))
        versions = []
        for outcome in (Release(), FAILURE, FAILURE):
            lease = lease_one(store)
            versions.append(lease.version)
            settle(store, lease, outcome)
            clock.advance(RETRY_SECONDS)
        versions.append(lease_one(store).version)
        assert versions == sorted(set(versions))
        assert get(store).attempts == 3

    def test_lea_2_a_request_may_name_the_lease_per_task(self, store: Store) -> None:
        submit(store, draft("own", lease_seconds=7.0), draft("task"), draft("other", task="resize"))
        by_task = {"work": 50.0}
        leases = lease_all(store, lease_seconds=20.0, lease_seconds_by_task=by_task)
        assert [lease.lease_seconds for lease in leases] == [7.0, 50.0, 20.0]
        for lease in leases:
            assert (lease.expires_at - lease.acquired_at).total_seconds() == lease.lease_seconds

    def test_lea_3_never_two_leases_for_one_job(self, store: Store) -> None:
        store.submit([draft(f"job-{number}") for number in range(60)])

        def take(number: int) -> list[str]:
            taken: list[str] = []
            while leases := lease_all(store, limit=1 + number % 3, worker=f"worker-{number}"):
                taken += [lease.job_id for lease in leases]
            return taken

        taken = Counter(job_id for each in at_once(6, take) for job_id in each)
        assert taken == Counter(f"job-{number}" for number in range(60))

    def test_lea_4_nothing_before_its_time(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(delay_seconds=10, priority=100), draft("now", priority=0))
        exchange = store.exchange(request=LeaseRequest(worker="worker", limit=5))
        assert [lease.job_id for lease in exchange.leases] == ["now"]
        assert exchange.next_due_at == store.now() + timedelta(seconds=10)
        clock.advance(9.999999)
        assert lease_all(store) == []
        clock.advance(0.000001)
        assert lease_one(store).job_id == "job"
        assert events(store) == [Event.CREATED, Event.PROMOTED, Event.LEASED]

    def test_lea_4_a_retry_waits_its_time(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        settle(store, lease_one(store), FAILURE)
        clock.advance(RETRY_SECONDS - 0.001)
        assert lease_all(store) == []
        clock.advance(0.001)
        assert lease_one(store).attempt == 2

    def test_lea_4_what_became_due_takes_its_rank(self, store: Store, clock: ManualClock) -> None:
        submit(
            store, draft("first", delay_seconds=1), draft("urgent", delay_seconds=2, priority=99)
        )
        submit(store, draft("ready"))
        clock.advance(2)
        # The longest waiting job goes first, and a delay is no waiting.
        assert [lease.job_id for lease in lease_all(store)] == ["urgent", "ready", "first"]

    def test_lea_5_too_late_to_start(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(start_within_seconds=10, priority=99), draft("next"))
        clock.advance(10.000001)
        assert [lease.job_id for lease in lease_all(store, limit=1)] == ["next"]
        job = get(store)
        assert (job.status, job.attempts) == (Status.CANCELLED, 0)
        assert job.reason
        assert store.stats().cancelled == 1

    def test_lea_5_in_time_once_is_enough(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(start_within_seconds=10))
        clock.advance(10)
        # At the very moment it is not past it.
        store.recover()
        settle(store, lease_one(store), FAILURE)
        clock.advance(60)
        assert lease_one(store).attempt == 2

    def test_lea_6_as_many_as_asked_for(self, store: Store) -> None:
        store.submit([draft(f"job-{number}") for number in range(5)])
        assert len(lease_all(store, limit=3)) == 3
        assert len(lease_all(store, limit=3)) == 2
        exchange = store.exchange(request=LeaseRequest(worker="worker"))
        assert (exchange.leases, exchange.next_due_at) == ([], None)

    def test_lea_6_the_late_ones_do_not_count(self, store: Store, clock: ManualClock) -> None:
        store.submit([draft(f"late-{n}", start_within_seconds=1, priority=99) for n in range(4)])
        store.submit([draft(f"job-{n}") for n in range(3)])
        clock.advance(2)
        assert [lease.job_id for lease in lease_all(store, limit=3)] == ["job-0", "job-1", "job-2"]

    @pytest.mark.parametrize("key", [None, "tenant"])
    def test_lea_6_many_late_ones_are_left_to_the_next_exchange(
        self, store: Store, clock: ManualClock, key: str | None
    ) -> None:
        store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
        late = PASSED_OVER_AT_ONCE + 7
        store.submit(
            [draft(f"late-{n}", start_within_seconds=1, limit_key=key) for n in range(late)]
        )
        submit(store, draft("job", limit_key=key))
        clock.advance(2)
        first = store.exchange(request=LeaseRequest(worker="worker"))
        assert (first.leases, first.next_due_at) == ([], store.now())
        assert store.stats().cancelled == PASSED_OVER_AT_ONCE
        assert lease_one(store).job_id == "job"
        assert store.stats().cancelled == late
        assert store.check() == []

    def test_lea_7_settled_and_leased_in_one_exchange(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"))
        lease = lease_one(store)
        exchange = store.exchange(
            [Settlement("one", lease.version, Release())], LeaseRequest(worker="other")
        )
        (again,) = exchange.leases
        assert (again.job_id, again.worker, again.attempt) == ("one", "other", 1)
        assert again.version > lease.version
        exchange = store.exchange(
            [Settlement("one", again.version, Complete())], LeaseRequest(worker="other")
        )
        assert [each.job_id for each in exchange.leases] == ["two"]
