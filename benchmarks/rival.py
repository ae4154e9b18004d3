"""huey's SqliteHuey, with fsync on where we say FULL, in the configuration that measured best."""

from __future__ import annotations

import threading
import time
from typing import Any

from huey import SqliteHuey

WORKERS = 8

_ran: list[None] = []
"""One for each job that was run in this process."""


def open_huey(path: str, durability: str) -> tuple[Any, Any]:
    # As in `rivals/huey_sqlite.py`: with results, each job costs one more commit.
    huey = SqliteHuey(filename=path, fsync=durability == "full", results=False)

    @huey.task()  # type: ignore[untyped-decorator]
    def noop() -> None:
        _ran.append(None)

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
    consumer = _consumer(huey)
    started = time.perf_counter()
    consumer.start()
    while len(_ran) < jobs:
        time.sleep(0.001)
    rate = jobs / (time.perf_counter() - started)
    consumer.stop(graceful=True)
    return rate


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
