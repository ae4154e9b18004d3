"""Waiting: race-free, by hints, with a slow poll under it, and calm in a flood of hints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from leasehold import Job, JobNotFoundError, QueueClosedError, Status
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import Listener
from leasehold.env import Env, ManualClock
from leasehold.queue.waiters import POLL_SECONDS, Ended, Waiters
from leasehold.stores.memory import MemoryStore
from support.interrupting import Interrupter

WAIT = 30


class QuietStore(MemoryStore):
    """Counts what is read, and can lose its hints."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.reads = 0
        self.read = threading.Semaphore(0)

    def get(self, job_id: str) -> Job | None:
        self.reads += 1
        self.read.release()
        return super().get(job_id)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return lambda: None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> QuietStore:
    return QuietStore(Env(clock))


@pytest.fixture
def waiters(store: QuietStore, clock: ManualClock) -> Iterator[Waiters]:
    waiters = Waiters(store, Env(clock))
    yield waiters
    waiters.close()


def finish(store: MemoryStore) -> str:
    [lease] = store.exchange((), LeaseRequest(worker="w")).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete(b"1"))])
    return lease.job_id


class Told:
    def __init__(self) -> None:
        self.outcomes: list[Ended] = []
        self.event = threading.Event()

    def __call__(self, outcome: Ended) -> None:
        self.outcomes.append(outcome)
        self.event.set()


def test_a_job_that_ended_before_is_told_at_once(store: QuietStore, waiters: Waiters) -> None:
    store.submit([Draft(id="a", task="t")])
    finish(store)
    told = Told()
    waiters.register("a", told)
    assert told.event.wait(WAIT)
    [job] = told.outcomes
    assert isinstance(job, Job)
    assert job.status is Status.COMPLETED


@pytest.mark.parametrize("named", [True, False])
def test_a_hint_with_or_without_ids_ends_the_wait(
    store: QuietStore, waiters: Waiters, named: bool
) -> None:
    store.submit([Draft(id="a", task="t")])
    told = Told()
    waiters.register("a", told)
    assert store.read.acquire(timeout=WAIT)
    waiters.on_ended(["b"] if named else None)
    finish(store)
    waiters.on_ended(["b", "a"] if named else None)
    assert told.event.wait(WAIT)
    assert len(told.outcomes) == 1


def test_a_lost_hint_is_found_by_the_slow_poll(
    store: QuietStore, waiters: Waiters, clock: ManualClock
) -> None:
    store.submit([Draft(id="a", task="t")])
    told = Told()
    waiters.register("a", told)
    assert store.read.acquire(timeout=WAIT)
    finish(store)
    while not told.event.wait(0.001):
        clock.advance(POLL_SECONDS)
    assert len(told.outcomes) == 1


def test_a_flood_of_hints_without_ids_is_gathered(store: QuietStore, waiters: Waiters) -> None:
    store.submit([Draft(id="a", task="t")])
    told = Told()
    waiters.register("a", told)
    assert store.read.acquire(timeout=WAIT)
    for _ in range(20_000):
        waiters.on_ended(None)
    finish(store)
    waiters.on_ended(None)
    assert told.event.wait(WAIT)
    # One look per hint would be 20,000; the flood lasts for a few breaths at most.
    assert store.reads < 2_000


def test_who_stops_waiting_is_not_told(store: QuietStore, waiters: Waiters) -> None:
    store.submit([Draft(id="a", task="t")])
    gone, stays = Told(), Told()
    waiters.register("a", gone)
    waiters.register("a", stays)
    waiters.forget("a", gone)
    finish(store)
    waiters.on_ended(["a"])
    assert stays.event.wait(WAIT)
    assert gone.outcomes == []


def test_a_callback_that_fails_does_not_hinder_the_others(
    store: QuietStore, waiters: Waiters
) -> None:
    def broken(outcome: Ended) -> None:
        raise RuntimeError("broken waiter")

    store.submit([Draft(id="a", task="t")])
    told = Told()
    waiters.register("a", broken)
    waiters.register("a", told)
    finish(store)
    waiters.on_ended(["a"])
    assert told.event.wait(WAIT)


def test_a_job_that_is_gone_is_not_waited_for(waiters: Waiters) -> None:
    told = Told()
    waiters.register("nobody", told)
    assert told.event.wait(WAIT)
    assert isinstance(told.outcomes[0], JobNotFoundError)


def test_closing_the_store_ends_the_waits(store: QuietStore, waiters: Waiters) -> None:
    store.submit([Draft(id="a", task="t")])
    told = Told()
    waiters.register("a", told)
    assert store.read.acquire(timeout=WAIT)
    store.close()
    waiters.on_ended(None)
    assert told.event.wait(WAIT)
    assert isinstance(told.outcomes[0], QueueClosedError)
    with pytest.raises(QueueClosedError):
        waiters.register("a", told)


def test_a_timed_wait_ends_when_the_clock_is_turned(
    store: QuietStore, waiters: Waiters, clock: ManualClock
) -> None:
    store.submit([Draft(id="a", task="t")])
    answers: list[dict[str, Ended]] = []
    thread = threading.Thread(target=lambda: answers.append(waiters.wait(["a"], 60)))
    thread.start()
    assert store.read.acquire(timeout=WAIT)
    while thread.is_alive():
        clock.advance(61)
        thread.join(0.001)
    assert answers == [{}]
    assert not waiters._waiting


@pytest.mark.parametrize("count", [3, 700])
def test_many_waits_end_by_any_hint_and_the_poll_finds_what_is_gone(
    store: QuietStore, waiters: Waiters, clock: ManualClock, count: int
) -> None:
    store.submit([Draft(id=f"job-{number}", task="t") for number in range(count)])
    tolds = {f"job-{number}": Told() for number in range(count)}
    for job_id, told in tolds.items():
        waiters.register(job_id, told)
    first, second, third = finish(store), finish(store), finish(store)
    waiters.on_ended([first])
    assert tolds[first].event.wait(WAIT)
    waiters.on_ended(None)
    assert tolds[second].event.wait(WAIT)
    assert tolds[third].event.wait(WAIT)
    if count > 3:
        [lease] = store.exchange((), LeaseRequest(worker="w")).leases
        store.exchange([Settlement(lease.job_id, lease.version, Complete())])
        store.discard([lease.job_id], actor="test")
        while not tolds[lease.job_id].event.wait(0.001):
            clock.advance(POLL_SECONDS)
        assert isinstance(tolds[lease.job_id].outcomes[0], JobNotFoundError)


def test_an_interrupt_at_any_instruction_leaves_waiters_that_can_be_closed(
    store: QuietStore, clock: ManualClock
) -> None:
    store.submit([Draft(id="job", task="t")])

    def wait(interrupter: Interrupter) -> None:
        waiters = Waiters(store, Env(clock))
        try:
            with interrupter.watching():
                waiters.register("job", lambda _: None)
        finally:
            waiters.close()

    counted = Interrupter()
    wait(counted)
    for at in range(counted.count):
        with pytest.raises(KeyboardInterrupt):
            wait(Interrupter([at]))
