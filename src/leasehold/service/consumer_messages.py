"""The requests of consumers, and the answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from leasehold.core.model.job import MetadataValue
from leasehold.core.model.lease import (
    Consumer,
    LeaseRequest,
    Renewed,
    Settled,
)
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.queue_config import check_queue_name
from leasehold.core.model.retry import RetryPolicy
from leasehold.core.model.status import Event, Status
from leasehold.service.answers import Problem
from leasehold.service.caller import Caller
from leasehold.service.new_job import Moment, Name
from leasehold.service.operation import Answer, Request
from leasehold.service.producers import WAIT_SECONDS, WaitSeconds

LEASES_AT_ONCE_MAX: Final = 1000

Version = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]
Delay = Annotated[float, Meta(ge=0, le=366 * 24 * 3600)]
Queues = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1000)]


class Wanted(Request):
    """The jobs that a worker can run."""

    worker: Name
    """The name under which the worker is registered and holds its leases."""
    queues: Queues = ("default",)
    tasks: list[Name] | None = None
    """Only these; none for any."""
    parent_id: Name | None = None
    """Only jobs of this group."""
    limit: Annotated[int, Meta(ge=1, le=LEASES_AT_ONCE_MAX)] = 1
    lease_seconds: Seconds | None = None
    """For jobs that name none of their own."""

    def lease_request(self, caller: Caller) -> LeaseRequest:
        """The request to the store; raises ForbiddenError for queues that are not the caller's.

        Those that no queue can be named after raise InvalidQueueError: the worker is registered for
        all of them.
        """
        for queue in self.queues:
            check_queue_name(queue)
        caller.check_queue(*self.queues)
        return LeaseRequest(
            worker=caller.worker_name(self.worker),
            queues=self.queues,
            limit=self.limit,
            lease_seconds=self.lease_seconds,
            tasks=None if self.tasks is None else tuple(self.tasks),
            parent_id=self.parent_id,
            consumer=Consumer(queues=self.queues),
        )


class LeaseJobs(Wanted):
    """Lease jobs; if there are none, wait for the first one."""

    wait_seconds: WaitSeconds = WAIT_SECONDS
    request_id: Name | None = None
    """A request that is sent again under the same id gets the same leases."""


class LeaseDocument(Answer):
    """A job to run, and the proof that its holder may run it."""

    job_id: str
    version: int
    """The fencing token: it only grows."""
    secret: str
    """Beside the version, what every call under this lease must know."""
    worker: str
    queue: str
    task: str
    payload: Any
    """The job's document: `args` and `kwargs` of a call, or any other JSON."""
    priority: int
    attempt: int
    allowance: int
    acquired_at: datetime
    expires_at: datetime
    lease_seconds: float
    next_heartbeat_seconds: float
    timeout_seconds: float | None
    deadline: datetime | None
    retry: RetryPolicy | None
    metadata: dict[str, MetadataValue] | None
    parent_id: str | None


class Leases(Answer):
    """The leases; none if no job became available in time."""

    leases: list[LeaseDocument]
    next_due_at: datetime | None = None
    """When the next delayed job becomes due."""


class Held(Request):
    """A lease, with the version and secret that prove it."""

    job_id: str
    version: Version
    secret: str


class CompleteJob(Held):
    """Complete a leased job."""

    result: Any = None
    note: Any = None
    """A note for the record of the attempt, of any kind."""


class ErrorGiven(Request):
    """Why an attempt failed."""

    type: str = "Error"
    message: str = ""
    traceback: str | None = None


class FailJob(Held):
    """Report that a job's attempt failed."""

    error: ErrorGiven = msgspec.field(default_factory=ErrorGiven)
    requeue: bool = True
    """False makes the job a dead letter at once."""
    retry_after_seconds: Delay | None = None
    """In place of the job's own backoff."""


class SnoozeJob(Held):
    """Put a leased job off until later, without using up an attempt."""

    delay_seconds: Delay
    reason: str = ""


class ReleaseJob(Held):
    """Hand a leased job back unfinished, without using up an attempt."""

    delay_seconds: Delay = 0.0
    reason: str = ""


class CancelHeld(Held):
    """End a leased job as cancelled."""

    reason: str = ""


class HeldFor(Held):
    """A lease, and how long from now it is to last."""

    lease_seconds: Seconds | None = None
    """None for as long as it was granted the last time."""


class RenewLease(HeldFor):
    """Renew a lease for a time that begins now."""

    worker: Name | None = None
    """None for whom it was granted to."""


class RenewLeases(Request):
    """Renew all leases of a worker in one write."""

    worker: Name
    leases: Annotated[list[HeldFor], Meta(max_length=LEASES_AT_ONCE_MAX)]


class RenewalAnswer(Answer):
    """A lease that was renewed, or why it was not."""

    renewed: Renewed | None = None
    error: Problem | None = None


class Renewals(Answer):
    """One answer per lease, in order."""

    renewals: list[RenewalAnswer]


class ReportProgress(Held):
    """The progress of a job, as any JSON object."""

    progress: dict[str, Any]


class GivenLine(Request):
    """A line, and when it was logged."""

    text: str
    at: Moment | None = None
    """None for now."""


class LogLines(Held):
    """Lines for the log of a job."""

    lines: Annotated[list[GivenLine | str], Meta(max_length=LEASES_AT_ONCE_MAX)]
    """Each a text, or a text with its time."""
    dropped: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """The number of earlier lines that the worker has dropped."""


class SettleComplete(CompleteJob, tag="complete", tag_field="outcome"):
    """Complete a leased job."""


class SettleFail(FailJob, tag="fail", tag_field="outcome"):
    """Report that a job's attempt failed."""


class SettleSnooze(SnoozeJob, tag="snooze", tag_field="outcome"):
    """Put a leased job off until later, without using up an attempt."""


class SettleRelease(ReleaseJob, tag="release", tag_field="outcome"):
    """Hand a leased job back unfinished, without using up an attempt."""


class SettleCancel(CancelHeld, tag="cancel", tag_field="outcome"):
    """End a leased job as cancelled."""


GivenSettlement = SettleComplete | SettleFail | SettleSnooze | SettleRelease | SettleCancel


GivenSettlements = Annotated[tuple[GivenSettlement, ...], Meta(max_length=LEASES_AT_ONCE_MAX)]


class ExchangeJobs(Request):
    """Settle jobs that have run and lease the next ones, in one write."""

    settlements: GivenSettlements = ()
    lease: Wanted | None = None
    wait_seconds: WaitSeconds = 0.0
    """How long to wait for a job to lease, after the settlements are stored."""
    request_id: Name | None = None
    """A request that is sent again under the same id is answered as the first time."""


class SettlementAnswer(Answer):
    """The job's new status, or the problem with its settlement."""

    settled: Settled | None = None
    error: Problem | None = None


class ExchangeAnswer(Answer):
    """One answer per settlement, in order, and the new leases."""

    settled: list[SettlementAnswer]
    leases: list[LeaseDocument]
    next_due_at: datetime | None
    next_tick_at: datetime | None
    settings_generation: int
    at: datetime | None


class SettleAnswer(Answer):
    """The job's new status."""

    job_id: str
    version: int
    event: Event
    status: Status
    attempts: int
    run_at: datetime | None
    """When the job is tried again, if it waits for that."""
