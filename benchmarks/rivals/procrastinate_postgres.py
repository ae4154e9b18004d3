"""Procrastinate on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from benchmarks.rivals import effects

app: Any = App(connector=SyncPsycopgConnector(conninfo=effects.URL))
_task: Any = app.task(name="effect")(effects.run)
_is_open = False


def set_up() -> None:
    with app.open():
        app.schema_manager.apply_schema()


def _open() -> None:
    global _is_open  # noqa: PLW0603
    if not _is_open:
        app.open()
        _is_open = True


def submit(number: int, sent: float, seconds: float) -> None:
    _open()
    _task.defer(number=number, sent=sent, seconds=seconds)


def submit_many(numbers: Sequence[int]) -> None:
    _open()
    _task.batch_defer(*({"number": each, "sent": 0.0, "seconds": 0.0} for each in numbers))


def work() -> None:
    worker: Any = app.with_connector(PsycopgConnector(conninfo=effects.URL))
    worker.run_worker(concurrency=8, delete_jobs="successful")
