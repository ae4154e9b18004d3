"""Leasehold, in the same harness as the others; the URL says on which store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from benchmarks.rivals import effects
from leasehold import TaskQueue

queue: Any = TaskQueue(effects.URL, num_workers=0)
_task: Any = queue.task(name="effect")(effects.run)


def submit(number: int, sent: float, seconds: float) -> None:
    _task.submit(number, sent, seconds)


def submit_many(numbers: Sequence[int]) -> None:
    queue.submit_many([_task.job(number, 0.0, 0.0) for number in numbers])


def work() -> None:
    logging.getLogger("leasehold").setLevel(logging.ERROR)
    queue.run_worker(slots=8)
