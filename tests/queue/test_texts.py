r"""Ids that are no UTF-8, such as "\udcff", are ids of no job, wherever one is taken; names that
no queue can have are refused alike on every store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold import AsyncTaskQueue, InvalidQueueError, JobNotFoundError, TaskQueue
from leasehold.errors import InvalidJobError
from leasehold.stores.memory import MemoryStore
from service.conftest import serving

NO_TEXT = "caf\udce9"
CALLS: dict[str, Callable[[TaskQueue], object]] = {
    "get": lambda queue: queue.get(NO_TEXT),
    "wait": lambda queue: queue.wait(NO_TEXT),
    "wait_several": lambda queue: queue.wait(["one", NO_TEXT]),
    "get_result": lambda queue: queue.get_result(NO_TEXT),
    "history": lambda queue: queue.history(NO_TEXT),
    "why": lambda queue: queue.why(NO_TEXT),
    "graph": lambda queue: queue.graph(NO_TEXT),
    "cancel": lambda queue: queue.cancel(NO_TEXT),
    "replay": lambda queue: queue.replay(NO_TEXT),
    "discard": lambda queue: queue.discard(NO_TEXT),
    "reprioritize": lambda queue: queue.reprioritize(NO_TEXT, 1),
    "archive": lambda queue: queue.archive.get(NO_TEXT),
}


@pytest.mark.parametrize("store", ["memory://", "jobs.db"])
@pytest.mark.parametrize("call", CALLS)
def test_no_job_has_it(
    store: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with TaskQueue(store, num_workers=0) as queue:
        queue.submit("t", job_id="one")
        with pytest.raises(JobNotFoundError, match="UTF-8"):
            CALLS[call](queue)
        assert queue.cancel("one").id == "one"


@pytest.mark.parametrize("store", ["memory://", "jobs.db"])
def test_it_does_not_spoil_the_others(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with TaskQueue(store, num_workers=0) as queue:
        queue.submit("t", job_id="one")
        queue.submit("t", job_id="two")
        changed = queue.reprioritize_each(["one", NO_TEXT, "two"], 7)
        cancelled = queue.cancel_each(["one", NO_TEXT, "two"])
        for answers in (changed, cancelled):
            assert isinstance(answers[1], JobNotFoundError)
            assert [getattr(each, "id", None) for each in answers] == ["one", None, "two"]
        assert queue.wait("one", 5).is_terminal


def test_it_is_not_awaited_for_ever(tmp_path: Path) -> None:
    async def wait() -> None:
        queue = AsyncTaskQueue(tmp_path / "jobs.db", num_workers=0)
        try:
            await queue.get_result(NO_TEXT)
        finally:
            await queue.shutdown()

    with pytest.raises(JobNotFoundError):
        asyncio.run(wait())


OF_QUEUES: dict[str, Callable[[TaskQueue, str], object]] = {
    "lease": lambda queue, name: queue.lease(name, "w", wait=0),
    "lease_many": lambda queue, name: queue.lease_many(2, ["mail", name], "w", wait=0),
    "peek": lambda queue, name: queue.peek(name),
    "create_queue": lambda queue, name: queue.create_queue(name, max_depth=1),
    "update_queue": lambda queue, name: queue.update_queue(name, max_depth=1),
    "queue_info": lambda queue, name: queue.queue_info(name),
    "key_info": lambda queue, name: queue.key_info(name, "tenant"),
    "pause_queue": lambda queue, name: queue.pause_queue(name),
    "resume_queue": lambda queue, name: queue.resume_queue(name),
    "drain_queue": lambda queue, name: queue.drain_queue(name),
    "purge_queue": lambda queue, name: queue.purge_queue(name),
    "delete_queue": lambda queue, name: queue.delete_queue(name),
}
OF_TASKS: dict[str, Callable[[TaskQueue], object]] = {
    "submit": lambda queue: queue.submit(NO_TEXT),
    "lease": lambda queue: queue.lease("mail", "w", tasks=["send", NO_TEXT], wait=0),
}


@pytest.fixture(params=["memory", "sqlite", "http"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TaskQueue]:
    if request.param == "http":
        with (
            serving(MemoryStore(), insecure=True) as service,
            TaskQueue(service.url, num_workers=0) as queue,
        ):
            yield queue
        return
    url = "memory://" if request.param == "memory" else tmp_path / "jobs.db"
    with TaskQueue(url, num_workers=0) as queue:
        yield queue


def test_a_name_that_no_queue_can_have_is_refused_alike(anywhere: TaskQueue) -> None:
    for name, why in (
        (NO_TEXT, "must be a non-empty printable string"),
        ("a\x00b", "must be a non-empty printable string"),
        ("", "must be a non-empty printable string"),
        ("y" * 300, "at most 255 characters, not 300"),
    ):
        for call in OF_QUEUES.values():
            with pytest.raises(InvalidQueueError, match=rf"^a queue's name .*{why}"):
                call(anywhere, name)
    assert anywhere.workers() == [], "nobody is registered for such a queue"


@pytest.mark.parametrize("name", [NO_TEXT, "a\x00b", "", "y" * 300], ids=ascii)
def test_no_worker_serves_a_queue_that_there_cannot_be(anywhere: TaskQueue, name: str) -> None:
    with pytest.raises(InvalidQueueError, match=r"^a queue's name"):
        TaskQueue(anywhere.store, queues=["mail", name], num_workers=0)
    with pytest.raises(InvalidQueueError, match=r"^a queue's name"):
        anywhere.run_worker(queues=[name])
    assert anywhere.workers() == []


def test_a_name_that_no_task_can_have_is_refused_alike(anywhere: TaskQueue) -> None:
    for call in OF_TASKS.values():
        with pytest.raises(InvalidJobError, match=r"^task must not contain control characters"):
            call(anywhere)


def test_a_lease_that_was_refused_for_its_name_hinders_no_other(anywhere: TaskQueue) -> None:
    anywhere.submit("send", queue="mail", job_id="one")
    with pytest.raises(InvalidQueueError):
        anywhere.lease(NO_TEXT, "w", wait=0)
    lease = anywhere.lease("mail", "w", wait=0)
    assert lease is not None
    assert [worker.queues for worker in anywhere.workers()] == [("mail",)]


def test_a_service_is_asked_nothing_that_is_no_text() -> None:
    """The refusal is that of a database, and says nothing of verbs that no caller knows."""
    with (
        serving(MemoryStore(), insecure=True) as service,
        TaskQueue(service.url, num_workers=0) as queue,
        pytest.raises(InvalidJobError, match=r"^only UTF-8 text can be stored or looked for"),
    ):
        queue.key_info("mail", NO_TEXT)
