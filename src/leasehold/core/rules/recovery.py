"""Recovery: which leases are lost, and how jobs are taken back from their holders.

Both verbs are written once, here: the sweep, and the order to take one job. A store provides its
`Holdings`, inside one write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from leasehold.core.model.draft_checks import check_reason
from leasehold.core.model.lease import LOST_TOLD_MAX, LostAttempt, Settled, SweepReport
from leasehold.core.model.lives import Life
from leasehold.core.model.outcome import JobError
from leasehold.core.model.records import SILENT_SECONDS
from leasehold.core.model.status import Event
from leasehold.core.rules.decision import Decision, decide_recovery
from leasehold.core.rules.fence import StandingJob, lease_is_over
from leasehold.env import from_micros

WORKER_LOST: Final = "WorkerLost"
"""The error type of a lost attempt: its worker died, or let its lease expire."""

WORKER_SILENT_MICROS_MAX: Final = 24 * 3600 * 1_000_000
"""A worker that cannot be proved dead and holds no lease is forgotten after this long a silence."""


def silent_since(now: int) -> tuple[int, int]:
    """The latest signs of life of consumers, and of other workers, with which they are forgotten if
    they hold no lease.
    """
    return now - round(SILENT_SECONDS * 1e6), now - WORKER_SILENT_MICROS_MAX


class HeldJob(NamedTuple):
    """A running job that may be taken from its holder; times in microseconds."""

    version: int
    worker: str
    life: int
    """The life of its worker under which it was leased."""
    expires_at: int
    heartbeat_at: int
    attempts: int
    allowance: int
    allowance_at_first: int
    """The allowance with which it was submitted; a replay adds to it."""
    cancel_reason: str | None


H = TypeVar("H")
"""A store's own handle of a running job."""


class Holdings(Protocol[H]):
    """The running jobs of a store."""

    def held(self, job_id: str, version: int) -> tuple[H, HeldJob] | None:
        """A job, if it runs under this version."""

    def standing(self, job_id: str) -> StandingJob | None:
        """The state of a job; None if there is no such job."""

    def set_allowance(self, job: H, allowance: int) -> None:
        """Set how many attempts a job may have in total."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        """Write an audit record."""

    def take_back(self, job: H, decision: Decision) -> Settled:
        """End a job's lease; the attempt's record becomes a checkpoint with the lease's state."""


def take_back_restored(holdings: Holdings[H], running: Iterable[tuple[H, HeldJob]]) -> list[Event]:
    """Take back every job that is running according to a copy of the store restored in its place.

    The leases may have been taken from their holders since the copy was made, and the jobs settled
    by others: only a new lease, under a version that was never granted, may settle them.
    """
    return [
        holdings.take_back(handle, _decide(job, _lost(job, _restored(job)))).event
        for handle, job in running
    ]


def sweep(
    holdings: Holdings[H],
    suspects: Iterable[tuple[H, HeldJob]],
    *,
    now: int,
    dead: Collection[Life] = (),
) -> list[LostAttempt]:
    """Take back the given jobs that are lost; returns what became of each."""
    lost = []
    for handle, job in suspects:
        error = how_lost(job, now, dead)
        if error is not None:
            settled = holdings.take_back(handle, _decide(job, error))
            lost.append(LostAttempt(settled, job.worker, error))
    return lost


def note_sweep(
    audit: Callable[[str, str, int, dict[str, Any]], None], actor: str, report: SweepReport
) -> None:
    """Audit a sweep that a person ordered, with its result."""
    found = {"recovered": report.recovered, "dead": report.dead, "cancelled": report.cancelled}
    audit(actor, "sweep", sum(found.values()), found)


def recover_one(
    holdings: Holdings[H],
    job_id: str,
    version: int,
    *,
    reset_attempts: bool,
    reason: str,
    actor: str | None,
) -> Settled:
    """Take one job from its holder although its lease is valid; raises if that lease is over."""
    check_reason(reason)
    found = holdings.held(job_id, version)
    if found is None:
        # A sweep is not a stale holder: its coming late is not part of the job's history.
        raise lease_is_over(job_id, version, holdings.standing(job_id))
    handle, job = found
    if reset_attempts:
        job = job._replace(attempts=0, allowance=job.allowance_at_first)
        holdings.set_allowance(handle, job.allowance)
    if actor is not None:
        detail = {"jobs": [job_id], "worker": job.worker, "reset_attempts": reset_attempts}
        holdings.audit(actor, "requeue", 1, detail)
    error = _lost(job, f"the job was taken from worker {job.worker}: {reason}")
    return holdings.take_back(handle, _decide(job, error))


def how_lost(job: HeldJob, now: int, dead: Collection[Life] = ()) -> JobError | None:
    """The error of an attempt whose holder is lost; None while its lease is valid.

    A lease is lost when it has expired, or at once when the worker that took it is proved `dead`; a
    process that leases under a dead worker's name is not that worker.

    >>> job = HeldJob(3, "w", 7, 1_000_000, 0, 1, 4, 4, None)
    >>> how_lost(job, now=999_999) is None
    True
    >>> how_lost(job, now=1_000_000).message.partition(";")[0]
    'worker w let its lease expire at 1970-01-01T00:00:01+00:00'
    >>> how_lost(job, now=0, dead={Life("w", 7)}).message.partition(";")[0]
    'worker w died'
    >>> how_lost(job, now=0, dead={Life("w", 6)}) is None
    True
    """
    if (job.worker, job.life) in dead:
        return _lost(job, f"worker {job.worker} died")
    if job.expires_at <= now:
        at = from_micros(job.expires_at).isoformat()
        return _lost(job, f"worker {job.worker} let its lease expire at {at}")
    return None


def report_of(lost: Sequence[LostAttempt], set_aside: Sequence[Event] = ()) -> SweepReport:
    """A sweep's report on the jobs that it took back or set aside; each has left a checkpoint."""
    events = [each.settled.event for each in lost] + list(set_aside)
    return SweepReport(
        expired_found=len(events),
        recovered=events.count(Event.RECOVERED),
        dead=events.count(Event.DEAD),
        cancelled=events.count(Event.CANCELLED),
        checkpoints_created=len(events),
        lost=tuple(lost[:LOST_TOLD_MAX]),
    )


def _restored(job: HeldJob) -> str:
    return f"the store was restored from a copy in which worker {job.worker} held the job"


def _lost(job: HeldJob, how: str) -> JobError:
    heartbeat = from_micros(job.heartbeat_at).isoformat()
    return JobError(WORKER_LOST, f"{how}; lease version {job.version}, last heartbeat {heartbeat}")


def _decide(job: HeldJob, error: JobError) -> Decision:
    return decide_recovery(
        attempts=job.attempts,
        allowance=job.allowance,
        cancel_reason=job.cancel_reason,
        error=error,
    )
