"""Stores, clocks, and workers that are stopped after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leasehold.env import Env
from leasehold.worker.worker import Worker
from support.turned_clock import TurnedClock
from support.workers import PATIENCE_SECONDS, MoodyStore, MortalStore, Tasks


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def env(clock: TurnedClock) -> Env:
    return Env(clock=clock)


@pytest.fixture
def store() -> MoodyStore:
    return MoodyStore()


@pytest.fixture
def timed_store(env: Env) -> MoodyStore:
    """A store whose time is the manual clock's."""
    return MoodyStore(env)


@pytest.fixture
def mortal_store(env: Env) -> MortalStore:
    return MortalStore(env)


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


@pytest.fixture
def start_worker(store: MoodyStore, tasks: Tasks) -> Iterator[Callable[..., Worker]]:
    """Start a worker with these options; it is stopped when the test ends."""
    workers: list[Worker] = []

    def start(**options: Any) -> Worker:
        worker = Worker(options.pop("store", store), tasks, **({"slots": 2} | options))
        workers.append(worker)
        worker.start()
        return worker

    yield start
    for worker in workers:
        worker.request_stop(now=True)
        assert worker.wait(PATIENCE_SECONDS) is not None, "a worker did not stop"
