"""huey on Redis, with a blocking read."""

from __future__ import annotations

from typing import Any

from huey import RedisHuey

from benchmarks.rivals import effects

huey: Any = RedisHuey(url=effects.URL, results=False, blocking=True)
submit: Any = huey.task(name="effect")(effects.run)


def work() -> None:
    huey.create_consumer(
        workers=8, worker_type="thread", periodic=False, check_worker_health=False
    ).run()
