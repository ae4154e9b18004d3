"""The async face: the same queue, awaited, with no thread waiting."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from leasehold import (
    AsyncTaskQueue,
    DuplicateJobError,
    JobCancelledError,
    JobNotFoundError,
    NewJob,
    PayloadError,
    QueueClosedError,
    ResultTimeoutError,
    Status,
    TaskQueue,
    UnsupportedError,
)
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Exchange
from leasehold.core.model.records import Submitted
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import MemoryStore

WAIT = 30


def double(number: int) -> int:
    return number * 2


async def triple(number: int) -> int:
    return number * 3


def test_submit_and_result(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=2) as queue:
            job = await queue.submit(double, 4, priority="high")
            assert await job.result(WAIT) == 8
            assert await job.status() is Status.COMPLETED
            assert (await job.job()).priority == 75
            assert await job.progress() is None
            task = queue.task(name="triple")(triple)
            assert await (await task.submit(3)).result(WAIT) == 9
            assert await task(3) == 9
            assert await queue.get_result(job.id, WAIT) == 8

    asyncio.run(main())


@pytest.mark.parametrize("has_answered", [False, True])
def test_a_lease_whose_caller_is_cancelled_goes_back(url: str, has_answered: bool) -> None:
    """Also if it was granted, and only the event loop has not passed it on yet."""

    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            job = await queue.submit("t", max_retries=0)
            exchange = queue.queue.store.exchange
            begun, may_go_on, granted = threading.Event(), threading.Event(), threading.Event()

            def slow(*args: Any) -> Exchange:
                begun.set()
                may_go_on.wait(WAIT)
                answer = exchange(*args)
                granted.set()
                return answer

            queue.queue.store.exchange = slow  # type: ignore[assignment, method-assign]
            leasing = asyncio.ensure_future(queue.lease(wait=WAIT))
            await asyncio.to_thread(begun.wait, WAIT)
            queue.queue.store.exchange = exchange  # type: ignore[method-assign]
            if has_answered:
                may_go_on.set()
                assert granted.wait(WAIT)  # It blocks the loop, which so cannot pass it on.
            leasing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leasing
            may_go_on.set()
            await asyncio.to_thread(granted.wait, WAIT)
            # Whoever leases next gets it, once it is back, with all its attempts.
            lease = await queue.lease(wait=WAIT)
            assert lease is not None
            assert (lease.job_id, lease.attempt, lease.version) == (job.id, 1, 2)
            await queue.ack(lease)

    asyncio.run(main())


def test_a_queue_that_is_cancelled_while_it_starts_is_closed(url: str) -> None:
    """As by Ctrl-C in asyncio.run: there is no end of the block that would close it."""

    async def main() -> None:
        queue = AsyncTaskQueue(url, num_workers=1)
        begun, may_end = threading.Event(), threading.Event()

        def start() -> None:
            begun.set()
            may_end.wait(WAIT)

        queue.queue.start = start  # type: ignore[method-assign]
        entering = asyncio.ensure_future(queue.__aenter__())
        await asyncio.to_thread(begun.wait, WAIT)
        entering.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert repr(queue.queue).endswith("shut down)")

    there = set(threading.enumerate())  # Of queues that other tests have left to their end.
    asyncio.run(main())
    left = [each.name for each in threading.enumerate() if each not in there]
    assert [name for name in left if "leasehold" in name] == []


def test_a_queue_that_was_shut_down_is_opened_again_by_the_next_block(url: str) -> None:
    """As a web application's lifespan does it, once for each test client."""
    queue = AsyncTaskQueue(url, num_workers=1)
    twice = queue.task(name="double")(double)

    async def lifespan() -> None:
        async with queue:
            assert await (await twice.submit(4)).result(WAIT) == 8
            assert await queue.dead_letters.count() == 0
            assert [each async for each in queue.schedules] == []
            assert await queue.settings.get("poll_interval") == 5
            assert await queue.archive.search() == []
            assert [each async for each in queue.operations] == []
        calls: list[Callable[[], Awaitable[object]]] = [
            queue.get_queue_stats,
            queue.search,
            queue.prune,
            queue.dead_letters.count,
            lambda: queue.pause_queue("default"),
            lambda: twice.submit(4),
        ]
        for call in calls:
            with pytest.raises(QueueClosedError, match=r"queue.start\(\) opens it again"):
                await call()

    asyncio.run(lifespan())
    asyncio.run(lifespan())


