"""The memory store: the contract, and what is its own."""

from __future__ import annotations

import gc
import logging
import sys
from random import Random

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import QueueFullError, UnsupportedError
from leasehold.stores.memory import MemoryStore
from leasehold.testing.conformance import MakeStore, StoreConformance

HOUR = 3600


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        return MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def env(clock: ManualClock) -> Env:
    return Env(clock=clock, random=Random(7))


def drafts(count: int, prefix: str = "job", **options: object) -> list[Draft]:
    return [Draft(id=f"{prefix}-{n}", task="work", **options) for n in range(count)]  # type: ignore[arg-type]


def run_all(store: MemoryStore) -> None:
    leases = store.exchange(request=LeaseRequest(worker="worker", limit=10_000)).leases
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])


def stored(store: MemoryStore) -> set[str]:
    return {job.id for job in store.search(JobFilter(), limit=10_000).jobs}


def test_groups_that_are_done_leave_no_heaps_behind(env: Env) -> None:
    store = MemoryStore(env)
    # The first narrowed lease finds entries in the heap that are forgotten already.
    store.submit(drafts(9))
    store.cancel(["job-3", "job-5"], reason="", actor="me")
    for group in range(300):
        store.submit(drafts(2, prefix=f"group-{group}", parent_id=f"parent-{group}"))
        narrowed = LeaseRequest(worker="worker", parent_id=f"parent-{group}", limit=1)
        assert len(store.exchange(request=narrowed).leases) == 1
        run_all(store)
    assert store.heap().health == 1.0
    assert store.check() == []
    assert store._state.queues["default"].lanes._narrow == {}


def test_the_capacity_limits_what_has_not_ended(env: Env) -> None:
    store = MemoryStore(env, capacity=10)
    store.submit(drafts(8))
    with pytest.raises(QueueFullError, match="10 jobs"):
        store.submit(drafts(3, prefix="more"))
    assert store.stats().rejected == 3
    assert store.stats().counts[Status.PENDING] == 8
    answers = store.submit(drafts(3, prefix="more"), partial=True)
    assert [isinstance(answer, QueueFullError) for answer in answers] == [False, False, True]
    assert store.stats().rejected == 4
    run_all(store)
    assert len(store.submit(drafts(10, prefix="next"))) == 10
    assert store.check() == []


def test_what_has_ended_is_limited_too(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env, capacity=10)
    for batch in range(3):
        store.submit(drafts(5, prefix=f"batch-{batch}"))
        run_all(store)
        clock.advance(1)
    assert stored(store) == {f"batch-{batch}-{number}" for batch in (1, 2) for number in range(5)}
    assert store.stats().cleaned == 5
    assert store.check() == []


def test_dead_letters_are_not_forgotten_to_make_room(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env, capacity=3, retention=RetentionPolicy(dead_seconds=None))
    broken = Fail(JobError("ValueError", "a bug"), retryable=False)
    store.submit(drafts(3, prefix="dead"))
    for lease in store.exchange(request=LeaseRequest(worker="w", limit=2)).leases:
        store.exchange([Settlement(lease.job_id, lease.version, broken)])
    for number in range(3):
        clock.advance(1)
        complete_next(store)
        store.submit(drafts(1, prefix=f"next-{number}"))
    assert stored(store) == {"dead-0", "dead-1", "next-1-0", "next-2-0"}
    [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
    store.exchange([Settlement(lease.job_id, lease.version, broken)])
    # They fill it: nothing is forgotten for them, and nothing is accepted that could die too.
    with pytest.raises(QueueFullError, match="dead letters") as full:
        store.submit(drafts(1, prefix="more"))
    assert full.value.retry_after_seconds is not None
    store.discard(["dead-0"], actor="me")
    store.submit(drafts(1, prefix="more"))
    with pytest.raises(QueueFullError, match="do not fit") as full:
        store.submit(drafts(4, prefix="many"))
    assert full.value.retry_after_seconds is None
    assert store.check() == []


def test_a_store_may_have_no_limit_but_not_a_silly_one(env: Env) -> None:
    assert len(MemoryStore(env, capacity=None).submit(drafts(20))) == 20
    with pytest.raises(ValueError, match="at least 1"):
        MemoryStore(env, capacity=0)


def ended(store: MemoryStore) -> None:
    """One job completed, one dead, one cancelled."""
    store.submit([Draft(id=name, task="work") for name in ("completed", "dead", "cancelled")])
    store.cancel(["cancelled"], reason="", actor="me")
    (completed, dead) = store.exchange(request=LeaseRequest(worker="w", limit=2)).leases
    fatal = Fail(JobError("ValueError", "a bug"), retryable=False)
    store.exchange(
        [
            Settlement("completed", completed.version, Complete()),
            Settlement("dead", dead.version, fatal),
        ]
    )


def test_ended_jobs_are_forgotten_in_time(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env)
    ended(store)
    for seconds, left in [
        (0.5 * HOUR - 1, {"completed", "dead", "cancelled"}),
        (1, {"completed", "dead"}),
        (0.5 * HOUR, {"dead"}),
        (HOUR - 1, {"dead"}),
        (1, set()),
    ]:
        clock.advance(seconds)
        assert stored(store) == left
    assert store.stats().cleaned == 3
    assert store.check() == []


def test_retention_can_be_changed(env: Env, clock: ManualClock) -> None:
    retention = RetentionPolicy(completed_seconds=10, dead_seconds=None, cancelled_seconds=None)
    store = MemoryStore(env, retention=retention)
    ended(store)
    clock.advance(1000 * HOUR)
    assert stored(store) == {"dead", "cancelled"}


def test_a_replayed_job_is_not_forgotten(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env)
    ended(store)
    store.replay(["dead"], reset_attempts=True, actor="me")
    clock.advance(3 * HOUR)
    assert stored(store) == {"dead"}


def test_many_old_jobs_are_forgotten_a_batch_at_a_time(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env)
    store.submit(drafts(2500))
    run_all(store)
    clock.advance(HOUR)
    left = []
    for _ in range(3):
        clock.advance(0.000001)
        left.append(store.stats().counts[Status.COMPLETED])
    assert left == [1500, 500, 0]


def test_a_key_outlives_its_forgotten_job(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env)
    store.submit([Draft(id="one", task="work", idempotency_key="key")])
    run_all(store)
    clock.advance(2 * HOUR)
    assert stored(store) == set()
    (answer,) = store.submit([Draft(id="two", task="work", idempotency_key="key")])
    assert not isinstance(answer, Exception)
    assert (answer.id, answer.status, answer.is_duplicate) == ("one", Status.COMPLETED, True)
    clock.advance(22 * HOUR)
    store.submit([Draft(id="three", task="work", idempotency_key="key")])
    assert stored(store) == {"three"}


def test_a_forgotten_jobs_versions_are_not_granted_again(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env)
    store.submit(drafts(1))
    (lease,) = store.exchange(request=LeaseRequest(worker="worker")).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])
    clock.advance(2 * HOUR)
    store.submit(drafts(1))
    (again,) = store.exchange(request=LeaseRequest(worker="worker")).leases
    assert again.version > lease.version


