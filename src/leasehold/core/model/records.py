"""A store's answers and its listeners: the records of the contract in `contract.store`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from leasehold.core.model.status import Status
from leasehold.core.model.totals import Totals


class Submitted(msgspec.Struct, frozen=True):
    """The answer to one submitted draft."""

    id: str
    status: Status
    is_duplicate: bool = False
    """True when an earlier job with the same idempotency key was found: `id` is that job's."""


CURRENT_JOBS_MAX: Final = 100
"""Of each worker, so many jobs are named."""


class CurrentJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a worker holds."""

    id: str
    queue: str
    task: str
    attempts: int
    """Spent so far, the current one included."""
    leased_at: datetime
    lease_expires_at: datetime


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker in the registry, or a consumer, which leases in a loop of its own."""

    id: str
    host: str | None = None
    """None, as is `pid`, of a consumer that reaches the store over a network."""
    pid: int | None = None
    queues: tuple[str, ...]
    slots: int
    """How many jobs it runs at once; of a consumer, how many it asked for the last time."""
    started_at: datetime
    heartbeat_at: datetime
    running: int = 0
    """How many leases it holds."""
    is_consumer: bool = False
    tasks: tuple[str, ...] = ()
    """The tasks it runs, by name, and `module:*` for a module that it may import others from. Of a
    consumer, those it asked for the last time; none if it asked for any."""
    jobs: tuple[CurrentJob, ...] = ()
    """The jobs it holds, the first leased first; at most 100 of them."""
    app_version: str | None = None
    """The version of the application that it runs, if one was given."""

    def names(self, task: str) -> bool:
        """Whether it says by name that it knows a task."""
        return task in self.tasks


ALL_QUEUES: Final = "*"
"""The queues of a worker that serves every queue, future ones included."""


def may_know(worker: WorkerInfo, task: str) -> bool:
    """Whether a worker says that it knows a task, or that it may import its module.

    >>> now = datetime(2026, 1, 1)
    >>> worker = WorkerInfo(
    ...     id="w", queues=("q",), slots=1, started_at=now, heartbeat_at=now, tasks=("a", "shop:*")
    ... )
    >>> [may_know(worker, task) for task in ("a", "b", "shop:pay", "shop.till:pay", "shopping:pay")]
    [True, False, True, True, False]
    """
    if worker.names(task):
        return True
    module, separator, _ = task.partition(":")
    modules = (each.removesuffix(":*") for each in worker.tasks if each.endswith(":*"))
    return bool(separator) and any(is_of_module(module, each) for each in modules)


def is_of_module(name: str, module: str) -> bool:
    """Whether a module's name is this one, or that of a module within it."""
    return name == module or name.startswith(f"{module}.")


def serves(queues: Collection[str], queue: str) -> bool:
    """Whether a worker with these queues serves this queue."""
    return queue in queues or ALL_QUEUES in queues


def who_serves(workers: Iterable[WorkerInfo], queues: Iterable[str]) -> dict[str, list[WorkerInfo]]:
    """The workers that serve each of these queues."""
    found: dict[str, list[WorkerInfo]] = {queue: [] for queue in queues}
    for worker in workers:
        served = found if ALL_QUEUES in worker.queues else found.keys() & set(worker.queues)
        for queue in served:
            found[queue].append(worker)
    return found


SILENT_SECONDS: Final = 120.0
"""A worker without a sign of life for longer is not taken to be at work; a consumer is gone."""

LATE_BEATS: Final = 2.5
"""A worker that has missed two heartbeats, and some time for the next, is late."""
LATE_SECONDS_MIN: Final = 10.0
"""However often workers beat: a busy machine may hold one up for a moment."""


def is_late(worker: WorkerInfo, now: datetime, beat_seconds: float) -> bool:
    """Whether its heartbeats are missing, though not for so long that it is silent.

    `beat_seconds` is how often workers beat. A consumer beats as it likes.

    >>> now = datetime(2026, 1, 1, 12)
    >>> def beaten(seconds):
    ...     at = now - timedelta(seconds=seconds)
    ...     return WorkerInfo(id="w", queues=("q",), slots=1, started_at=at, heartbeat_at=at)
    >>> [is_late(beaten(seconds), now, 30) for seconds in (60, 76, 121)]
    [False, True, False]
    >>> [is_late(beaten(seconds), now, 0.1) for seconds in (9, 11)]
    [False, True]
    """
    allowed = max(LATE_SECONDS_MIN, LATE_BEATS * beat_seconds)
    late_at = worker.heartbeat_at + timedelta(seconds=allowed)
    return not worker.is_consumer and late_at < now and not _is_silent(worker, now)


