"""A store's answers and its listeners: the records used by `contract.store`."""

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
    """True if an earlier job with the same idempotency key was found, whose id `id` is."""


CURRENT_JOBS_MAX: Final = 100
"""How many current jobs of each worker are named."""


class CurrentJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a worker holds."""

    id: str
    queue: str
    task: str
    attempts: int
    """Attempts spent so far, the current one included."""
    leased_at: datetime
    lease_expires_at: datetime


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker in the registry, or a consumer, which leases in its own loop."""

    id: str
    host: str | None = None
    """None, as is `pid`, of a consumer that reaches the store over a network."""
    pid: int | None = None
    queues: tuple[str, ...]
    slots: int
    """How many jobs it runs at once; for a consumer, how many it last asked for."""
    started_at: datetime
    heartbeat_at: datetime
    running: int = 0
    """How many leases it holds."""
    is_consumer: bool = False
    tasks: tuple[str, ...] = ()
    """The tasks it runs, by name, and `module:*` for a module that it may import others from. For a
    consumer, those it last asked for; empty if it asked for any.
    """
    jobs: tuple[CurrentJob, ...] = ()
    """The jobs it holds, the first leased first; at most 100 of them."""
    app_version: str | None = None
    """The version of the application that it runs, if one was given."""

    def names(self, task: str) -> bool:
        """Whether its entry lists a task by name."""
        return task in self.tasks


ALL_QUEUES: Final = "*"
"""The queues of a worker that serves every queue, future ones included."""


def may_know(worker: WorkerInfo, task: str) -> bool:
    """Whether a worker lists a task, or may import the task's module.

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
    """Whether a module's name is this one or that of a submodule."""
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
"""After this long without a sign of life, a worker no longer counts as at work, and a consumer is
gone.
"""

LATE_BEATS: Final = 2.5
"""A worker is late once it has missed two heartbeats and some time of the next."""
LATE_SECONDS_MIN: Final = 10.0
"""The least delay that counts as late: a busy machine may hold a worker up for a moment."""


def is_late(worker: WorkerInfo, now: datetime, beat_seconds: float) -> bool:
    """Whether its heartbeats are missing, though not for so long that it is silent.

    `beat_seconds` is the heartbeat interval of workers; consumers have no fixed one.

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
    """Whether it gave a recent sign of life. A consumer may give none while it runs a job."""
    return not _is_silent(worker, now) or (worker.is_consumer and worker.running > 0)


def _is_silent(worker: WorkerInfo, now: datetime) -> bool:
    return worker.heartbeat_at < now - timedelta(seconds=SILENT_SECONDS)


def at_work(
    workers: Iterable[WorkerInfo], lost: Collection[str], now: datetime
) -> list[WorkerInfo]:
    """The registered workers, except those proved dead or silent for too long.

    The registry keeps those until a sweep has recovered their jobs; a restored backup has the
    workers of the day it was made.
    """
    return [each for each in workers if each.id not in lost and is_at_work(each, now)]


def workers_at_work(
    workers: Iterable[WorkerInfo], lost: Collection[str], now: datetime
) -> list[WorkerInfo]:
    """The workers at work, without consumers, which fire schedules only when they lease."""
    return [each for each in at_work(workers, lost, now) if not each.is_consumer]


def listed_workers(
    workers: Iterable[WorkerInfo], now: datetime, remote: Collection[str]
) -> list[WorkerInfo]:
    """All workers, in the order of their registration, except those that are silent for too long,
    hold no lease and cannot be proved dead: consumers, and workers registered as remote.
    """
    there = (
        each
        for each in workers
        if each.running > 0
        or not _is_silent(each, now)
        or not (each.is_consumer or each.id in remote)
    )
    return sorted(there, key=lambda each: (each.started_at, each.id))


class WorkerLife(Protocol):
    """A registered worker's sign of life, held from registration until `close`.

    Where the store can prove death at once, this holds the proof's lock; a child process of the
    worker inherits `lock_fd`, so that the lock is free only when the whole tree is dead.
    """

    @property
    def lock_fd(self) -> int | None:
        """The descriptor that children must inherit; None where death cannot be proved."""

    def close(self) -> None:
        """Leave the registry in an orderly way."""


class Stats(Totals, frozen=True, kw_only=True):
    """Counts and lifetime totals of one queue, or of all."""

    counts: dict[Status, int]
    """How many jobs have each status now."""

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
    """Leases taken from it."""
    first_at: datetime
    """The minute in which it first leased or settled a job, and that in which it last did."""
    last_at: datetime

    def beside(self, other: WorkerTotals) -> WorkerTotals:
        """These counts merged with the same worker's counts in another queue."""
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
    """How many jobs it affected; 0 for an order about a queue, a schedule or a setting."""
    archived: bool = False
    """Whether it has moved to the archive because of its age."""


class Listener(Protocol):
    """An object that wants to be woken. Calls come from any thread, must return at once and are
    only hints: one may come for nothing, and a slow poll makes up for a lost one.
    """

    def on_ready(self) -> None:
        """Jobs may have become available, or due earlier than was known."""

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        """These jobs reached a terminal status; None if it is not known which jobs did."""

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Somebody asked to stop these running jobs; None if it is not known which jobs."""


class WorkListener:
    """Base of a `Listener` that waits for work, not for the end of jobs.

    A store over a network does not send it the ids of ended jobs.
    """

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        """Ignored."""


class Purged(msgspec.Struct, frozen=True):
    """The report of one purge."""

    purged: int
    """How many jobs it deleted."""
    more: bool
    """Whether more jobs may match: call again."""
    dependents: int = 0
    """How many times another job depended on one of them; each is handled as a cancelled
    dependency.
    """
