"""Processes with transactions of their own, to be killed and stopped in the middle of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from leasehold import TaskQueue
from leasehold.core.model.lease import Lease
from leasehold.env import SYSTEM
from leasehold.worker.context import current_job
from support.faulty_worker import hold
from support.faulty_worker import tell as tell_news

MAKE_ROWS = "CREATE TABLE app_row (id TEXT, version INTEGER)"
ADD_ROW = "INSERT INTO app_row VALUES (?, ?)"
SECONDS_INSIDE = 0.001
"""Long enough that most kills come while somebody's transaction is open."""


class ChangedMindError(Exception):
    """Raised by a producer that rolls back."""


# -- workers -------------------------------------------------------------------------------------


def work(path: str, task: str, news: str, options: dict[str, Any]) -> None:
    """A worker that runs one of the tasks below."""

    def lost(lease: Lease, _: Exception) -> None:
        tell_news(news, "lost", lease.job_id, os.getpid(), lease.version)

    queue = TaskQueue(path, num_workers=3, on_lease_lost=lost, **options)
    executor: Any = "process" if task == "write in process" else "thread"
    queue.task(name=task, executor=executor)(_TASKS[task])
    queue.run_worker()


def write(path: str) -> None:
    """One row per job, in the transaction that completes it."""
    ctx = current_job()
    with ctx.transaction() as connection:
        connection.execute(ADD_ROW, (ctx.job_id, ctx.fencing_token))
        _spin()


def write_carelessly(path: str) -> None:
    """One row per attempt, in a transaction of its own: what the other one is there to prevent."""
    ctx = current_job()
    queue = TaskQueue(path, num_workers=0)
    connection = queue.connect()
    with connection.transaction():
        connection.execute(ADD_ROW, (ctx.job_id, ctx.fencing_token))
    connection.close()
    queue.shutdown()
    _spin()


def hold_and_write(news: str, name: str) -> int:
    """Tell that it runs, and write its row when its gate is opened."""
    hold(news, name)
    ctx = current_job()
    with ctx.transaction() as connection:
        connection.execute(ADD_ROW, (ctx.job_id, ctx.fencing_token))
    return ctx.fencing_token


_TASKS: dict[str, Callable[..., Any]] = {
    "write": write,
    "write in process": write,
    "write carelessly": write_carelessly,
    "hold and write": hold_and_write,
}


def _spin() -> None:
    end = SYSTEM.clock.monotonic() + SECONDS_INSIDE
    while SYSTEM.clock.monotonic() < end:
        pass


# -- producers -----------------------------------------------------------------------------------


def produce(path: str, name: str, seed: int, together: bool) -> None:
    """Orders, each with its job, for ever; some are given up."""
    random = Random(seed)
    queue = TaskQueue(path, num_workers=0)
    connection = queue.connect()
    number = 0
    while True:
        number += 1
        order = f"{name}-{number}"
        if not together:
            connection.execute(ADD_ROW, (order, 0))
            _spin()
            queue.submit("ship", order, job_id=order)
            continue
        with suppress(ChangedMindError), connection.transaction():
            connection.execute(ADD_ROW, (order, 0))
            queue.submit("ship", order, job_id=order, connection=connection)
            _spin()
            if random.random() < 0.2:
                raise ChangedMindError


def take_turns(path: str, name: str, news: str, rounds: int, by_hand: bool) -> None:
    """So many transactions of its own, beside those of others; then it tells that it is done."""
    queue = TaskQueue(path, num_workers=0)
    connection = queue.connect()
    for number in range(rounds):
        order = f"{name}-{number}"
        if by_hand:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(ADD_ROW, (order, 0))
            queue.submit("write", path, job_id=order, connection=connection)
            connection.execute("COMMIT")
        else:
            with connection.transaction():
                connection.execute(ADD_ROW, (order, 0))
                queue.submit("write", path, job_id=order, connection=connection)
                _spin()
        queue.submit("write", path, job_id=f"{order}-alone")
    tell_news(news, "done", name, os.getpid(), 0)
    while True:
        signal.pause()
