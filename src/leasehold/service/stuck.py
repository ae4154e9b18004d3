"""Stuck jobs: those whose holder is silent, or that run for too long."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from leasehold.core.model.lease import StuckJob
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.operation import Answer, Request, operation
from leasehold.worker.supervisor import Requeued, Supervisor

REQUEUED_AT_ONCE: Final = 100
"""Each is a write of its own."""

Bound = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]


class FindStuck(Request):
    """When a running job counts as stuck."""

    silent_seconds: Bound | None = 120.0
    """After so long without a heartbeat; null for never."""
    running_seconds: Bound | None = None
    """After it has run for so long, with heartbeats; none for never."""


class RequeueStuck(FindStuck):
    """Which running jobs to take from their holders, so that they run again."""

    reset_attempts: bool = False
    """Whether the jobs get all their attempts again; without, one that has none left is dead."""


class StuckJobs(Answer):
    """The stuck jobs, those that have been silent the longest first."""

    jobs: list[StuckJob]


class RequeueAnswer(Answer):
    """The outcome for each job, and whether there are more."""

    requeued: list[Requeued]
    not_requeued: list[Requeued]
    """Jobs that have moved on meanwhile, or that are dead now."""
    more: bool


class Stuck(ApiPart):
    """Operations for those who do not want to wait until a lease expires."""

    @operation("GET", "/stuck", "operator", "observer")
    def stuck(self, caller: Caller, request: FindStuck) -> StuckJobs:
        """List running jobs that have shown no sign of life for some time, or run for too long."""
        caller.check_unscoped()
        found = self.store.stuck(request.silent_seconds, running_seconds=request.running_seconds)
        return StuckJobs(jobs=found)

    @operation("POST", "/stuck/requeue", "operator")
    def requeue_stuck(self, caller: Caller, request: RequeueStuck) -> RequeueAnswer:
        """Take stuck jobs from their holders, whose outcomes are then refused; they run again.

        Repeat the request while `more` is true in the answer.
        """
        caller.check_unscoped()
        supervisor = Supervisor(self.store, actor=caller.actor)
        found = supervisor.find_stuck(request.silent_seconds, request.running_seconds)
        report = supervisor.requeue(
            found[:REQUEUED_AT_ONCE],
            reset_attempts=request.reset_attempts,
            reason=f"requeued by {caller.actor}",
        )
        return RequeueAnswer(
            requeued=list(report.requeued),
            not_requeued=list(report.not_requeued),
            more=len(found) > REQUEUED_AT_ONCE,
        )
