"""Recovery: which leases are lost, how that is said, and what a sweep reports.

What becomes of a job that is taken back is in `decision.decide_recovery`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from leasehold.core.decision import Decision
from leasehold.core.lease import SweepReport
from leasehold.core.outcome import JobError
from leasehold.core.status import Event
from leasehold.env import from_micros

WORKER_LOST: Final = "WorkerLost"
"""The type of the error that a lost attempt leaves: its worker died, or let its lease expire."""

WORKER_SILENT_MICROS_MAX: Final = 24 * 3600 * 1_000_000
"""A worker that cannot be proved dead, and holds nothing, is forgotten after so long a silence."""


class HeldLease(NamedTuple):
    """A lease that may be lost; times in microseconds."""

    version: int
    worker: str
    expires_at: int
    heartbeat_at: int

    def lost_to(self, how: str) -> JobError:
        """The error of an attempt that came to nothing in this way."""
        heartbeat = from_micros(self.heartbeat_at).isoformat()
        return JobError(
            WORKER_LOST, f"{how}; lease version {self.version}, last heartbeat {heartbeat}"
        )


def lost(lease: HeldLease, now: int, dead: Collection[str] = ()) -> JobError | None:
    """The error of an attempt whose holder is lost; None while the lease is good.

    A lease is lost when it has expired, or at once when its worker is proved `dead`.

    >>> lease = HeldLease(3, "w", expires_at=1_000_000, heartbeat_at=0)
    >>> lost(lease, now=999_999) is None
    True
    >>> lost(lease, now=1_000_000).message.partition(";")[0]
    'worker w let its lease expire at 1970-01-01T00:00:01+00:00'
    >>> lost(lease, now=0, dead={"w"}).message.partition(";")[0]
    'worker w died'
    """
    if lease.worker in dead:
        return lease.lost_to(f"worker {lease.worker} died")
    if lease.expires_at <= now:
        at = from_micros(lease.expires_at).isoformat()
        return lease.lost_to(f"worker {lease.worker} let its lease expire at {at}")
    return None


def taken(lease: HeldLease, reason: str) -> JobError:
    """The error of an attempt that a person took from its worker."""
    return lease.lost_to(f"the job was taken from worker {lease.worker}: {reason}")


def report_of(decisions: Iterable[Decision]) -> SweepReport:
    """What a sweep says of the jobs it took back: each has left a checkpoint."""
    events = [decision.event for decision in decisions]
    return SweepReport(
        expired_found=len(events),
        recovered=events.count(Event.RECOVERED),
        dead=events.count(Event.DEAD),
        cancelled=events.count(Event.CANCELLED),
        checkpoints_created=len(events),
    )
