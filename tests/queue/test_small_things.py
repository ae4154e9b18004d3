"""Small things that a newcomer meets: names, options and stores that are not what they seem."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold import (
    InvalidJobError,
    QueueFullError,
    TaskQueue,
    UnsupportedError,
)
from leasehold.core.contract.completeness import missing_methods
from leasehold.core.contract.store import Store
from leasehold.stores.memory import MemoryStore


@pytest.fixture
def queue() -> TaskQueue:
    return TaskQueue("memory://", num_workers=0)


def test_a_name_that_is_none_is_refused_in_words(queue: TaskQueue) -> None:
    orders: tuple[Any, ...] = (
        queue.pause_queue, queue.resume_queue, queue.drain_queue, queue.update_queue,
        queue.delete_queue, queue.purge_queue, queue.queue_info, queue.metrics,
    )  # fmt: skip
    for order in orders:
        with pytest.raises(TypeError, match=r"^(name|queue) must be text, not 0$"):
            order(0)


def test_a_task_may_wait_for_room(queue: TaskQueue) -> None:
    queue.create_queue("small", max_depth=1)
    task = queue.task(name="work", queue="small")(print)
    patient = task.options(block=0.01)
    patient.submit()
    with pytest.raises(QueueFullError, match="small"):
        patient.submit()
    with pytest.raises(QueueFullError):
        patient.options(block=False).submit()
    with pytest.raises(InvalidJobError, match="submit_many\\(block"):
        patient.job()


def test_a_store_that_is_not_whole_is_told_what_it_lacks() -> None:
    class Mine(Store):
        def submit(self, *_: object, **__: object) -> list[object]:  # type: ignore[override]
            return []

    class Halfway(MemoryStore):
        search = None  # type: ignore[assignment]

    missing = missing_methods(Mine())  # type: ignore[abstract]
    assert "exchange" in missing
    assert "submit" not in missing
    with pytest.raises(UnsupportedError, match=r"Mine does not implement .*: it lacks .*exchange"):
        TaskQueue(Mine(), num_workers=0)  # type: ignore[abstract]
    with pytest.raises(UnsupportedError, match=r"Halfway does not implement .*: it lacks search"):
        TaskQueue(Halfway(), num_workers=0)  # type: ignore[arg-type]
    assert missing_methods(MemoryStore()) == []


def test_totals_beside_pages(queue: TaskQueue) -> None:
    for number in range(5):
        queue.submit("work", number, limit_key="acme" if number else None)
    page = queue.search_page(limit=2, total=True, limit_key="acme")
    assert (len(page.jobs), str(page.total)) == (2, "4")
    assert queue.search_page(limit=2).total is None
    assert queue.count(status="pending").jobs == 5
