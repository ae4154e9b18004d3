"""huey on SQLite, with its fsync on."""

from __future__ import annotations

from typing import Any

from huey import SqliteHuey

from benchmarks.rivals import effects

huey: Any = SqliteHuey(filename=effects.URL, fsync=True, results=False)
submit: Any = huey.task(name="effect")(effects.run)


def work() -> None:
    huey.create_consumer(
        workers=8,
        worker_type="thread",
        initial_delay=0.001,
        backoff=1.15,
        max_delay=0.1,
        periodic=False,
        check_worker_health=False,
    ).run()
