"""Keeping leases alive in a loop of one's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from leasehold import (
    AsyncTaskQueue,
    Event,
    Lease,
    LeaseExpiredError,
    LeaseLostError,
    Status,
    StoreError,
    StoreUnavailableError,
    TaskQueue,
)
from leasehold.env import Env, ManualClock
from support.workers import MoodyStore

LEASE_SECONDS = 36_000.0
"""Longer than all the time that a test turns on, beat by beat."""


@pytest.fixture
def moody(clock: ManualClock) -> Iterator[MoodyStore]:
    store = MoodyStore(Env(clock))
    yield store
    store.close()


def hold(queue: TaskQueue, name: str = "job") -> Lease:
    queue.submit("work", job_id=name)
    lease = queue.lease(worker="me", lease_seconds=LEASE_SECONDS)
    assert lease is not None
    return lease


def until(clock: ManualClock, condition: Callable[[], bool]) -> None:
    """Let time pass, beat by beat, until something has happened in another thread."""
    pause = threading.Event()
    for _ in range(10_000):
        if condition():
            return
        clock.advance(1)
        pause.wait(0.005)
    pytest.fail("it did not happen")


def beating() -> int:
    """How many heartbeats of consumer `me` there are."""
    return sum(each.name == "me-heartbeat" for each in threading.enumerate())


def test_it_renews_while_the_block_runs(still: TaskQueue, clock: ManualClock) -> None:
    lease = hold(still)
    with still.keep_alive(lease) as kept:
        assert beating() == 1
        until(clock, lambda: still.get("job").lease_expires_at != lease.expires_at)
        assert (kept.is_lost, kept.lost, kept.cancel_requested) == (False, None, None)
        kept.raise_if_lost()
    assert beating() == 0
    assert still.ack(lease).status is Status.COMPLETED


def test_it_says_when_the_lease_is_lost(still: TaskQueue, clock: ManualClock) -> None:
    lease = hold(still)
    told: list[LeaseLostError | StoreError] = []
    with still.keep_alive(lease, on_lost=told.append) as kept:
        still.requeue_stuck(silent_seconds=0)
        until(clock, lambda: bool(told))
        assert told == [kept.lost]
        with pytest.raises(LeaseLostError):
            kept.raise_if_lost()
        with pytest.raises(LeaseLostError):
            still.ack(lease)
    assert beating() == 0
    assert len(told) == 1


def test_it_passes_a_wish_to_stop_on(still: TaskQueue, clock: ManualClock) -> None:
    with still.keep_alive(hold(still)) as kept:
        still.cancel("job", "no need")
        until(clock, lambda: kept.cancel_requested is not None)
        assert kept.cancel_requested == "no need"
        assert not kept.is_lost


def test_a_lease_that_is_over_is_refused_at_once(still: TaskQueue, clock: ManualClock) -> None:
    lease = hold(still)
    clock.advance(LEASE_SECONDS)
    with pytest.raises(LeaseExpiredError), still.keep_alive(lease):
        pytest.fail("it is not held")
    assert beating() == 0


def test_an_older_lease_is_renewed_before_the_block_begins(
    still: TaskQueue, clock: ManualClock
) -> None:
    lease = hold(still)
    clock.advance(LEASE_SECONDS / 2)
    with still.keep_alive(lease):
        assert still.get("job").heartbeat_at == still.now()


def test_what_is_settled_inside_is_renewed_no_more(still: TaskQueue, clock: ManualClock) -> None:
    lease = hold(still)
    with still.keep_alive(lease) as kept:
        still.ack(lease, "done")
        assert beating() == 0
        clock.advance(120)
    assert not kept.is_lost
    events = [event.event for event in still.history("job")]
    assert events == [Event.CREATED, Event.LEASED, Event.COMPLETED]


def test_leases_of_one_consumer_share_a_heartbeat(still: TaskQueue, clock: ManualClock) -> None:
    one, two = hold(still, "one"), hold(still, "two")
    with still.keep_alive(one):
        with still.keep_alive(two):
            assert beating() == 1
            until(clock, lambda: still.get("two").lease_expires_at != two.expires_at)
            assert still.get("one").heartbeat_at == still.get("two").heartbeat_at
        assert beating() == 1
    assert beating() == 0


def test_a_settlement_that_the_store_refuses_leaves_it_kept(moody: MoodyStore) -> None:
    queue = TaskQueue(moody, num_workers=0)
    lease = hold(queue)
    with queue.keep_alive(lease) as kept:
        moody.refused.add("exchange")
        with pytest.raises(StoreUnavailableError):
            queue.ack(lease)
        assert beating() == 1
        moody.refused.clear()
        assert queue.nack(lease, "no paper").status is Status.FAILED
        assert (beating(), kept.is_lost) == (0, False)
    queue.shutdown()


def test_shutting_down_ends_the_heartbeats(still: TaskQueue) -> None:
    with still.keep_alive(hold(still)):
        still.shutdown()
        assert beating() == 0


def test_it_can_be_awaited(url: str) -> None:
    async def consume() -> Status:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            await queue.submit("work", job_id="job")
            lease = await queue.lease(worker="me")
            assert lease is not None
            async with queue.keep_alive(lease) as kept:
                assert beating() == 1
                kept.raise_if_lost()
                settled = await queue.ack(lease)
            assert beating() == 0
            return settled.status

    assert asyncio.run(consume()) is Status.COMPLETED
