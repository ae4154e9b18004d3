"""Queues on every store that this release has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from leasehold import TaskQueue
from leasehold.env import Env, ManualClock


class MakeQueue(Protocol):
    def __call__(self, **options: Any) -> TaskQueue: ...


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else str(tmp_path / "jobs.db")


@pytest.fixture
def make_queue(url: str) -> Iterator[MakeQueue]:
    """Makes queues that are shut down, without waiting, when the test is over."""
    made: list[TaskQueue] = []

    def make(**options: Any) -> TaskQueue:
        made.append(TaskQueue(url, **options))
        return made[-1]

    yield make
    for queue in made:
        queue.shutdown(wait=False)


@pytest.fixture
def queue(make_queue: MakeQueue) -> TaskQueue:
    """A queue with two workers, in real time."""
    return make_queue(num_workers=2)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def still(make_queue: MakeQueue, clock: ManualClock) -> TaskQueue:
    """A queue where nothing runs and no time passes by itself."""
    return make_queue(num_workers=0, env=Env(clock))
