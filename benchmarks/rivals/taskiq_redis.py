"""taskiq on a Redis stream, with acknowledgement: two processes."""

from __future__ import annotations

import os
import sys
from typing import Any

from taskiq_redis import RedisStreamBroker

from benchmarks.rivals import effects

broker: Any = RedisStreamBroker(url=effects.URL)
_is_open = False


@broker.task(task_name="effect")  # type: ignore[untyped-decorator]
async def effect(number: int, sent: float, seconds: float) -> None:
    effects.run(number, sent, seconds)


async def submit(number: int, sent: float, seconds: float) -> None:
    global _is_open  # noqa: PLW0603
    if not _is_open:
        await broker.startup()
        _is_open = True
    await effect.kiq(number, sent, seconds)


def work() -> None:
    module = "benchmarks.rivals.taskiq_redis:broker"
    command = [sys.executable, "-m", "taskiq", "worker", module, "--workers=2"]
    os.execv(sys.executable, [*command, "--log-level=ERROR"])
