"""A worker process that writes down, outside of the store, each lease it is given and each run."""

from __future__ import annotations

import os
from typing import Any

from leasehold import TaskQueue
from leasehold.core.model.lease import Exchange
from leasehold.core.model.start_rate import StartRate
from leasehold.env import to_micros
from leasehold.worker.context import current_job


def work(url: str, tell_fd: int) -> None:
    """Run `call` until killed; tells `B job moment` of each lease and `L job version` of a run."""
    queue = TaskQueue(url, num_workers=4)
    exchange = queue.store.exchange

    def noted(*args: Any, **named: Any) -> Exchange:
        answer = exchange(*args, **named)
        lines = [f"B {each.job_id} {to_micros(each.acquired_at)}\n" for each in answer.leases]
        # One write to a pipe is never torn by others.
        os.write(tell_fd, "".join(lines).encode())
        return answer

    queue.store.exchange = noted  # type: ignore[method-assign]

    @queue.task(name="call")
    def call() -> None:
        job = current_job()
        os.write(tell_fd, f"L {job.job_id} {job.fencing_token}\n".encode())

    queue.run_worker()


def work_carelessly(url: str, tell_fd: int) -> None:
    """The same on a store that lets one too many start, to see that somebody would notice."""
    honest = StartRate.free

    def one_too_many(rate: StartRate, full_at: int, *, now: int) -> int:
        return honest(rate, full_at, now=now) + 1

    StartRate.free = one_too_many  # type: ignore[method-assign, assignment]
    work(url, tell_fd)
