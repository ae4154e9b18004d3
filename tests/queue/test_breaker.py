"""Circuit breakers, as a task's author uses them."""

from __future__ import annotations

import pytest

from leasehold import Breaker, Status
from leasehold.core.model.job import Draft
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore
from leasehold.testing import drain, memory_queue
from leasehold.worker.leases import LeaseManager


def test_a_task_that_keeps_failing_is_held_back_and_probed() -> None:
    clock = ManualClock()
    queue = memory_queue(clock)
    server_is_up = False

    @queue.task(name="mail", max_retries=0, breaker=Breaker(failures=2, pause_seconds=60))
    def mail(number: int) -> int:
        if not server_is_up:
            raise ConnectionError("the mail server is down")
        return number

    jobs = [mail.submit(number) for number in range(5)]
    drain(queue)
    statuses = [job.status() for job in jobs]
    assert statuses == [Status.DEAD] * 2 + [Status.PENDING] * 3, "only two attempts were burnt"
    clock.advance(60)
    server_is_up = True
    drain(queue)
    assert [job.status() for job in jobs[2:]] == [Status.COMPLETED] * 3
    queue.shutdown()


def test_whoever_runs_jobs_in_a_loop_of_their_own_tells_the_breaker_too() -> None:
    clock = ManualClock()
    queue = memory_queue(clock)
    mail = queue.task(name="mail", breaker=Breaker(failures=2, pause_seconds=60))(len)
    for number in range(5):
        mail.submit([number])
    for error in (ConnectionError("down"), "no answer"):
        lease = queue.lease(wait=0)
        assert lease is not None
        queue.nack(lease, error, requeue=False)
    assert queue.lease(wait=0) is None, "the task is held back"
    assert list(queue.queue_info("default").held_until) == ["mail"]
    clock.advance(60)
    probe = queue.lease(wait=0)
    assert probe is not None
    assert queue.lease(wait=0) is None, "one job is let through as a probe"
    queue.nack(probe, "still down")
    assert queue.lease(wait=0) is None
    clock.advance(60)
    probe = queue.lease(wait=0)
    assert probe is not None
    queue.ack(probe)
    assert queue.lease(wait=0) is not None, "a success ends the hold"
    queue.shutdown()


def test_a_lease_manager_tells_the_breaker_it_was_given() -> None:
    store = MemoryStore(Env(clock=ManualClock()))
    store.submit([Draft(id=f"job-{number}", task="mail") for number in range(4)])
    breaker = Breaker(failures=2, pause_seconds=60)
    leases = LeaseManager(store, "me", breakers={"mail": breaker}.get)
    for _ in range(2):
        [lease] = leases.acquire()
        leases.fail(lease, ConnectionError("down"), retryable=False)
    assert leases.acquire() == []
    # One that was given none is asked for one with the failure, or there is none.
    other = LeaseManager(store, "me")
    store.submit([Draft(id=f"other-{number}", task="other") for number in range(3)])
    for given in (None, breaker, breaker):
        [lease] = other.acquire()
        other.fail(lease, ConnectionError("down"), retryable=False, breaker=given)
    info = store.queue_info("default")
    assert info is not None
    assert list(info.held_until) == ["mail", "other"]


def test_a_breaker_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="1 failure or more"):
        Breaker(failures=0)
    with pytest.raises(ValueError, match="pause_seconds"):
        Breaker(pause_seconds=float("nan"))
