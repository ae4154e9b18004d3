"""huey on SQLite, with its fsync on unless the URL says `?durability=normal`.

Results are off, which is where it is fastest: with them each job costs one more commit.
"""

from __future__ import annotations

from typing import Any

from huey import SqliteHuey

from benchmarks.rivals import effects

_path, _, _parameters = effects.URL.partition("?")
huey: Any = SqliteHuey(filename=_path, fsync=_parameters != "durability=normal", results=False)
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
