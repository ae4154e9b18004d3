"""The fence: calls under a lease that is over are refused, and the job's history records it.

A store determines in its own way whether a lease is still held (a guard in a statement, a look at a
record). The refusal, its error and its event are decided here, and so is the exception: a
settlement that was accepted before and only lost its reply.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

import msgspec

from leasehold.core.model.blob import BLOB_CODEC, decode_reference
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.outcome import (
    Cancel,
    Complete,
    Fail,
    Outcome,
    Release,
    Snooze,
    within_limits,
)
from leasehold.core.model.refusals import (
    changes_status,
    completed_otherwise,
    lease_of_no_job,
    stale_lease,
)
from leasehold.core.model.status import TRANSITIONS, Event, Status
from leasehold.core.rules.messages import refused_as_stale
from leasehold.env import from_micros
from leasehold.errors import BlobDamagedError, LeaseLostError

_RUNNING: Final = Status.RUNNING  # Enum members are slow to look up in Python 3.11.

_LEADS_TO: Final[dict[type[Outcome], tuple[Event, ...]]] = {
    Complete: (Event.COMPLETED,),
    Fail: (Event.FAILED, Event.DEAD, Event.CANCELLED),
    Snooze: (Event.SNOOZED, Event.CANCELLED),
    Release: (Event.RELEASED, Event.CANCELLED),
    Cancel: (Event.CANCELLED,),
}
"""The ends that each kind of outcome may lead to, including those by a cancel request."""


class StandingJob(Protocol):
    """The state of a job as stored in its own row."""

    @property
    def status(self) -> Status: ...
    @property
    def lease_version(self) -> int:
        """The latest version that was granted."""

    @property
    def worker(self) -> str | None:
        """Its holder, while it runs."""

    @property
    def available_at(self) -> int:
        """When it became or becomes available to lease."""


J = TypeVar("J", bound=StandingJob)


class Histories(Protocol[J]):
    """The histories of jobs, inside one write."""

    def standing(self, job_id: str) -> J | None:
        """The state of a job; None if there is no such job."""

    def holder_under(self, job: J, version: int) -> str | None:
        """Who held the job under a version that is over; None if it was never granted."""

    def settled_under(self, job: J, version: int) -> Settled | None:
        """The outcome of the holder's settlement, from the attempt's record and without a time;
        None if the lease was taken from its holder or the record is gone.
        """

    def result_of(self, job: J) -> tuple[bytes, str] | None:
        """The result of a completed job and its codec; None if it has none (any more)."""

    def tell(
        self,
        job: J,
        event: Event,
        message: str,
        *,
        holder: tuple[str | None, int] | None = None,
    ) -> None:
        """Write an event that changes no status; worker and version default to the job's own."""


def is_held(job: StandingJob, version: int) -> bool:
    """Whether a job runs under this version, so that its holder may act for it."""
    return job.status is _RUNNING and job.lease_version == version


def lease_is_over(job_id: str, version: int, job: StandingJob | None) -> LeaseLostError:
    """The error for a caller that names a lease that is over."""
    if job is None:
        return lease_of_no_job(job_id, version)
    holder = (job.worker or "", job.lease_version) if job.status is Status.RUNNING else None
    return stale_lease(job_id, version, job.status, holder)


def settle_stale(histories: Histories[J], settlement: Settlement) -> Settled | LeaseLostError:
    """Answer a settlement whose lease is over: with the first answer, if it was accepted before."""
    job_id, version = settlement.job_id, settlement.version
    job = histories.standing(job_id)
    before = None if job is None else histories.settled_under(job, version)
    outcome = within_limits(settlement.outcome, job_id)
    if job is None or before is None or before.event not in _LEADS_TO[type(outcome)]:
        return refuse(histories, job_id, version)
    if isinstance(outcome, Complete) and _has_another_result(histories, job, version, outcome):
        refuse(histories, job_id, version)
        return completed_otherwise(job_id, version)
    if before.status not in (Status.FAILED, Status.SCHEDULED):
        return before
    still_waits = (job.status, job.lease_version) == (before.status, version)
    run_at = from_micros(job.available_at) if still_waits else None
    return msgspec.structs.replace(before, run_at=run_at)


def _has_another_result(histories: Histories[J], job: J, version: int, outcome: Complete) -> bool:
    """Whether the job's result under this version is known, and differs from the given one."""
    if (job.status, job.lease_version) != (Status.COMPLETED, version):
        return False  # The job was replayed: its result was dropped.
    kept = histories.result_of(job)
    if kept is None or kept == (outcome.result, outcome.codec):
        return False
    if outcome.result is None:
        return True
    try:
        kept_codec, kept_data = _content(*kept)
        codec, data = _content(outcome.result, outcome.codec)
    except BlobDamagedError:
        return False
    if kept_codec == codec == "pickle":
        return False  # The same value may be pickled in several ways.
    return (kept_codec, kept_data) != (codec, data)


def _content(data: bytes, codec: str) -> tuple[str, bytes]:
    """A result's codec and what identifies its data: for a blob, the digest.

    Two blobs with the same data have different keys but are the same result.
    """
    if codec != BLOB_CODEC:
        return codec, data
    reference = decode_reference(data)
    return reference.codec, reference.identity()


def refuse(histories: Histories[J], job_id: str, version: int) -> LeaseLostError:
    """Refuse a stale holder; only the refusal itself is written."""
    job = histories.standing(job_id)
    if job is not None:
        worker = histories.holder_under(job, version)
        message = refused_as_stale(worker, version, job.lease_version)
        histories.tell(job, Event.VERSION_MISMATCH, message, holder=(worker, version))
    return lease_is_over(job_id, version, job)


def tell(
    histories: Histories[J],
    job_id: str,
    event: Event,
    worker: str | None,
    version: int,
    message: str,
) -> None:
    """Write an event that changes nothing to a job's history, if the job is still there."""
    if event in TRANSITIONS:
        raise changes_status(event)
    job = histories.standing(job_id)
    if job is not None:
        histories.tell(job, event, message, holder=(worker, version))
