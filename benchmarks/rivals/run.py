"""One rival in a process of its own: `python -m benchmarks.rivals.run RIVAL VERB [JOBS [...]]`.

Verbs: `set_up`, `work`, and, with a number of jobs each, `submit` (then how long a job
takes), `bulk` and `paced` (then how long a job takes, and jobs per second). Each submits one job
more; the rest comes when the file that BENCH_GATE names is there, if it names one.

A rival is a module with `submit(number, sent, seconds)` (a function or a coroutine function) and
`work()`, which serves until the process is ended; `submit_many(numbers)` where it has such a call,
and `set_up()` where its tables have to be made first.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any

CHUNK = 500
"""Jobs in one call of `submit_many`."""


async def _all(calls: Iterable[Callable[[], Any]], per_second: float = 0.0) -> None:
    """Make the calls one after the other: as fast as they go, or at a pace."""
    due = time.perf_counter()
    for call in calls:
        if per_second:
            due += 1 / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        answer = call()
        if inspect.isawaitable(answer):
            await answer


def _calls(rival: ModuleType, verb: str, jobs: int, seconds: float) -> Iterable[Callable[[], Any]]:
    if verb == "bulk":
        for first in range(0, jobs, CHUNK):
            numbers = range(first, min(first + CHUNK, jobs))
            yield lambda numbers=numbers: rival.submit_many(numbers)  # type: ignore[misc]
    else:
        for number in range(jobs):
            yield lambda number=number: rival.submit(number, time.time(), seconds)  # type: ignore[misc]


def _wait_at_gate() -> None:
    gate = os.environ.get("BENCH_GATE")
    while gate is not None and not os.path.exists(gate):
        time.sleep(0.001)


async def _submit(
    rival: ModuleType, verb: str, jobs: int, seconds: float = 0.0, per_second: float = 0.0
) -> float:
    """Seconds that it took; what the first job opens is not counted."""
    await _all([lambda: rival.submit(jobs, time.time(), 0.0)])
    _wait_at_gate()
    started = time.perf_counter()
    await _all(_calls(rival, verb, jobs, seconds), per_second)
    return time.perf_counter() - started


def main() -> None:
    name, verb, *rest = sys.argv[1:]
    rival = import_module(f"benchmarks.rivals.{name}")
    if verb == "work":
        rival.work()
    elif verb == "set_up":
        if hasattr(rival, "set_up"):
            rival.set_up()
        # A rival's module begins with the name of its package.
        print(version(name.partition("_")[0]), "bulk" if hasattr(rival, "submit_many") else "")
    else:
        jobs, *more = rest
        print(asyncio.run(_submit(rival, verb, int(jobs), *map(float, more))))


if __name__ == "__main__":
    main()
