"""One rival in a process of its own: `python -m benchmarks.rivals.run RIVAL VERB [JOBS [SECONDS]]`.

A rival is a module with `submit(number, sent, seconds)` (a function or a coroutine function) and
`work()`, which serves until the process is ended; `submit_many(numbers)` where it has such a call,
and `set_up()` where its tables have to be made first.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

CHUNK = 500
"""Jobs in one call of `submit_many`."""


async def _all(calls: Iterable[Callable[[], Any]], pause_seconds: float) -> None:
    for call in calls:
        if pause_seconds:
            await asyncio.sleep(pause_seconds)
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


async def _submit(rival: ModuleType, verb: str, jobs: int, seconds: float) -> float:
    """Seconds that it took; what the first job opens is not counted."""
    await _all([lambda: rival.submit(jobs, time.time(), 0.0)], 0.0)
    started = time.perf_counter()
    await _all(_calls(rival, verb, jobs, seconds), 0.03 if verb == "paced" else 0.0)
    return time.perf_counter() - started


def main() -> None:
    name, verb, *rest = sys.argv[1:]
    rival = import_module(f"benchmarks.rivals.{name}")
    if verb == "work":
        rival.work()
    elif verb == "set_up":
        if hasattr(rival, "set_up"):
            rival.set_up()
        print("bulk" if hasattr(rival, "submit_many") else "")
    else:
        jobs, seconds = int(rest[0]), float(rest[1]) if len(rest) > 1 else 0.0
        print(asyncio.run(_submit(rival, verb, jobs, seconds)))


if __name__ == "__main__":
    main()