def test_a_queue_that_is_interrupted_while_it_starts_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    queue = TaskQueue(url, num_workers=1)
    monkeypatch.setattr(queue, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), queue:
        pass
    assert repr(queue).endswith("shut down)")


def test_a_thousand_at_once_share_few_writes_and_no_threads(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=4) as queue:
            jobs = await asyncio.gather(*(queue.submit(double, number) for number in range(1000)))
            before = threading.active_count()
            waits = [asyncio.ensure_future(job.result(WAIT)) for job in jobs]
            await asyncio.sleep(0)
            assert threading.active_count() < before + 50
            assert await asyncio.gather(*waits) == [number * 2 for number in range(1000)]

    asyncio.run(main())


class SlowStore(MemoryStore):
    """Holds its first submit until it is let go, and remembers how many came in each."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.arrived = threading.Event()
        self.go = threading.Event()

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        self.sizes.append(len(drafts))
        self.arrived.set()
        assert self.go.wait(WAIT)
        return super().submit(drafts, partial=partial)


def test_what_waits_is_sent_in_one_write() -> None:
    store = SlowStore()

    async def main() -> None:
        queue = TaskQueue(store, num_workers=0)
        first = asyncio.ensure_future(queue.asubmit(double, 0))
        await asyncio.to_thread(store.arrived.wait, WAIT)
        others = [asyncio.ensure_future(queue.asubmit(double, number)) for number in range(500)]
        await asyncio.sleep(0)
        store.go.set()
        await asyncio.gather(first, *others)
        await queue.ashutdown()

    asyncio.run(main())
    assert store.sizes == [1, 500]


def test_one_bad_submit_fails_alone(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            answers = await asyncio.gather(
                queue.submit(double, 1, job_id="a"),
                queue.submit(double, 1, job_id="a"),
                queue.submit(double, 1, job_id="b"),
                queue.submit(double, object()),
                return_exceptions=True,
            )
            assert isinstance(answers[1], DuplicateJobError)
            assert isinstance(answers[3], PayloadError)
            assert (await queue.get_queue_stats())["pending"] == 2

    asyncio.run(main())


def test_waiting_ends_in_time_and_by_cancellation(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            job = await queue.submit(double, 1)
            with pytest.raises(ResultTimeoutError, match="pending"):
                await job.result(0)
            waiting = asyncio.ensure_future(job.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not queue.queue._waiters._waiting
            await job.cancel("no")
            with pytest.raises(JobCancelledError, match="no"):
                await job.result(WAIT)

    asyncio.run(main())


def test_the_consumer_api_can_be_awaited(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            assert await queue.lease(wait=0) is None
            waiting = asyncio.ensure_future(queue.lease(worker="me", wait=WAIT))
            await asyncio.sleep(0)
            job = await queue.submit(double, 2)
            lease = await waiting
            assert lease is not None
            assert lease.job_id == job.id
            assert (await queue.extend(lease)).job_id == job.id
            assert len(await queue.heartbeat([lease])) == 1
            assert (await queue.ack(lease, 4)).status is Status.COMPLETED
            assert await job.result(WAIT) == 4

    asyncio.run(main())


def test_looking_and_orders_can_be_awaited(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            jobs = await queue.submit_many([NewJob(double, (number,)) for number in range(150)])
            found = [job.id async for job in queue.search(task=double)]
            assert found == [job.id for job in reversed(jobs)]
            assert (await queue.reprioritize(jobs[3], "high")).priority == 75
            answers = await queue.submit_partly([NewJob(double, (object(),)), NewJob(double, (1,))])
            assert isinstance(answers[0], PayloadError)
            lease = await queue.lease(worker="camera", wait=0)
            assert lease is not None
            assert (await queue.nack(lease, "no", requeue=False)).status is Status.DEAD
            assert (await queue.replay(jobs[3])).status is Status.PENDING
            assert len(await queue.history(jobs[3])) > 2
            assert len(await queue.attempts(jobs[3])) == 1
            assert await queue.log(jobs[3]) == []
            assert [worker.id for worker in await queue.workers()] == ["camera"]
            assert (await queue.get(jobs[0])).id == jobs[0].id
            command = await queue.submit_command(["true"])
            assert (await command.job()).task == "command"
            await queue.cancel(jobs[0])
            assert [job.status for job in await queue.wait_all([jobs[0]], WAIT)] == [
                Status.CANCELLED
            ]

    asyncio.run(main())


def test_after_shutdown_nothing_is_accepted(url: str) -> None:
    async def main() -> None:
        queue = AsyncTaskQueue(url, num_workers=1)
        await queue.submit(double, 1)
        await queue.shutdown()
        with pytest.raises(QueueClosedError):
            await queue.submit(double, 1)

    asyncio.run(main())


def test_two_event_loops_share_one_queue(url: str) -> None:
    results: list[list[int]] = []
    with TaskQueue(url, num_workers=2) as queue:

        async def main() -> None:
            jobs = await asyncio.gather(*(queue.asubmit(double, number) for number in range(50)))
            results.append(await asyncio.gather(*(job.aresult(WAIT) for job in jobs)))

        threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [[number * 2 for number in range(50)]] * 2


def test_orders_about_several_jobs(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            await queue.submit("work", job_id="one")
            assert await queue.find_ids("o") == ["one"]
            raised, unknown = await queue.reprioritize_each(["one", "two"], "high")
            assert (getattr(raised, "priority", None), type(unknown)) == (75, JobNotFoundError)
            [cancelled] = await queue.cancel_each(["one"], "late")
            assert getattr(cancelled, "reason", None) == "late"
            [replayed] = await queue.replay_each(["one"], reset_attempts=True)
            assert getattr(replayed, "status", None) is Status.PENDING

    asyncio.run(main())


class BusyStore(MemoryStore):
    """Checks itself until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def check(self) -> list[str]:
        assert self.go.wait(WAIT)
        return []


