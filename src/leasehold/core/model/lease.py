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
    """Who leases in a loop of its own, without having registered as a worker."""

    queues: tuple[str, ...]
    """All those it has leased from lately, in whichever calls; none once it leases no more."""
    host: str | None = None
    """None, as is `pid`, if it reaches the store over a network."""
    pid: int | None = None


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants to lease what."""

    worker: str
    queues: tuple[str, ...] = ("default",)
    limit: int = 1
    free_slots: int | None = None
    """How many of them can begin at once; the others are leased ahead, and jobs with a start rate
    are not (STA-5). None: all can begin."""
    lease_seconds: float | None = None
    """For jobs that name none of their own; None leaves it to the store's settings."""
    lease_seconds_by_task: dict[str, float] | None = None
    """For jobs of these tasks that name none of their own, before `lease_seconds`."""
    lease_seconds_override: float | None = None
    """For all jobs, over the values of the job, its queue and the store's settings."""
    tasks: tuple[str, ...] | None = None
    """Only these tasks; None for any."""
    except_lanes: tuple[tuple[str, str], ...] = ()
    """Not the jobs of these queues and tasks, which the worker leaves to others."""
    parent_id: str | None = None
    """Only jobs of this group."""
    consumer: Consumer | None = None
    """Enter the worker into the registry as a consumer, or note that it still is one. A consumer
    that leases many times a second says so now and then only."""

    def __post_init__(self) -> None:
        """Refuse leases that could not be held, and names that could not be read."""
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
        """Whether jobs of a task in one of its queues are to be leased at all."""
        return (self.tasks is None or task in self.tasks) and (
            not self.except_lanes or (queue, task) not in self.except_lanes
        )


def check_worker_name(name: str) -> None:
    """Refuse a name that cannot be shown as it is: on a terminal, in a log, on a page."""
    if not (0 < len(name) <= NAME_LENGTH_MAX and name.isprintable()):
        raise InvalidRequestError(
            f"a worker's name has 1 to {NAME_LENGTH_MAX} printable characters, not {name[:40]!r}"
        )


class Lease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A worker's grant: the data it needs to run the job, and the token that proves its right.

    It crosses a network by the hundred, as an array: the names of its fields are half of a map. It
    holds plain data only, so that the garbage collector need not look at it. Stores make it by the
    places of its fields: by their names it takes ten times as long.
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
    """Which attempt this is, from 1."""
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
    """A holder's last word on its lease."""

    job_id: str
    version: int
    outcome: Outcome


def handed_back(leases: Iterable[Lease]) -> list[Settlement]:
    """The release of leases whose holder left before it had them; no attempt is spent."""
    released = Release(reason="its consumer left before it had the lease")
    return [Settlement(each.job_id, each.version, released) for each in leases]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The store's answer to a settlement: what became of the job."""

    job_id: str
    version: int
    event: Event
    status: Status
    attempts: int
    run_at: datetime | None = None
    """When it will be tried again, if it waits."""


class Renewal(msgspec.Struct, frozen=True):
    """A holder's wish to keep its lease for `lease_seconds` from now."""

    job_id: str
    version: int
    lease_seconds: float


class Renewed(msgspec.Struct, frozen=True):
    """The store's answer to a renewal."""

    job_id: str
    version: int
    expires_at: datetime
    granted_seconds: float
    """How long that was from now when the store answered: less than asked for near the limit on
    extensions. A holder counts it by its own watch, from before it asked.
    """
    next_heartbeat_seconds: float
    cancel_requested: str | None = None
    """The reason, once somebody asked to stop this attempt."""


class Exchange(msgspec.Struct, frozen=True):
    """The answer to one exchange with the store: the settled and the leased jobs."""

    settled: list[Settled | LeaseLostError]
    """One per settlement, in order; a stale one is answered with the error, not raised."""
    leases: list[Lease]
    next_due_at: datetime | None = None
    """When the next delayed job becomes due, or the next job may start (STA-4), if fewer were
    leased than asked for."""
    next_tick_at: datetime | None = None
    """When the next schedule ticks, if leases were asked for."""
    settings_generation: int = 0
    """Which settings of the store counted: a holder that knows others should look at them."""
    at: datetime | None = None
    """The store's time when it answered; None only where no store did."""


class StuckJob(msgspec.Struct, frozen=True, kw_only=True):
    """A running job that shows no sign of life, or runs for too long, and who holds it."""

    job_id: str
    queue: str
    task: str
    priority: int
    worker: str
    lease_version: int
    attempts: int
    started_at: datetime
    """Since when it runs."""
    heartbeat_at: datetime
    """Since when its holder is silent."""
    lease_expires_at: datetime


LOST_TOLD_MAX: Final = 1000
"""So many of the attempts that one sweep found lost are told one by one."""


class LostAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt whose worker was lost, as the sweep that took its job back tells it."""

    settled: Settled
    """What became of the job."""
    worker: str
    """Who was lost."""
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
        """The report of both, one after the other."""
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
    """The state of a lease that is to be renewed; times in microseconds."""

    acquired_at: int
    expires_at: int
    moved_by: int
    """By how much its expiry was moved because the clock moved on without its holder."""
    cancel_reason: str | None


def decide_renewal(
    renewal: Renewal, lease: RunningLease, *, now: int, extension_seconds_max: float
) -> tuple[int, Renewed] | LeaseExpiredError:
    """The new expiry of a lease that is held, and the answer; or why it is not renewed.

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
    """The advice that goes with a renewal: a tenth of the lease, so that several may be missed.

    >>> next_heartbeat_seconds(300)
    30.0
    """
    return lease_seconds / 10
