"""Settings, all queues at a glance, and queues' own retention, as a TaskQueue's user sees them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold import (
    AsyncTaskQueue,
    Exponential,
    InvalidQueueError,
    InvalidRetentionError,
    InvalidSettingError,
    NewJob,
    QueueFullError,
    QueueRetention,
    QueueState,
    RetentionPolicy,
    Status,
    TaskQueue,
)
from leasehold.core.model.settings import DEFINITIONS
from leasehold.env import ManualClock

from .conftest import MakeQueue

PATIENCE = 30


# -- settings ----------------------------------------------------------------------------------


def test_a_setting_is_set_by_value_or_text_and_unset(still: TaskQueue) -> None:
    assert still.settings.get("max_retries") == 3
    assert still.settings.set("max_retries", 5).value == 5
    assert still.settings.set("backoff_max", "10m").value == 600
    assert still.settings.set("timeout_seconds", "none").value is None
    info = still.settings.info("max_retries")
    assert (info.value, info.stored, info.default, info.source) == (5, 5, 3, "stored")
    assert still.settings.unset("max_retries").source == "default"
    assert still.settings.get("max_retries") == 3


def test_the_list_tells_everything_about_each(still: TaskQueue) -> None:
    still.settings.set("lease_seconds", 90)
    infos = {info.name: info for info in still.settings}
    assert list(infos) == list(DEFINITIONS)
    lease = infos["lease_seconds"]
    assert (lease.text, lease.default_text, lease.source) == ("90s", "5m", "stored")
    assert lease.allowed.startswith("a duration from 1s to 1d")
    assert "heartbeat" in lease.help
    assert "at lease" in lease.acts
    assert all(info.source == "default" for info in infos.values() if info is not lease)


def test_the_default_is_the_stores_own(still: TaskQueue) -> None:
    by_kind = {"memory": 3600, "sqlite": 7 * 24 * 3600}
    kind = str(still.describe()["kind"])
    assert still.settings.get("retention_completed_seconds") == by_kind[kind]


def test_a_bad_one_is_refused_and_changes_nothing(still: TaskQueue) -> None:
    with pytest.raises(InvalidSettingError, match="did you mean 'max_retries'"):
        still.settings.get("max_retry")
    with pytest.raises(InvalidSettingError, match="cannot be 'soon'"):
        still.settings.set("lease_seconds", "soon")
    with pytest.raises(InvalidSettingError, match="cannot be -1"):
        still.settings.set("max_retries", -1)
    assert still.store.settings().values == {}
    assert still.audit_log() == []


def test_what_this_process_was_given_goes_before(make_queue: MakeQueue) -> None:
    retention = RetentionPolicy(completed_seconds=5)
    queue = make_queue(num_workers=0, lease_seconds=7, sweep_interval=8, retention=retention)
    for name, value in (("lease_seconds", 60), ("retention_completed_seconds", 70)):
        queue.settings.set(name, value)
    lease = queue.settings.info("lease_seconds")
    assert (lease.value, lease.stored, lease.source) == (7, 60, "given")
    assert queue.settings.get("sweep_interval") == 8
    assert queue.settings.get("retention_completed_seconds") == 5
    queue.submit("work")
    leased = queue.lease(wait=0)
    assert leased is not None
    assert leased.lease_seconds == 7


def test_what_is_more_particular_wins(still: TaskQueue) -> None:
    still.settings.set("max_retries", 7)
    still.settings.set("backoff_base", "2s")
    still.settings.set("timeout_seconds", "30s")
    still.create_queue("mail", max_retries=1)
    task = still.task(name="tasked", max_retries=2)(len)
    retries = [
        still.submit("work").job().max_retries,
        still.submit("work", queue="mail").job().max_retries,
        task.submit("x").job().max_retries,
        still.submit("work", max_retries=0, queue="mail").job().max_retries,
    ]
    assert retries == [7, 1, 2, 0]
    job = still.submit("work").job()
    assert (job.retry, job.timeout_seconds) == (Exponential(initial_seconds=2), 30)


def test_whoever_else_has_the_file_open_counts_with_it_at_once(tmp_path: Path) -> None:
    one, other = (TaskQueue(tmp_path / "jobs.db", num_workers=0) for _ in range(2))
    assert one.submit("work").job().max_retries == 3
    other.settings.set("max_retries", 8)
    assert one.submit("work").job().max_retries == 8
    assert one.settings.get("max_retries") == 8
    other.settings.unset("max_retries")
    assert one.submit("work").job().max_retries == 3
    one.shutdown()
    other.shutdown()


def test_a_running_worker_runs_by_it(queue: TaskQueue) -> None:
    @queue.task(name="overlong")
    def overlong() -> None:
        raise ConnectionError("again and again")

    queue.settings.set("max_retries", 1)
    queue.settings.set("backoff_base", "0s")
    ended = overlong.submit().wait(PATIENCE)
    assert (ended.status, ended.attempts) == (Status.DEAD, 2)


def test_a_consumer_sweeps_as_often_as_is_set(still: TaskQueue, clock: ManualClock) -> None:
    still.submit("work", lease_seconds=5)
    assert still.lease(wait=0) is not None
    clock.advance(11)
    assert still.lease(wait=0) is None
    still.settings.set("sweep_interval", "10s")
    # The lease before that still counts by what was known: its answer says that there is news.
    assert still.lease(wait=0) is None
    assert still.lease(wait=0) is not None


def test_every_change_names_who_made_it(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0, actor="ann")
    queue.settings.set("max_retries", 4)
    [record] = queue.audit_log()
    assert (record.actor, record.action) == ("ann", "set_setting")


# -- queues ------------------------------------------------------------------------------------


def test_all_queues_at_a_glance(still: TaskQueue) -> None:
    still.create_queue("mail", max_depth=9)
    still.pause_queue("mail")
    still.submit("work")
    default, mail = still.list_queues()
    assert (default.name, default.pending, default.counts[Status.PENDING]) == ("default", 1, 1)
    assert (mail.name, mail.state, mail.config.max_depth) == ("mail", QueueState.PAUSED, 9)
    assert [default.name, mail.name] == still.queues()


def test_a_queue_keeps_its_jobs_for_its_own_time(still: TaskQueue, clock: ManualClock) -> None:
    still.create_queue("brief", retention={"completed_seconds": 10})
    for queue in ("brief", "default"):
        still.submit("work", queue=queue, job_id=queue)
        lease = still.lease(queue, wait=0)
        assert lease is not None
        still.ack(lease)
    clock.advance(10)
    still.prune(force=True)
    assert [job.id for job in still.search()] == ["default"]
    assert [job.id for job in still.archive.search()] == ["brief"]
    config = still.update_queue("brief", retention=QueueRetention(dead_seconds=None)).config
    assert config.retention == QueueRetention(dead_seconds=None)
    assert still.update_queue("brief", retention=None).config.retention is None


def test_a_bad_retention_is_refused(still: TaskQueue) -> None:
    with pytest.raises(InvalidRetentionError, match="completed_seconds"):
        still.create_queue("mail", retention={"completed_seconds": -1})
    with pytest.raises(InvalidQueueError, match="no 'completed'; there are completed_seconds"):
        still.create_queue("mail", retention={"completed": 1})
    with pytest.raises(InvalidQueueError, match="must be a QueueRetention"):
        still.create_queue("mail", retention=RetentionPolicy())  # type: ignore[arg-type]
    assert still.queues() == []


# -- to be awaited -----------------------------------------------------------------------------


def test_the_same_to_be_awaited(url: str) -> None:
    async def main() -> None:
        queue = AsyncTaskQueue(url, num_workers=0)
        assert (await queue.settings.set("max_retries", "6")).value == 6
        assert await queue.settings.get("max_retries") == 6
        assert (await queue.settings.info("max_retries")).source == "stored"
        assert len(await queue.settings.list()) == len(DEFINITIONS)
        assert (await queue.settings.unset("max_retries")).value == 3
        await queue.create_queue("mail", retention={"dead_seconds": 5})
        assert [info.name for info in await queue.list_queues()] == ["mail"]
        await queue.shutdown()

    asyncio.run(main())


def test_many_jobs_wait_for_room_without_a_thread(url: str) -> None:
    async def main() -> None:
        queue = AsyncTaskQueue(url, num_workers=0)
        await queue.create_queue("default", max_depth=2)
        await queue.submit("first")
        jobs = [NewJob("second"), NewJob("third")]
        with pytest.raises(QueueFullError):
            await queue.submit_many(jobs)
        with pytest.raises(QueueFullError):
            await queue.submit_many(jobs, block=0.01)
        waiting = asyncio.create_task(queue.submit_many(jobs, block=True))
        while (await queue.get_queue_stats())["total_rejected"] < 6:
            assert not waiting.done()
        assert not waiting.done()
        lease = await queue.lease(wait=0)
        assert lease is not None
        handles = await asyncio.wait_for(waiting, PATIENCE)
        assert [(await handle.job()).task for handle in handles] == ["second", "third"]
        with pytest.raises(QueueFullError, match="do not fit"):
            await queue.submit_many(jobs * 2, block=True)
        assert len(await queue.queue.asubmit_many([])) == 0
        await queue.shutdown()

    asyncio.run(main())