def test_no_short_call_waits_behind_long_ones() -> None:
    store = BusyStore()

    async def main() -> None:
        async with AsyncTaskQueue(store, num_workers=0) as queue:
            # As many as there are threads for short calls.
            checks = [asyncio.ensure_future(queue.check()) for _ in range(4)]
            await asyncio.sleep(0)
            assert await asyncio.wait_for(queue.workers(), WAIT) == []
            assert not any(check.done() for check in checks)
            store.go.set()
            assert await asyncio.gather(*checks) == [[]] * 4

    asyncio.run(main())


def test_a_plain_function_is_refused_the_submit_that_it_cannot_await(url: str) -> None:
    """Its job would complete, and the other one would never exist."""

    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=1) as queue:
            mail = queue.task(name="mail")(double)
            first = await mail.submit(0)
            refusals: list[str] = []

            @queue.task(name="order")
            def order() -> str:
                for call in (
                    lambda: mail.options(priority="high").submit(1),
                    lambda: queue.get("x"),
                    lambda: queue.submit_partly([]),
                    lambda: queue.dead_letters.replay(first),
                    lambda: first.result(WAIT),
                ):
                    with pytest.raises(UnsupportedError) as caught:
                        call()
                    refusals.append(str(caught.value))
                return queue.queue.submit(mail.options(priority="high"), 4).id

            job = await order.submit()
            mailed = await queue.get(await job.result(WAIT))
            assert await queue.get_result(mailed.id, WAIT) == 8
            assert mailed.priority == 75
            assert refusals[0] == (
                f"job {job.id}: `double.submit()` is a coroutine here, and a task that is a plain "
                "function cannot await it: make the task `async def`, or use "
                "`queue.queue.submit(double, ...)`"
            )
            for words, refusal in zip(
                ("queue.queue.get(...)", "queue.queue", "queue.queue.dead_letters", "queue.wait"),
                refusals[1:],
                strict=True,
            ):
                assert words in refusal

    asyncio.run(main())


def test_code_of_a_task_that_can_await_makes_coroutines_as_ever(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=2) as queue:
            mail = queue.task(name="mail")(double)

            @queue.task(name="plain")
            def plain() -> str:
                async def within() -> str:
                    return (await mail.submit(1)).id

                return asyncio.run(within())

            @queue.task(name="awaits")
            async def awaits() -> str:
                loop = asyncio.get_running_loop()

                def on_another_thread() -> str:
                    made = asyncio.run_coroutine_threadsafe(mail.submit(1), loop)
                    return made.result(WAIT).id

                return await asyncio.to_thread(on_another_thread)

            for task in (plain, awaits):
                job = await task.submit()
                assert await queue.get_result(await job.result(WAIT), WAIT) == 2
            assert inspect.iscoroutinefunction(mail.submit)
            assert inspect.iscoroutinefunction(queue.wait)

    asyncio.run(main())
