"""arq on Redis, polling a hundred times a second (it does so twice by default)."""

from __future__ import annotations

from typing import Any

from arq import create_pool, run_worker
from arq.connections import RedisSettings

from benchmarks.rivals import effects

_settings: Any = RedisSettings.from_dsn(effects.URL) if effects.URL else None
_pool: Any = None


async def effect(context: object, number: int, sent: float, seconds: float) -> None:  # noqa: ARG001
    effects.run(number, sent, seconds)


async def submit(number: int, sent: float, seconds: float) -> None:
    global _pool  # noqa: PLW0603
    if _pool is None:
        _pool = await create_pool(_settings)
    await _pool.enqueue_job("effect", number, sent, seconds)


class WorkerSettings:
    """What arq asks for."""

    functions = (effect,)
    redis_settings = _settings
    poll_delay = 0.01
    max_jobs = 100
    keep_result = 0


def work() -> None:
    run_worker(WorkerSettings)
