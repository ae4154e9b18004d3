"""RQ on Redis, by its worker that does not fork for each job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.rivals import effects

_queue: Any = Queue(connection=Redis.from_url(effects.URL))


def submit(number: int, sent: float, seconds: float) -> None:
    _queue.enqueue(effects.run, number, sent, seconds, result_ttl=0)


def submit_many(numbers: Sequence[int]) -> None:
    _queue.enqueue_many(
        [Queue.prepare_data(effects.run, (number, 0.0, 0.0), result_ttl=0) for number in numbers]
    )


def work() -> None:
    SimpleWorker([_queue], connection=_queue.connection).work(logging_level="ERROR")
