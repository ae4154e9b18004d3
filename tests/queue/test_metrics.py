"""Metrics as an application asks for them, in both tongues."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import pytest

from leasehold import (
    AsyncTaskQueue,
    InvalidWindowError,
    JobNotFoundError,
    QueueNotFoundError,
    TaskQueue,
)
from leasehold.env import Env, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def env(clock: ManualClock) -> Env:
    return Env(clock=clock, random=Random(5))


def test_figures_of_a_queue(env: Env, clock: ManualClock) -> None:
    with TaskQueue("memory://", num_workers=0, env=env) as queue:
        for number in range(4):
            queue.submit("mail", number, queue="mail")
        clock.advance(30)
        for _ in range(2):
            lease = queue.lease("mail")
            assert lease is not None
            clock.advance(1)
            queue.ack(lease)
        figures = queue.metrics("mail", window_seconds=600)
        assert (figures.completed, figures.pending) == (2, 2)
        assert figures.oldest_pending_age_seconds == 32
        assert queue.metrics("default").submitted == 0
        reads = (queue.metrics, queue.series, queue.daily, queue.get_queue_stats)
        for read in reads:
            with pytest.raises(QueueNotFoundError, match="no queue 'other'"):
                read("other")
        queue.create_queue("other")
        for read in reads:
            read("other")
        assert [point.completed for point in queue.series("mail", 3)] == [0, 0, 2]
        assert queue.daily(days=1)[0].submitted == 4
        with pytest.raises(InvalidWindowError, match="daily"):
            queue.metrics(window_seconds=10**6)


def test_an_estimated_start_follows_position_and_rate(env: Env, clock: ManualClock) -> None:
    with TaskQueue("memory://", num_workers=0, env=env) as queue:
        jobs = [queue.submit("mail", number) for number in range(16)]
        assert jobs[0].estimated_start() is None, "nobody has leased anything yet"
        for _ in range(6):
            clock.advance(5)
            lease = queue.lease()
            assert lease is not None
            queue.ack(lease)
        # One in five seconds, as far as one can see.
        now = clock.now()
        assert jobs[6].estimated_start() == now + timedelta(seconds=5)
        assert jobs[15].estimated_start() == now + timedelta(seconds=50)
        assert jobs[0].estimated_start() is None, "it has ended"
        queue.pause_queue("default")
        assert jobs[6].estimated_start() is None, "nothing is leased from a paused queue"
        queue.resume_queue("default")
        clock.advance(600)
        assert jobs[6].estimated_start() is None, "that was long ago"


def test_what_is_due_later_starts_when_it_is_due(env: Env, clock: ManualClock) -> None:
    with TaskQueue("memory://", num_workers=0, env=env) as queue:
        later = queue.submit("mail", 1, delay=90)
        assert later.estimated_start() == clock.now() + timedelta(seconds=90)
        blocked = queue.submit("mail", 2, depends_on=[later])
        assert blocked.estimated_start() is None
        with pytest.raises(JobNotFoundError):
            queue.estimated_start("nobody")


def test_the_same_to_be_awaited(env: Env, clock: ManualClock) -> None:
    async def main() -> None:
        async with AsyncTaskQueue("memory://", num_workers=0, env=env) as queue:
            first, second = [await queue.submit("mail", number) for number in range(2)]
            clock.advance(10)
            lease = await queue.lease(wait=0)
            assert lease is not None
            await queue.ack(lease)
            figures = await queue.metrics("default", window_seconds=60)
            assert (figures.completed, figures.pending) == (1, 1)
            assert (await queue.series(minutes=1))[0].leased == 1
            assert (await queue.daily(days=1))[0].completed == 1
            expected = clock.now() + timedelta(seconds=10)
            assert await second.estimated_start() == expected
            assert await queue.estimated_start(second.id) == expected
            assert await first.estimated_start() is None

    asyncio.run(main())
