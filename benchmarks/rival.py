"""huey's SqliteHuey, with fsync on where we say FULL, in the configuration that measured best."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from huey import SqliteHuey

WORKERS = 8


def open_huey(path: str, durability: str) -> tuple[Any, Any]:
    huey = SqliteHuey(filename=path, fsync=durability == "full", results=True)

    @huey.task()  # type: ignore[untyped-decorator]
    def noop() -> float:
        return time.time()

    return huey, noop


def submit_one_by_one(path: str, durability: str, jobs: int, threads: int = 1) -> float:
    _, noop = open_huey(path, durability)

    def submit() -> None:
        for _ in range(jobs // threads):
            noop()

    started = time.perf_counter()
    running = [threading.Thread(target=submit) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return jobs / (time.perf_counter() - started)


def drain(path: str, durability: str, jobs: int) -> float:
    huey, noop = open_huey(path, durability)
    for _ in range(jobs):
        noop()
    return _consume(huey, jobs, lambda: None)


def together(path: str, durability: str, jobs: int) -> float:
    huey, noop = open_huey(path, durability)

    def submit() -> None:
        for _ in range(jobs):
            noop()

    return _consume(huey, jobs, submit)


def pick_up(path: str, durability: str, samples: int) -> list[float]:
    huey, noop = open_huey(path, durability)
    consumer = _consumer(huey)
    consumer.start()
    waits = []
    for _ in range(samples):
        time.sleep(0.03)
        started = time.time()
        waits.append(noop().get(blocking=True, timeout=30) - started)
    consumer.stop(graceful=True)
    return sorted(waits)


def _consumer(huey: Any) -> Any:
    return huey.create_consumer(
        workers=WORKERS,
        worker_type="thread",
        initial_delay=0.001,
        backoff=1.15,
        max_delay=0.1,
        periodic=False,
        check_worker_health=False,
    )


def _consume(huey: Any, jobs: int, submit: Callable[[], None]) -> float:
    consumer = _consumer(huey)
    started = time.perf_counter()
    consumer.start()
    submit()
    while huey.result_count() < jobs:
        time.sleep(0.01)
    rate = jobs / (time.perf_counter() - started)
    consumer.stop(graceful=True)
    return rate
