"""The checker's own picture of the jobs, drawn from the store's answers and the promises alone.

It shares no code with any store: no table of transitions, no `decide`, no index. The best job is
found by looking at all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Settled, StuckJob
from leasehold.core.model.outcome import Outcome
from leasehold.core.model.status import Event, Status

KEY_WINDOW = timedelta(hours=24)
WAITING = (Status.PENDING, Status.SCHEDULED, Status.FAILED)
ENDED = (Status.COMPLETED, Status.DEAD, Status.CANCELLED)


class ViolationError(Exception):
    """Raised when a promise was broken: which one, for which job, and at which applied call."""

    def __init__(self, promise: str, message: str, job_id: str | None = None) -> None:
        super().__init__(f"{promise}: {message}")
        self.promise = promise
        self.job_id = job_id
        self.at: int | None = None


@dataclass(slots=True)
class Expected:
    """One event that must stand in a job's history."""

    event: Event
    after: Status | None
    """None for an event that only tells."""
    attempts: int
    version: int | None
    at: datetime | None
    """None when the store was free to choose the moment."""
    due: datetime | None = None
    """The earliest moment at which the job may be promoted from there."""
    optional: bool = False


@dataclass(slots=True)
class Grant:
    """One lease of a job."""

    version: int
    number: int
    worker: str
    outcome: Event | None = None


@dataclass(slots=True)
class ModelJob:
    """A job as it should be."""

    draft: Draft
    place: int
    """Its place in the order of submission."""
    status: Status
    priority: int
    allowance: int
    run_at: datetime
    start_by: datetime | None
    attempts: int = 0
    version: int = 0
    worker: str = ""
    acquired_at: datetime | None = None
    expires_at: datetime | None = None
    heartbeat_at: datetime | None = None
    kept_since: float = 0.0
    """Awake time at which its lease was granted or last renewed."""
    lease_seconds: float = 0.0
    moved_by: timedelta = timedelta(0)
    """By how much its expiry was moved because the clock moved on without its holder."""
    cancel_reason: str | None = None
    progress: bytes | None = None
    ends: int = 0
    """Terminal transitions since it was submitted or last replayed."""
    grants: list[Grant] = field(default_factory=list)
    events: list[Expected] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.draft.id

    def is_available(self, now: datetime) -> bool:
        """Whether it may be leased, but for its time to live."""
        return self.status is Status.PENDING or (self.status in WAITING and self.run_at <= now)

    def may_be_late(self, now: datetime) -> bool:
        """Whether the store may have cancelled it for not having started in time."""
        return (
            self.start_by is not None
            and self.start_by <= now
            and not self.grants
            and self.is_available(now)
        )

    def possible(self, now: datetime) -> set[Status]:
        """The possible statuses: stores promote, and cancel late jobs, when they like."""
        statuses = {self.status}
        if self.is_available(now):
            statuses.add(Status.PENDING)
        if self.may_be_late(now):
            statuses.add(Status.CANCELLED)
        return statuses


@dataclass(slots=True)
class ModelKey:
    """An idempotency key in its window."""

    job_id: str
    work: tuple[str, bytes, str]
    expires_at: datetime


