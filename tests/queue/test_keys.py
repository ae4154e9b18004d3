"""Limits per key, as a TaskQueue's user sees them."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from leasehold import (
    Every,
    InvalidJobError,
    NewJob,
    RateLimitedError,
    ReasonKind,
    TaskQueue,
    Workflow,
)
from leasehold.core.model.records import WorkerInfo

from .conftest import MakeQueue


def test_the_key_goes_with_a_job_whichever_way_it_is_submitted(still: TaskQueue) -> None:
    @still.task(name="work")
    def work() -> None: ...

    jobs = [
        still.submit("send", limit_key="a"),
        *still.submit_many([NewJob("send", limit_key="a")]),
        work.options(limit_key="a").submit(),
    ]
    assert [job.job().limit_key for job in jobs] == ["a"] * 3
    assert work.submit().job().limit_key is None
    with pytest.raises(InvalidJobError, match="limit_key"):
        still.submit("send", limit_key="")


def test_schedules_and_workflows_pass_it_on(still: TaskQueue) -> None:
    still.schedule("often", "send", Every(60), limit_key="a")
    assert still.schedules.run("often").job().limit_key == "a"
    flow = Workflow()
    flow.add("one", NewJob("send", limit_key="b"))
    run = still.submit_workflow(flow)
    assert run["one"].job().limit_key == "b"


def test_why_names_the_key(still: TaskQueue) -> None:
    still.create_queue("mail", key_concurrency=2)
    jobs = [still.submit("send", n, queue="mail", limit_key="tenant-7") for n in range(3)]
    other = still.submit("send", queue="mail", limit_key="tenant-8")
    still.lease_many(2, "mail", worker="me", wait=0)
    now = still.store.now()
    still.store.register_worker(
        WorkerInfo(
            id="w", host="h", pid=1, queues=("mail",), slots=9, started_at=now, heartbeat_at=now
        )
    )
    reason = still.why(jobs[2])
    assert reason.kind is ReasonKind.KEY_LIMIT_REACHED
    assert "Key 'tenant-7' has 2 of 2 jobs running in queue 'mail'" in str(reason)
    assert reason.details["running"] == 2
    assert still.why(other).kind is not ReasonKind.KEY_LIMIT_REACHED
    still.update_queue("mail", key_concurrency=None)
    assert still.why(jobs[2]).kind is ReasonKind.NEXT


def test_a_rate_per_key(still: TaskQueue) -> None:
    still.create_queue("mail", key_rate_per_second=1)
    for _ in range(2):
        still.submit("send", queue="mail", limit_key="a")
    with pytest.raises(RateLimitedError, match="key 'a'") as caught:
        still.submit("send", queue="mail", limit_key="a")
    assert caught.value.retry_after_seconds is not None
    still.submit("send", queue="mail", limit_key="b")


def test_workers_run_one_tenant_beside_the_other(make_queue: MakeQueue) -> None:
    """A tenant that came first, with many jobs, leaves slots to the next: its jobs wait for theirs,
    so without the limit this would never end.
    """
    queue = make_queue(num_workers=3)
    queue.create_queue("default", key_concurrency=2)
    full = threading.Event()
    done = threading.Event()
    lock = threading.Lock()
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    @queue.task(name="work")
    def work(tenant: str) -> None:
        with lock:
            running[tenant] += 1
            most[tenant] = max(most[tenant], running[tenant])
            if running["big"] == 2:
                full.set()
        if tenant == "small":
            assert full.wait(30), "the big tenant never had its two slots"
            done.set()
        assert done.wait(30), "the small tenant never had a turn"
        with lock:
            running[tenant] -= 1

    jobs = [work.options(limit_key="big").submit("big") for _ in range(10)]
    small = work.options(limit_key="small").submit("small")
    small.result(timeout=30)
    for job in jobs:
        job.result(timeout=30)
    assert most == {"big": 2, "small": 1}