def is_at_work(worker: WorkerInfo, now: datetime) -> bool:
    """Whether it gave a sign of life lately. A consumer may say nothing while it runs a job."""
    return not _is_silent(worker, now) or (worker.is_consumer and worker.running > 0)


def _is_silent(worker: WorkerInfo, now: datetime) -> bool:
    return worker.heartbeat_at < now - timedelta(seconds=SILENT_SECONDS)


def at_work(
    workers: Iterable[WorkerInfo], lost: Collection[str], now: datetime
) -> list[WorkerInfo]:
    """The registered workers without those that are proved dead, or silent for too long.

    The registry keeps both until a sweep has seen to their jobs; the file of a restored backup has
    the workers of the day it was made.
    """
    return [each for each in workers if each.id not in lost and is_at_work(each, now)]


def workers_at_work(
    workers: Iterable[WorkerInfo], lost: Collection[str], now: datetime
) -> list[WorkerInfo]:
    """Those at work without consumers, which see to schedules only when they lease."""
    return [each for each in at_work(workers, lost, now) if not each.is_consumer]


def without_gone(
    workers: Iterable[WorkerInfo], now: datetime, remote: Collection[str]
) -> list[WorkerInfo]:
    """Without workers that are silent for too long, hold no lease and whose death cannot be proved:
    consumers, and the workers that are registered as remote.
    """
    return [
        each
        for each in workers
        if each.running > 0
        or not _is_silent(each, now)
        or not (each.is_consumer or each.id in remote)
    ]


class WorkerLife(Protocol):
    """A registered worker's sign of life, held from registration until `close`.

    Where the store can prove death at once, this holds the proof's lock; a child process of the
    worker inherits `lock_fd`, so that the lock is free only when the whole tree is dead.
    """

    @property
    def lock_fd(self) -> int | None:
        """The descriptor that children must inherit; None where death cannot be proved."""

    def close(self) -> None:
        """Leave the registry in order."""


class Stats(Totals, frozen=True, kw_only=True):
    """Counts and lifetime totals of one queue, or of all."""

    counts: dict[Status, int]
    """How many jobs stand in each status now."""

    def as_mapping(self) -> dict[str, int]:
        """One flat mapping: a count per status, and the totals under `total_...`."""
        totals = {f"total_{name}": getattr(self, name) for name in Totals.__struct_fields__}
        return {status.value: self.counts.get(status, 0) for status in Status} | totals


class WorkerTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The lifetime totals of one worker or consumer, alive or not."""

    worker: str
    leased: int = 0
    completed: int = 0
    failed: int = 0
    """Attempts that failed, retried or not."""
    lost: int = 0
    """Leases that were taken from it."""
    first_at: datetime
    """The minute in which it first leased a job or settled one, and in which it last did."""
    last_at: datetime

    def beside(self, other: WorkerTotals) -> WorkerTotals:
        """These counts and the same worker's counts in another queue, as one."""
        return WorkerTotals(
            worker=self.worker,
            leased=self.leased + other.leased,
            completed=self.completed + other.completed,
            failed=self.failed + other.failed,
            lost=self.lost + other.lost,
            first_at=min(self.first_at, other.first_at),
            last_at=max(self.last_at, other.last_at),
        )


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An administrative action: who did what, when, to how many."""

    at: datetime
    actor: str
    action: str
    detail: dict[str, Any]
    count: int
    """How many jobs it was about; 0 for an order about a queue, a schedule or a setting."""
    archived: bool = False
    """It is older than audit records are kept, and is kept in the archive."""


class Listener(Protocol):
    """Who wants to be woken. Calls come from any thread, must return at once and are only hints:
    one may come for nothing, and after a lost one a slow poll finds the truth.
    """

    def on_ready(self) -> None:
        """Jobs may have become available, or due earlier than was known."""

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        """These jobs reached a terminal status; None when it is not known which."""

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Somebody asked to stop these running jobs; None when it is not known which."""


class WorkListener:
    """Base of a `Listener` that waits for work, and not for the end of any job.

    A store over a network does not send it the ids of ended jobs.
    """

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        """Of no interest here."""


class Purged(msgspec.Struct, frozen=True):
    """The report of one purge."""

    purged: int
    """How many jobs it deleted."""
    more: bool
    """Whether there may be more that fit: call again."""
    dependents: int = 0
    """How many times another job waited for one of them, and is told as if that was cancelled."""
