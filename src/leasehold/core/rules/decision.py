"""What becomes of a job whose attempt ends, or that ends without one: decided once, for all stores.

A store asks inside its atomic write and stores the `Decision` unchanged: status, event, message,
reason, error, totals. It adds nothing of its own.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Final

import msgspec

from leasehold.core.model.outcome import Cancel, Complete, JobError, Outcome, Release, Snooze
from leasehold.core.model.retry import DEFAULT_POLICY, DELAY_SECONDS_MAX, RetryPolicy
from leasehold.core.model.status import Event, Status
from leasehold.core.model.unreadable import ERROR_TYPE, set_aside_reason

_EXPLAINED: Final = frozenset({Status.CANCELLED, Status.DEAD, Status.SCHEDULED})

# Totals of a queue, by their names in `Stats`.
COMPLETED_TOTALS: Final = ("completed",)
_RETRIED: Final = ("failed", "retried")
_FAILED_FOR_GOOD: Final = ("failed", "dead")
_DEAD: Final = ("dead",)
_CANCELLED: Final = ("cancelled",)
_RECOVERED: Final = ("lost", "recovered")
_LOST_AND_DEAD: Final = ("lost", "dead")
_LOST_AND_CANCELLED: Final = ("lost", "cancelled")


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What becomes of a job."""

    event: Event
    status: Status
    attempts: int
    """Attempts spent so far, the current one included or handed back."""
    totals: tuple[str, ...] = ()
    """The totals of its queue that grow by one."""
    message: str = ""
    error: JobError | None = None
    """The error shown by the attempt record and the job, if the attempt failed."""
    run_at: datetime | None = None
    """When a waiting job may run again."""
    has_run: bool = False
    """Whether the attempt ended on its own, so that its run time is meaningful."""

    @property
    def is_failure(self) -> bool:
        """Whether the attempt failed or its worker was lost; False for a cancelled one."""
        return self.error is not None and self.status is not Status.CANCELLED

    @property
    def reason(self) -> str | None:
        """Why the job has ended or waits; other decisions need no reason."""
        return self.message or None if self.status in _EXPLAINED else None


@lru_cache(maxsize=100)
def completed(attempts: int) -> Decision:
    """The end of a running job by a `Complete`, independent of its other fields."""
    return Decision(
        Event.COMPLETED, Status.COMPLETED, attempts, COMPLETED_TOTALS, "", None, None, True
    )


def decide(
    outcome: Outcome,
    *,
    attempts: int,
    allowance: int,
    policy: RetryPolicy | None,
    cancel_reason: str | None,
    now: datetime,
    random: Random,
) -> Decision:
    """What becomes of a running job whose current lease settles with `outcome`.

    `attempts` includes the current one; `allowance` is how many the job may have in total.
    `cancel_reason` is set when a person asked to stop the job: any outcome that does not end it
    then cancels it.
    """
    if isinstance(outcome, Complete):
        return completed(attempts)
    if isinstance(outcome, Cancel):
        return _cancelled(attempts, outcome.reason or cancel_reason or "")
    if cancel_reason is not None:
        # The attempt counts as cancelled, not as failed, but its error is kept.
        error = None if isinstance(outcome, Snooze | Release) else outcome.error
        return _cancelled(attempts, cancel_reason, error)
    if isinstance(outcome, Snooze):
        return _handed_back(Event.SNOOZED, attempts, outcome.reason, now, outcome.seconds)
    if isinstance(outcome, Release):
        if outcome.delay_seconds:
            delay = outcome.delay_seconds
            return _handed_back(Event.RELEASED, attempts, outcome.reason, now, delay)
        return Decision(Event.RELEASED, Status.PENDING, attempts - 1, message=outcome.reason)
    message = f"{outcome.error.type}: {outcome.error.message}"
    if not outcome.retryable or attempts >= allowance:
        return failed_for_good(attempts, message, outcome.error)
    delay_seconds = outcome.retry_after_seconds
    if delay_seconds is None:
        delay_seconds = (policy or DEFAULT_POLICY).delay_seconds(attempts, random)
    # A task may give any number, NaN included; it must not break the store's write.
    run_at = now + timedelta(seconds=min(max(0.0, delay_seconds), DELAY_SECONDS_MAX))
    return Decision(
        Event.FAILED, Status.FAILED, attempts, _RETRIED, message, outcome.error, run_at, True
    )


def failed_for_good(attempts: int, message: str, error: JobError) -> Decision:
    """The end of a running job after a failure that must not or cannot be retried."""
    return Decision(
        Event.DEAD, Status.DEAD, attempts, _FAILED_FOR_GOOD, message, error, has_run=True
    )


def decide_recovery(
    *, attempts: int, allowance: int, cancel_reason: str | None, error: JobError | None = None
) -> Decision:
    """What becomes of a running job taken from its holder; `error` says how the holder was lost."""
    if cancel_reason is not None:
        cancelled = _cancelled(attempts, cancel_reason, error)
        return msgspec.structs.replace(cancelled, totals=_LOST_AND_CANCELLED)
    if attempts >= allowance:
        message = "its worker was lost, and no attempts are left"
        return Decision(Event.DEAD, Status.DEAD, attempts, _LOST_AND_DEAD, message, error)
    why = "" if error is None else error.message
    return Decision(Event.RECOVERED, Status.PENDING, attempts, _RECOVERED, why, error)


def end_of_waiting(after: Status, attempts: int, reason: str) -> Decision:
    """What becomes of a job that ends while it waits: it is cancelled, or a dead letter."""
    if after is Status.DEAD:
        return Decision(Event.DEAD, Status.DEAD, attempts, _DEAD, reason)
    assert after is Status.CANCELLED, f"a job that waits cannot end as {after}"
    return _cancelled(attempts, reason)


def set_aside(attempts: int, problem: str) -> Decision:
    """What becomes of a running job whose row cannot be read: it is a dead letter."""
    reason = set_aside_reason(problem)
    return Decision(Event.DEAD, Status.DEAD, attempts, _DEAD, reason, JobError(ERROR_TYPE, reason))


def _cancelled(attempts: int, reason: str, error: JobError | None = None) -> Decision:
    return Decision(Event.CANCELLED, Status.CANCELLED, attempts, _CANCELLED, reason, error)


def _handed_back(
    event: Event, attempts: int, reason: str, now: datetime, seconds: float
) -> Decision:
    run_at = now + timedelta(seconds=seconds)
    return Decision(event, Status.SCHEDULED, attempts - 1, message=reason, run_at=run_at)
