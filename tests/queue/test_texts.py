r"""Ids that are no UTF-8, such as "\udcff", are ids of no job, wherever one is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold import AsyncTaskQueue, JobNotFoundError, TaskQueue

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
