"""The lease: a worker's time-limited right to run one job, and the messages sent under it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.job import MetadataValue
from leasehold.core.model.limits import NAME_LENGTH_MAX, SECONDS_MAX
from leasehold.core.model.outcome import JobError, Outcome, Release
from leasehold.core.model.refusals import expired_lease
from leasehold.core.model.retry import RetryPolicy
from leasehold.core.model.status import Event, Status
from leasehold.env import from_micros
from leasehold.errors import InvalidRequestError, LeaseExpiredError, LeaseLostError


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """A program that leases in its own loop without having registered as a worker."""

    queues: tuple[str, ...]
    """All queues it has recently leased from, in any call; empty once it has stopped leasing."""
    host: str | None = None
    """None (like `pid`) if it reaches the store over a network."""
    pid: int | None = None


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks to lease."""

    worker: str
    queues: tuple[str, ...] = ("default",)
    limit: int = 1
    free_slots: int | None = None
    """How many of them can start at once. The others are leased ahead, which jobs with a start rate
    never are (STA-5). None means that all can start.
    """
    lease_seconds: float | None = None
    """For jobs without one of their own; None means the store's setting."""
    lease_seconds_by_task: dict[str, float] | None = None
    """For jobs of these tasks without one of their own; takes precedence over `lease_seconds`."""
    lease_seconds_override: float | None = None
    """For all jobs, over the values of the job, its queue and the store's settings."""
    tasks: tuple[str, ...] | None = None
    """Only these tasks; None for any."""
    except_lanes: tuple[tuple[str, str], ...] = ()
    """Queues and tasks whose jobs the worker leaves to others."""
    parent_id: str | None = None
    """Only jobs of this group."""
    consumer: Consumer | None = None
    """Enter the worker into the registry as a consumer, or record that it still is one. A consumer
    that leases many times a second sends this only now and then.
    """

    def __post_init__(self) -> None:
        """Refuse lease lengths that cannot be held and names that cannot be shown."""
        check_worker_name(self.worker)
        by_task = () if self.lease_seconds_by_task is None else self.lease_seconds_by_task.values()
        for seconds in (self.lease_seconds, self.lease_seconds_override, *by_task):
            # The comparison also refuses NaN.
            if seconds is not None and not 0 < seconds <= SECONDS_MAX:
                raise ValueError(
                    "lease_seconds must be above 0 and at most ten years in seconds, not "
                    f"{seconds!r}"
                )

    def wants(self, queue: str, task: str) -> bool:
        """Whether the request covers jobs of a task in one of its queues."""
        return (self.tasks is None or task in self.tasks) and (
            not self.except_lanes or (queue, task) not in self.except_lanes
        )


def check_worker_name(name: str) -> None:
    """Refuse a name that cannot be shown unchanged on a terminal, in a log or on a page."""
    if not (0 < len(name) <= NAME_LENGTH_MAX and name.isprintable()):
        raise InvalidRequestError(
            f"a worker's name has 1 to {NAME_LENGTH_MAX} printable characters, not {name[:40]!r}"
        )


class Lease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A worker's grant: the data it needs to run the job, and the token that proves its right.

    Leases cross networks by the hundred, so they are encoded as arrays: field names would be half
    of a map. They hold only plain data, so that the garbage collector can ignore them. Stores
    create them with positional arguments, which is ten times as fast as with keywords.
    """

    job_id: str
    version: int
    """The fencing token: it only grows, and is never granted twice for one job."""
    worker: str
    queue: str
    task: str
    payload: bytes
    codec: str
    priority: int
    attempt: int
    """The number of this attempt, from 1."""
    allowance: int
    acquired_at: datetime
    expires_at: datetime
    lease_seconds: float
    timeout_seconds: float | None = None
    deadline: datetime | None = None
    retry: RetryPolicy | None = None
    metadata: dict[str, MetadataValue] | None = None
    parent_id: str | None = None

    @property
    def fencing_token(self) -> int:
        """The version, under the name that users of other lock services know."""
        return self.version


class Settlement(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The end of an attempt, as the lease's holder reports it."""

    job_id: str
    version: int
    outcome: Outcome


def handed_back(leases: Iterable[Lease]) -> list[Settlement]:
    """The release of leases whose holder left before it had them; no attempt is spent."""
    released = Release(reason="its consumer left before it had the lease")
    return [Settlement(each.job_id, each.version, released) for each in leases]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The store's answer to a settlement: the job's new state."""

    job_id: str
    version: int
    event: Event
    status: Status
    attempts: int
    run_at: datetime | None = None
    """When the job will be tried again, if it waits."""


class Renewal(msgspec.Struct, frozen=True):
    """A holder's request to keep its lease for `lease_seconds` from now."""

    job_id: str
    version: int
    lease_seconds: float


