"""Why a job is not running: the first obstacle found, in words and as data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from math import ceil
from typing import Any, Final

import msgspec

from leasehold.core.model.advice import worker_start
from leasehold.core.model.durations import duration_text
from leasehold.core.model.job import COMMAND_TASK, Job
from leasehold.core.model.key_limits import NO_KEY, KeyInfo
from leasehold.core.model.phrases import counted, first_of
from leasehold.core.model.queue_config import QueueInfo, QueueState
from leasehold.core.model.records import WorkerInfo, at_work, serves
from leasehold.core.model.retry import why_not_retried
from leasehold.core.model.status import Status
from leasehold.core.model.unreadable import ERROR_TYPE

UNRUNNABLE: Final = "no worker could run it: "
"""The beginning of the reason of a job that a worker handed back because it could not run it."""
RENAMED: Final = "If the task was renamed, add the old name to its aliases"
ERROR_CHARS: Final = 200
"""How many characters of an error a reason includes."""


class ReasonKind(StrEnum):
    """The obstacles of a job, in the order in which they are checked."""

    ENDED = "ended"
    RUNNING = "running"
    WORKER_LOST = "worker_lost"
    NOT_DUE = "not_due"
    RETRY_WAITS = "retry_waits"
    BLOCKED = "blocked"
    UNREADABLE = "unreadable"
    QUEUE_PAUSED = "queue_paused"
    BREAKER_OPEN = "breaker_open"
    LIMIT_REACHED = "limit_reached"
    KEY_LIMIT_REACHED = "key_limit_reached"
    START_RATE_REACHED = "start_rate_reached"
    KEY_START_RATE_REACHED = "key_start_rate_reached"
    NO_WORKER = "no_worker"
    WORKERS_BUSY = "workers_busy"
    OTHERS_FIRST = "others_first"
    NEXT = "next"


class Reason(msgspec.Struct, frozen=True):
    """Why a job is not running, as it was at one moment."""

    kind: ReasonKind
    text: str
    """One sentence for a person."""
    details: dict[str, Any] = {}

    def __str__(self) -> str:
        return self.text


def reason_for(
    job: Job,
    queue: QueueInfo,
    workers: Sequence[WorkerInfo],
    position: int | None,
    now: datetime,
    key: KeyInfo = NO_KEY,
    lost: Collection[str] = (),
    *,
    is_in_memory: bool = False,
) -> Reason:
    """Why this job is not running, given its queue, the workers and how many are served before it.

    `key` is the state of its `limit_key` in its queue; `lost` has the workers proved dead. A store
    that `is_in_memory` knows only the workers of its own process.

    Draining is no reason: a queue that accepts nothing still runs its jobs.
    """
    short = _short_of_workers(job, at_work(workers, lost, now), is_in_memory=is_in_memory)
    if job.status is not Status.PENDING:
        return _overdue(job, short, now) or _not_pending(job, now, lost)
    if job.error is not None and job.error.type == ERROR_TYPE:
        return Reason(
            ReasonKind.UNREADABLE,
            f"It will become a dead letter when a worker leases it: {job.error.message}.",
            {"error": job.error.message},
        )
    return (
        _held_by_queue(job, queue)
        or _held_by_key(job, queue, key.running)
        or _paced(job, queue, key, now)
        or short
        or _in_line(job, position)
    )


def _overdue(job: Job, short: Reason | None, now: datetime) -> Reason | None:
    """Workers make a job pending when it is due, so an overdue one is waiting for a worker."""
    if job.status not in (Status.SCHEDULED, Status.FAILED) or job.run_at > now:
        return None
    if short is None or short.kind is not ReasonKind.NO_WORKER or not job.reason:
        return short
    return msgspec.structs.replace(short, text=f"{short.text[:-1]} ({job.reason}).")


def _not_pending(job: Job, now: datetime, lost: Collection[str]) -> Reason:
    if job.is_terminal:
        return _ended(job)
    if job.status is Status.RUNNING and job.worker in lost:
        return Reason(
            ReasonKind.WORKER_LOST,
            f"Its worker {job.worker} died: the next sweep takes it back. Every worker sweeps, and "
            "so does `queuectl sweep`.",
            {"worker": job.worker, "lease_expires_at": job.lease_expires_at},
        )
    if job.status is Status.RUNNING:
        return Reason(
            ReasonKind.RUNNING,
            f"Running on {job.worker} since {_at(job.lease_acquired_at)}; its lease ends at "
            f"{_at(job.lease_expires_at)} unless renewed.",
            {
                "worker": job.worker,
                "since": job.lease_acquired_at,
                "lease_version": job.lease_version,
                "lease_expires_at": job.lease_expires_at,
                "heartbeat_at": job.heartbeat_at,
            },
        )
    if job.status is Status.BLOCKED:
        return Reason(
            ReasonKind.BLOCKED,
            f"It waits for other jobs: {first_of(job.depends_on) or 'not known here'}.",
            {"depends_on": list(job.depends_on)},
        )
    left = max(0.0, (job.run_at - now).total_seconds())
    details = {"run_at": job.run_at, "seconds": left}
    if job.status is Status.FAILED:
        what = f" with {job.error.type}: {job.error.message}" if job.error else ""
        return Reason(
            ReasonKind.RETRY_WAITS,
            f"Attempt {job.attempts} of {job.allowance} failed{what}; it is tried again at "
            f"{_at(job.run_at)}, in {duration_text(left)}.",
            {**details, "attempts": job.attempts, "allowance": job.allowance},
        )
    return Reason(ReasonKind.NOT_DUE, _why_not_due(job, left), {**details, "reason": job.reason})


def _why_not_due(job: Job, left: float) -> str:
    if job.reason is not None and job.reason.startswith(UNRUNNABLE):
        # The reader has to act, not wait, so the cause comes first.
        cause = job.reason.removeprefix(UNRUNNABLE).removesuffix(".")
        renamed = "" if job.task == COMMAND_TASK else f" {RENAMED}."
        next_try = f"The next try is in {duration_text(ceil(left))}."
        return f"No worker can run it: {cause}.{renamed} {next_try}"
    why = f" ({job.reason})" if job.reason else ""
    return f"It is due at {_at(job.run_at)}, in {_long(left)}{why}."


def _ended(job: Job) -> Reason:
    why = ""
    if job.error is not None and job.error.type == ERROR_TYPE:
        why = f": {job.error.message}"
    elif job.status is Status.DEAD and job.error is not None:
        first_line = job.error.message.partition("\n")[0][:ERROR_CHARS]
        told = f"{job.error.type}: {first_line}" if first_line else job.error.type
        why = f" after {counted(job.attempts, 'attempt')}, the last error being {told}"
        if job.attempts:
            why += f"; {why_not_retried(job.error.type, job.attempts, job.allowance)}"
    elif job.reason:
        why = f": {job.reason}"
    return Reason(
        ReasonKind.ENDED,
        f"It has ended: {job.status} at {_at(job.completed_at)}{why}.",
        {"status": job.status.value, "completed_at": job.completed_at, "reason": job.reason},
    )


def _held_by_queue(job: Job, queue: QueueInfo) -> Reason | None:
    if queue.state is QueueState.PAUSED:
        return Reason(
            ReasonKind.QUEUE_PAUSED,
            f"Queue {queue.name!r} is paused: none of its jobs is leased until it is resumed.",
            {"queue": queue.name},
        )
    held_until = queue.held_until.get(job.task)
    if held_until is not None:
        return Reason(
            ReasonKind.BREAKER_OPEN,
            f"Task {job.task!r} kept failing, so its circuit breaker holds it back until "
            f"{_at(held_until)}; then one job is tried.",
            {"task": job.task, "held_until": held_until},
        )
    limit = queue.config.max_concurrency
    if limit is not None and queue.running >= limit:
        return Reason(
            ReasonKind.LIMIT_REACHED,
            f"Queue {queue.name!r} runs {counted(limit, 'job')} at once and {queue.running} "
            f"{'is' if queue.running == 1 else 'are'} running: it waits for one to end.",
            {"queue": queue.name, "max_concurrency": limit, "running": queue.running},
        )
    return None


def _held_by_key(job: Job, queue: QueueInfo, running: int) -> Reason | None:
    limit = queue.config.key_concurrency
    if limit is None or job.limit_key is None or running < limit:
        return None
    return Reason(
        ReasonKind.KEY_LIMIT_REACHED,
        f"Key {job.limit_key!r} has {running} of {limit} jobs running in queue {queue.name!r}: it "
        "waits for one of them to end.",
        {
            "queue": queue.name,
            "limit_key": job.limit_key,
            "key_concurrency": limit,
            "running": running,
        },
    )


def _paced(job: Job, queue: QueueInfo, key: KeyInfo, now: datetime) -> Reason | None:
    """The start rate that delays the job longer, if both do."""
    by_queue, by_key = queue.next_start_at, key.next_start_at
    rate, key_rate = queue.config.starts_per_second, queue.config.key_starts_per_second
    if by_key is not None and key_rate is not None and (by_queue is None or by_queue <= by_key):
        return Reason(
            ReasonKind.KEY_START_RATE_REACHED,
            f"Queue {queue.name!r} starts at most {counted(key_rate, 'job')} per second of key "
            f"{job.limit_key!r}: the next may start at {_exactly(by_key)}, {_within(by_key, now)}.",
            {
                "queue": queue.name,
                "limit_key": job.limit_key,
                "key_starts_per_second": key_rate,
                "next_start_at": by_key,
            },
        )
    if by_queue is not None and rate is not None:
        return Reason(
            ReasonKind.START_RATE_REACHED,
            f"Queue {queue.name!r} starts at most {counted(rate, 'job')} per second: the next may "
            f"start at {_exactly(by_queue)}, {_within(by_queue, now)}.",
            {"queue": queue.name, "starts_per_second": rate, "next_start_at": by_queue},
        )
    return None


IN_MEMORY: Final = (
    "and only this process can run the jobs of a store in memory: use "
    'TaskQueue("memory://", num_workers=1), or drain(queue) in a test'
)


def _short_of_workers(
    job: Job, workers: Sequence[WorkerInfo], *, is_in_memory: bool
) -> Reason | None:
    serving = [worker for worker in workers if serves(worker.queues, job.queue)]
    if not serving and is_in_memory:
        what_to_do = "name it in the queues= of the TaskQueue" if workers else IN_MEMORY
        return Reason(
            ReasonKind.NO_WORKER,
            f"No worker serves queue {job.queue!r}{':' if workers else ','} {what_to_do}.",
            {"queue": job.queue, "workers": len(workers)},
        )
    if not serving:
        return Reason(
            ReasonKind.NO_WORKER,
            f"No worker serves queue {job.queue!r}: start one.",
            {
                "queue": job.queue,
                "workers": len(workers),
                "command": worker_start(job.queue, job.task),
            },
        )
    if all(worker.running >= worker.slots for worker in serving):
        several = f"Every worker of queue {job.queue!r} is busy ({len(serving)} of them)"
        busy = several if len(serving) > 1 else f"The only worker of queue {job.queue!r} is busy"
        return Reason(
            ReasonKind.WORKERS_BUSY,
            f"{busy}: it waits for a free slot.",
            {"queue": job.queue, "workers": [worker.id for worker in serving]},
        )
    return None


def with_stuck_slots(
    reason: Reason, job: Job, others: Sequence[WorkerInfo], worker: str, slots: int, stuck: int
) -> Reason:
    """The reason, where slots of this worker hold code that was given up and does not stop.

    A store knows of no such code: its jobs have ended. `others` are the workers beside this one.
    """
    if not stuck or reason.kind not in (ReasonKind.NEXT, ReasonKind.OTHERS_FIRST):
        return reason
    if any(each.running < each.slots for each in others if serves(each.queues, job.queue)):
        return reason
    return Reason(
        ReasonKind.WORKERS_BUSY,
        f"Worker {worker} has no free slot: {stuck} of {counted(slots, 'slot')} "
        f"{'is' if stuck == 1 else 'are'} held by tasks that do not stop after their timeout or a "
        "cancel. Let them check current_job().should_stop, or run them with executor='process'.",
        {"queue": job.queue, "workers": [worker], "stuck": stuck},
    )


def _in_line(job: Job, position: int | None) -> Reason:
    if position:
        return Reason(
            ReasonKind.OTHERS_FIRST,
            f"{counted(position, 'job')} of queue {job.queue!r} will be leased before it.",
            {"position": position},
        )
    return Reason(
        ReasonKind.NEXT,
        "Nothing holds it back: it is the next to be leased.",
        {"position": position},
    )


def _long(seconds: float) -> str:
    """A time that may be years: in days from two days on."""
    days = int(seconds // 86_400)
    return counted(days, "day") if days > 1 else duration_text(seconds)


def _exactly(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _within(moment: datetime, now: datetime) -> str:
    return f"in {duration_text((moment - now).total_seconds())}"


def _at(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else moment.isoformat(timespec="seconds")
