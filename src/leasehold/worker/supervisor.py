"""The supervisor: for a person (or program) that does not want to wait for a lease to expire."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.status import Status
from leasehold.errors import LeaseholdError, StoreError


class Requeued(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one stuck job: its new status, or the reason why it was left alone."""

    job: StuckJob
    """Its holder, when it started, the holder's last sign of life, and its priority."""
    status: Status | None = None
    reason: str = ""


class RequeueReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one `requeue`."""

    requeued: tuple[Requeued, ...] = ()
    not_requeued: tuple[Requeued, ...] = ()


class Supervisor:
    """Finds stuck running jobs, and takes them from their holders.

    A job is stuck if its holder gave no sign of life for `silent_seconds`, or if it has been
    running for longer than `running_seconds` despite heartbeats: its code hangs, and its worker
    does not know. None disables either rule.
    """

    def __init__(self, store: Store, *, actor: str = "supervisor") -> None:
        """`actor` is the name recorded in the orders' audit records."""
        self._store = store
        self._actor = checked.text("actor", actor)

    def find_stuck(
        self, silent_seconds: float | None = 120.0, running_seconds: float | None = None
    ) -> list[StuckJob]:
        """The stuck jobs: longest silent first, then longest running."""
        limits = {"silent_seconds": silent_seconds, "running_seconds": running_seconds}
        for name, seconds in limits.items():
            checked.number_or_none(name, seconds)
            if seconds is not None and not seconds >= 0:
                raise ValueError(f"{name} must be 0 or more, not {seconds!r}")
        return self._store.stuck(silent_seconds, running_seconds=running_seconds)

    def requeue(
        self,
        jobs: StuckJob | Iterable[StuckJob] | None = None,
        *,
        silent_seconds: float | None = 120.0,
        running_seconds: float | None = None,
        reset_attempts: bool = False,
        reason: str = "requeued by a supervisor",
    ) -> RequeueReport:
        """Make stuck jobs pending again: one, several, or (by default) all.

        A job that moved on since it was found is left alone, and the report says so. One without
        attempts left is dead afterwards, unless they are reset.
        """
        if jobs is None:
            jobs = self.find_stuck(silent_seconds, running_seconds)
        elif isinstance(jobs, StuckJob):
            jobs = (jobs,)
        jobs = checked.each("jobs", jobs, StuckJob)
        requeued: list[Requeued] = []
        not_requeued: list[Requeued] = []
        for job in jobs:
            try:
                settled = self._store.recover_one(
                    job.job_id,
                    job.lease_version,
                    reset_attempts=reset_attempts,
                    reason=reason,
                    actor=self._actor,
                )
            except StoreError:
                raise  # The store is in trouble, not this job.
            except LeaseholdError as error:
                not_requeued.append(Requeued(job=job, reason=str(error)))
                continue
            if settled.status is Status.PENDING:
                requeued.append(Requeued(job=job, status=settled.status))
            else:
                why = f"it is {settled.status} now: it had no attempt left, or was to be cancelled"
                not_requeued.append(Requeued(job=job, status=settled.status, reason=why))
        return RequeueReport(requeued=tuple(requeued), not_requeued=tuple(not_requeued))