@dataclass(slots=True)
class Model:
    """All jobs, and every lease ever granted."""

    now: datetime
    awake: float = 0.0
    """How long the machine was awake so far, in seconds."""
    jumped: timedelta = timedelta(0)
    """How far the store's clock has moved, since the write before, beyond the time awake."""
    held: Mapping[tuple[str, int], StuckJob] = field(default_factory=dict)
    """Who holds what after this call, by job id and version, as the store says."""
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    granted: dict[str, int] = field(default_factory=dict)
    """The highest lease version of each id; it outlives the job."""
    settled: dict[tuple[str, int], tuple[Outcome, Settled]] = field(default_factory=dict)
    """By job and version, the settlements that counted, and their answers."""
    keys: dict[tuple[str, str], ModelKey] = field(default_factory=dict)
    discarded: set[str] = field(default_factory=set)
    totals: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    """What happened in the run, so that a test can insist that it happens at all."""
    places: int = 0
    sweep_by: timedelta | None = None
    """Once faults have stopped: how long a lease may stay after its expiry."""
    quiet_since: datetime | None = None
    paces: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """By queue, how many jobs may begin per second: of all, and of one limit key."""
    started_at: dict[tuple[str, str | None], datetime] = field(default_factory=dict)
    """When a job of a queue, or of one of its keys, began last."""

    def add(self, draft: Draft) -> None:
        now = self.now
        run_at = now + timedelta(seconds=draft.delay_seconds or 0.0)
        if draft.run_at is not None:
            run_at = max(now, draft.run_at)
        start_within = draft.start_within_seconds
        self.places += 1
        job = ModelJob(
            draft=draft,
            place=self.places,
            status=Status.PENDING if run_at <= now else Status.SCHEDULED,
            priority=draft.priority,
            allowance=draft.allowance,
            run_at=run_at,
            start_by=None if start_within is None else now + timedelta(seconds=start_within),
        )
        if draft.id in self.granted:
            self.seen["id used again after discard"] += 1
            self.settled = {key: each for key, each in self.settled.items() if key[0] != draft.id}
        self.jobs[draft.id] = job
        self.discarded.discard(draft.id)
        self.totals["submitted"] += 1
        self._write(job, Event.CREATED)
        if draft.idempotency_key is not None:
            work = (draft.task, draft.payload, draft.codec)
            self.keys[draft.queue, draft.idempotency_key] = ModelKey(
                draft.id, work, now + KEY_WINDOW
            )

    def key_of(self, draft: Draft) -> ModelKey | None:
        """The job that holds this draft's key, if the window is still open."""
        known = self.keys.get((draft.queue, draft.idempotency_key or ""))
        return known if known is not None and known.expires_at > self.now else None

    def move(self, job: ModelJob, event: Event, after: Status, *, dated: bool = True) -> None:
        """One step of a job."""
        before = job.status
        if before is Status.RUNNING:
            job.grants[-1].outcome = event
            job.cancel_reason = None
        job.status = after
        self._write(job, event, dated=dated)
        if after in ENDED:
            job.ends += 1
            if job.ends > 1:
                raise ViolationError("S2", f"job {job.id} ended twice, now as {after}", job.id)
            self.totals[after.value] += 1
        if event is Event.REPLAYED:
            job.ends = 0
        self.seen[event.value] += 1

    def tell(
        self, job: ModelJob, event: Event, version: int | None = None, *, optional: bool = False
    ) -> None:
        """An event that changes nothing."""
        job.events.append(Expected(event, None, job.attempts, version, self.now, optional=optional))
        self.seen[event.value] += 1

    def next_start(self, job: ModelJob) -> datetime | None:
        """When a job may begin by the start rates of its queue; None if none hold it back."""
        return max(
            (
                self.started_at[bucket] + timedelta(seconds=1 / rate)
                for bucket, rate in self._buckets(job)
                if bucket in self.started_at
            ),
            default=None,
        )

    def is_paced(self, job: ModelJob) -> bool:
        """Whether a start rate counts for it."""
        return any(True for _ in self._buckets(job))

    def _buckets(self, job: ModelJob) -> Iterator[tuple[tuple[str, str | None], float]]:
        queue, key = job.draft.queue, job.draft.limit_key
        of_queue, of_key = self.paces.get(queue, (None, None))
        if of_queue is not None:
            yield (queue, None), of_queue
        if of_key is not None and key is not None:
            yield (queue, key), of_key

    def grant(self, job: ModelJob, version: int, worker: str, expires_at: datetime) -> None:
        job.version = self.granted[job.id] = version
        job.attempts += 1
        job.worker = worker
        job.acquired_at = job.heartbeat_at = self.now
        job.expires_at = expires_at
        job.lease_seconds = (expires_at - self.now).total_seconds()
        job.kept_since = self.awake
        job.moved_by = timedelta(0)
        job.grants.append(Grant(version, job.attempts, worker))
        for bucket, _ in self._buckets(job):
            self.started_at[bucket] = self.now
        self.move(job, Event.LEASED, Status.RUNNING)

    def take_back(self, job: ModelJob) -> Event:
        """The job's lease is lost."""
        if job.cancel_reason is not None:
            self.move(job, Event.CANCELLED, Status.CANCELLED)
            return Event.CANCELLED
        if job.attempts >= job.allowance:
            self.seen["dead by recovery"] += 1
            self.move(job, Event.DEAD, Status.DEAD)
            return Event.DEAD
        job.run_at = self.now
        self.totals["recovered"] += 1
        self.move(job, Event.RECOVERED, Status.PENDING)
        return Event.RECOVERED

    def check_overdue(self) -> None:
        """Once faults have stopped, nothing stays leased long after its expiry."""
        if self.quiet_since is None or self.sweep_by is None:
            return
        for job in self.jobs.values():
            if job.status is Status.RUNNING and job.expires_at is not None:
                expires_at = job.expires_at + self.jumped
                overdue = self.now - max(expires_at, self.quiet_since)
                if overdue > self.sweep_by:
                    raise broken("L1", job.id, f"still leased {overdue} after its expiry")

    def reveal_late(self, job: ModelJob) -> None:
        """It has come out that the store cancelled this job for not having started in time."""
        self.seen["late"] += 1
        self.move(job, Event.CANCELLED, Status.CANCELLED, dated=False)

    def _write(self, job: ModelJob, event: Event, *, dated: bool = True) -> None:
        due = job.run_at if job.status in (Status.SCHEDULED, Status.FAILED) else None
        version = job.version if event is Event.LEASED or job.grants else None
        at = self.now if dated else None
        job.events.append(Expected(event, job.status, job.attempts, version, at, due))


def broken(promise: str, job_id: str | None, message: str) -> ViolationError:
    """A violation, to be raised."""
    return ViolationError(promise, message, job_id)
