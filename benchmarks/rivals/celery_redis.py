"""Celery on Redis: late acknowledgement, so that a killed worker loses nothing; no results."""

from __future__ import annotations

from typing import Any

from celery import Celery

from benchmarks.rivals import effects

app: Any = Celery(broker=effects.URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
)
_task: Any = app.task(name="effect")(effects.run)


def submit(number: int, sent: float, seconds: float) -> None:
    _task.delay(number, sent, seconds)


def work() -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    app.worker_main(["worker", "--concurrency=2", *quiet])