class Renewed(msgspec.Struct, frozen=True):
    """The store's answer to a renewal."""

    job_id: str
    version: int
    expires_at: datetime
    granted_seconds: float
    """How long the lease had left when the store answered: less than requested near the limit on
    extensions. A holder measures it with its own clock, from before the request.
    """
    next_heartbeat_seconds: float
    cancel_requested: str | None = None
    """The reason, once a person asked to stop this attempt."""


class Exchange(msgspec.Struct, frozen=True):
    """The answer to one exchange with the store: the settled and the leased jobs."""

    settled: list[Settled | LeaseLostError]
    """One per settlement, in order; for a stale one, the error is returned, not raised."""
    leases: list[Lease]
    next_due_at: datetime | None = None
    """When the next delayed job becomes due, or the next job may start (STA-4), if fewer jobs were
    leased than requested.
    """
    next_tick_at: datetime | None = None
    """When the next schedule ticks, if leases were requested."""
    settings_generation: int = 0
    """The generation of the store's settings: a holder with another one should read them again."""
    at: datetime | None = None
    """The store's time of the answer; None only if no store answered."""


class StuckJob(msgspec.Struct, frozen=True, kw_only=True):
    """A running job that shows no sign of life or runs for too long, and its holder."""

    job_id: str
    queue: str
    task: str
    priority: int
    worker: str
    lease_version: int
    attempts: int
    started_at: datetime
    """When it started."""
    heartbeat_at: datetime
    """The last sign of life of its holder."""
    lease_expires_at: datetime


LOST_TOLD_MAX: Final = 1000
"""How many lost attempts the report of one sweep lists individually."""


class LostAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt whose worker was lost, as reported by the sweep that took its job back."""

    settled: Settled
    """What became of the job."""
    worker: str
    """The lost worker."""
    error: JobError


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one recovery sweep."""

    expired_found: int = 0
    recovered: int = 0
    dead: int = 0
    cancelled: int = 0
    checkpoints_created: int = 0
    errors: int = 0
    scan_ms: float = 0.0
    workers_proved_dead: tuple[str, ...] = ()
    last_error: JobError | None = None
    lost: tuple[LostAttempt, ...] = ()
    """The attempts that were lost, in the order of REC-8: at most LOST_TOLD_MAX of them."""

    def plus(self, other: SweepReport) -> SweepReport:
        """The reports of two consecutive sweeps, merged."""
        return SweepReport(
            expired_found=self.expired_found + other.expired_found,
            recovered=self.recovered + other.recovered,
            dead=self.dead + other.dead,
            cancelled=self.cancelled + other.cancelled,
            checkpoints_created=self.checkpoints_created + other.checkpoints_created,
            errors=self.errors + other.errors,
            scan_ms=self.scan_ms + other.scan_ms,
            workers_proved_dead=self.workers_proved_dead + other.workers_proved_dead,
            last_error=other.last_error or self.last_error,
            lost=(self.lost + other.lost)[:LOST_TOLD_MAX],
        )


class RunningLease(NamedTuple):
    """The state of a lease before its renewal; times in microseconds."""

    acquired_at: int
    expires_at: int
    moved_by: int
    """How far its expiry was moved because the clock advanced without its holder."""
    cancel_reason: str | None


def decide_renewal(
    renewal: Renewal, lease: RunningLease, *, now: int, extension_seconds_max: float
) -> tuple[int, Renewed] | LeaseExpiredError:
    """The new expiry of a lease and the answer to its holder, or the error if it is not renewed.

    A renewal never ends a lease earlier than it was granted, and never makes it last longer than
    `extension_seconds_max` in all.

    >>> lease = RunningLease(acquired_at=0, expires_at=300_000_000, moved_by=0, cancel_reason=None)
    >>> wish = Renewal("job-1", 1, 300)
    >>> until, _ = decide_renewal(wish, lease, now=100_000_000, extension_seconds_max=86_400)
    >>> until
    400000000
    >>> until, _ = decide_renewal(wish, lease, now=100_000_000, extension_seconds_max=350)
    >>> until
    350000000
    """
    if lease.expires_at <= now:
        return expired_lease(renewal.job_id, renewal.version, from_micros(lease.expires_at))
    limit = lease.acquired_at + lease.moved_by + round(extension_seconds_max * 1e6)
    until = max(lease.expires_at, min(now + round(renewal.lease_seconds * 1e6), limit))
    granted_seconds = (until - now) / 1e6
    return until, Renewed(
        renewal.job_id,
        renewal.version,
        from_micros(until),
        granted_seconds,
        next_heartbeat_seconds(granted_seconds),
        lease.cancel_reason,
    )


def next_heartbeat_seconds(lease_seconds: float) -> float:
    """The advised time until the next renewal: a tenth of the lease, so that several may be missed.

    >>> next_heartbeat_seconds(300)
    30.0
    """
    return lease_seconds / 10