def test_a_store_that_is_dropped_leaves_no_jobs_behind(env: Env) -> None:
    # Records are hidden from the garbage collector, so nothing in them may lead back to them.
    waiting, running = drafts(2)
    before = sys.getrefcount(waiting), sys.getrefcount(running)
    store = MemoryStore(env)
    store.submit([running, waiting])
    store.exchange(request=LeaseRequest(worker="worker", tasks=("work",)))
    assert sys.getrefcount(waiting) > before[0]
    del store
    gc.collect()
    assert (sys.getrefcount(waiting), sys.getrefcount(running)) == before


def test_what_it_cannot_do_it_says(env: Env) -> None:
    store = MemoryStore(env)
    with pytest.raises(UnsupportedError, match="backed up"):
        store.backup("copy.db", actor="me")


def test_what_unfinished_jobs_depend_on_is_not_forgotten(env: Env, clock: ManualClock) -> None:
    store = MemoryStore(env, capacity=3)
    store.submit([Draft(id="a", task="work"), Draft(id="b", task="work", depends_on=("a",))])
    complete_next(store)
    clock.advance(2 * 3600)
    for number in range(5):
        store.submit([Draft(id=f"other-{number}", task="work", priority=90)])
        complete_next(store)
    assert store.get("a") is not None
    assert store.get("other-0") is None
    complete_next(store)
    clock.advance(2 * 3600)
    assert (store.get("a"), store.get("b"), store.check()) == (None, None, [])


def complete_next(store: MemoryStore) -> None:
    [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])


def test_no_death_can_be_proved_in_one_process(env: Env) -> None:
    store = MemoryStore(env)
    info = WorkerInfo(
        id="worker", host="here", pid=1, queues=(), slots=1,
        started_at=env.now(), heartbeat_at=env.now(),
    )  # fmt: skip
    life = store.register_worker(info)
    assert life.lock_fd is None
    store.close()
    life.close()


class BrokenListener:
    def on_ready(self) -> None:
        raise RuntimeError("deaf")

    def on_ended(self, job_ids: object) -> None: ...

    def on_cancel_requested(self, job_ids: object) -> None: ...


def test_a_broken_listener_is_reported_and_hurts_nobody(
    env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(env)
    store.subscribe(BrokenListener())
    with caplog.at_level(logging.ERROR):
        assert len(store.submit(drafts(1))) == 1
    assert "deaf" in caplog.text


def test_check_sees_damage(env: Env) -> None:
    store = MemoryStore(env)
    store.submit(drafts(2))
    assert store.check() == []
    store._state.records["job-0"].status = Status.RUNNING
    store._state.records["job-1"].attempts = 99
    problems = " ".join(store.check())
    assert "job-0 is running, against the list" in problems
    assert "history of job job-0" in problems
    assert "job-1 had 99 attempts of 4" in problems
    assert "queue default counts" in problems


def test_a_lease_time_that_is_no_number_settles_nothing(env: Env) -> None:
    store = MemoryStore(env)
    store.submit(drafts(1))
    (lease,) = store.exchange(request=LeaseRequest(worker="worker")).leases
    with pytest.raises(ValueError, match="lease_seconds must be above 0"):
        store.exchange(
            [Settlement(lease.job_id, lease.version, Complete())],
            LeaseRequest(worker="worker", lease_seconds=float("nan")),
        )
    job = store.get(lease.job_id)
    assert job is not None
    assert job.status is Status.RUNNING
