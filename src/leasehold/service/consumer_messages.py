"""What consumers send, and what they are answered."""

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
    """Which jobs a worker would run."""

    worker: Name
    """The worker's own name; it is registered under it, and its leases are."""
    queues: Queues = ("default",)
    tasks: list[Name] | None = None
    """Only these; none for any."""
    parent_id: Name | None = None
    """Only jobs of this group."""
    limit: Annotated[int, Meta(ge=1, le=LEASES_AT_ONCE_MAX)] = 1
    lease_seconds: Seconds | None = None
    """For jobs that name none of their own."""

    def lease_request(self, caller: Caller) -> LeaseRequest:
        """What the store is asked; raises ForbiddenError for queues that are not the caller's."""
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
    """Lease jobs, waiting for the first of them."""

    wait_seconds: WaitSeconds = WAIT_SECONDS
    request_id: Name | None = None
    """A request that is sent again under the same id gets the same leases."""


class LeaseDocument(Answer):
    """A job to run, and what proves the right to."""

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
    """The leases, none if no job came in time."""

    leases: list[LeaseDocument]
    next_due_at: datetime | None = None
    """When the next delayed job becomes due."""


class Held(Request):
    """A lease, by what proves it."""

    job_id: str
    version: Version
    secret: str


class CompleteJob(Held):
    """The job is done."""

    result: Any = None
    note: Any = None
    """Whatever is to stand in the attempt's record."""


class ErrorGiven(Request):
    """Why an attempt failed."""

    type: str = "Error"
    message: str = ""
    traceback: str | None = None


class FailJob(Held):
    """The attempt failed."""

    error: ErrorGiven = msgspec.field(default_factory=ErrorGiven)
    requeue: bool = True
    """False makes it a dead letter at once."""
    retry_after_seconds: Delay | None = None
    """In place of the job's own backoff."""


class SnoozeJob(Held):
    """Not now: run it again later, with no attempt spent."""

    delay_seconds: Delay
    reason: str = ""


class ReleaseJob(Held):
    """Hand it back unfinished, with no attempt spent."""

    delay_seconds: Delay = 0.0
    reason: str = ""


class CancelHeld(Held):
    """Stop here, for good."""

    reason: str = ""


class HeldFor(Held):
    """A lease, and for how long from now to keep it."""

    lease_seconds: Seconds | None = None
    """None for as long as it was granted the last time."""


class RenewLease(HeldFor):
    """Keep a lease for so long from now."""

    worker: Name | None = None
    """None for whom it was granted to."""


class RenewLeases(Request):
    """Keep all leases of a worker, in one write."""

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
    """How far it is, in any words."""

    progress: dict[str, Any]


class GivenLine(Request):
    """A line, and when it was logged."""

    text: str
    at: Moment | None = None
    """None for now."""


class LogLines(Held):
    """What the task has logged."""

    lines: Annotated[list[GivenLine | str], Meta(max_length=LEASES_AT_ONCE_MAX)]
    """Each a text, or a text with its time."""
    dropped: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """How many before them its worker has dropped."""


class SettleComplete(CompleteJob, tag="complete", tag_field="outcome"):
    """The job is done."""


class SettleFail(FailJob, tag="fail", tag_field="outcome"):
    """The attempt failed."""


class SettleSnooze(SnoozeJob, tag="snooze", tag_field="outcome"):
    """Not now: run it again later, with no attempt spent."""


class SettleRelease(ReleaseJob, tag="release", tag_field="outcome"):
    """Hand it back unfinished, with no attempt spent."""


class SettleCancel(CancelHeld, tag="cancel", tag_field="outcome"):
    """Stop here, for good."""


GivenSettlement = SettleComplete | SettleFail | SettleSnooze | SettleRelease | SettleCancel


GivenSettlements = Annotated[tuple[GivenSettlement, ...], Meta(max_length=LEASES_AT_ONCE_MAX)]


class ExchangeJobs(Request):
    """Settle what was run and lease what comes next, in one write."""

    settlements: GivenSettlements = ()
    lease: Wanted | None = None
    wait_seconds: WaitSeconds = 0.0
    """How long to wait for a job to lease, once all is settled."""
    request_id: Name | None = None
    """A request that is sent again under the same id is answered as the first time."""


class SettlementAnswer(Answer):
    """What became of a job, or why the settlement came too late."""

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
    """What became of the job."""

    job_id: str
    version: int
    event: Event
    status: Status
    attempts: int
    run_at: datetime | None
    """When it will be tried again, if it waits."""
