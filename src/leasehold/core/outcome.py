"""What can become of an attempt, and what that makes of its job.

A task returns a plain value (that is `Complete`), raises (that is `Fail`), or returns one of
`Snooze`, `Retry` and `Cancel` to say something else. `decide` is the one place that turns an
outcome into the job's next status; every store calls it inside its atomic write.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec

from leasehold.core.breaker import Breaker
from leasehold.core.limits import PAYLOAD_BYTES_MAX
from leasehold.core.retry import DEFAULT_POLICY, DELAY_SECONDS_MAX, RetryPolicy
from leasehold.core.status import Event, Status


class JobError(msgspec.Struct, frozen=True):
    """An error as data: never the exception object, which only its own process could rebuild."""

    type: str
    message: str
    traceback: str | None = None


class Complete(msgspec.Struct, frozen=True, tag="complete"):
    """The task did its work. `result` is encoded; `note` is what it attached, any JSON document."""

    result: bytes | None = None
    note: bytes | None = None
    codec: str = "json"


class Fail(msgspec.Struct, frozen=True, tag="fail"):
    """The attempt failed. `retry_after_seconds` overrules the job's backoff."""

    error: JobError
    retryable: bool = True
    retry_after_seconds: float | None = None
    breaker: Breaker | None = None
    """The task's circuit breaker, if it has one."""


class Snooze(msgspec.Struct, frozen=True, tag="snooze"):
    """Not now: run the job again in `seconds`, with no attempt spent.

    A task returns it: `return Snooze(60)`.
    """

    seconds: float
    reason: str = ""

    def __post_init__(self) -> None:
        _check_delay("Snooze", self.seconds)


class Release(msgspec.Struct, frozen=True, tag="release"):
    """The holder hands the job back unfinished, with no attempt spent."""

    delay_seconds: float = 0.0
    reason: str = ""

    def __post_init__(self) -> None:
        _check_delay("Release", self.delay_seconds)


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop here, for good: the job is cancelled. A task returns it: `return Cancel("sold out")`."""

    reason: str = ""


class Retry(msgspec.Struct, frozen=True):
    """A task returns it to be tried again after so many seconds; the attempt is spent.

    Without `after`, the job's own backoff decides.
    """

    after: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.after is not None:
            _check_delay("Retry", self.after)

    def as_failure(self) -> Fail:
        """The outcome it stands for."""
        return Fail(
            JobError("Retry", self.reason or "the task asked to be retried"),
            retry_after_seconds=self.after,
        )


Outcome = Complete | Fail | Snooze | Release | Cancel


def within_limits(outcome: Outcome, job_id: str) -> Outcome:
    """The outcome, or the permanent failure that a result too large to keep makes of it."""
    if not isinstance(outcome, Complete) or outcome.result is None:
        return outcome
    size = len(outcome.result)
    if size <= PAYLOAD_BYTES_MAX:
        return outcome
    message = (
        f"the result of job {job_id} has {size:,} bytes; at most {PAYLOAD_BYTES_MAX:,} are kept: "
        "store the data elsewhere and return a reference"
    )
    return Fail(JobError("PayloadTooLargeError", message), retryable=False)


class Decision(msgspec.Struct, frozen=True):
    """What an outcome makes of the job."""

    event: Event
    status: Status
    attempts: int
    """Attempts spent so far, this one included or handed back."""
    run_at: datetime | None = None
    """When it may run again, for a job that waits."""
    message: str = ""


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

    `attempts` counts this one; `allowance` is how many the job may have in all; `cancel_reason` is
    set when a person asked to stop it: then whatever does not end the job cancels it.
    """
    if isinstance(outcome, Complete):
        return Decision(Event.COMPLETED, Status.COMPLETED, attempts)
    if isinstance(outcome, Cancel):
        return Decision(
            Event.CANCELLED,
            Status.CANCELLED,
            attempts,
            message=outcome.reason or cancel_reason or "",
        )
    if cancel_reason is not None:
        return Decision(Event.CANCELLED, Status.CANCELLED, attempts, message=cancel_reason)
    if isinstance(outcome, Snooze):
        run_at = now + timedelta(seconds=outcome.seconds)
        return Decision(
            Event.SNOOZED, Status.SCHEDULED, attempts - 1, run_at, message=outcome.reason
        )
    if isinstance(outcome, Release):
        if outcome.delay_seconds:
            run_at = now + timedelta(seconds=outcome.delay_seconds)
            return Decision(
                Event.RELEASED, Status.SCHEDULED, attempts - 1, run_at, message=outcome.reason
            )
        return Decision(Event.RELEASED, Status.PENDING, attempts - 1, message=outcome.reason)
    message = f"{outcome.error.type}: {outcome.error.message}"
    if not outcome.retryable or attempts >= allowance:
        return Decision(Event.DEAD, Status.DEAD, attempts, message=message)
    delay = outcome.retry_after_seconds
    if delay is None:
        delay = (policy or DEFAULT_POLICY).delay_seconds(attempts, random)
    # A task's own number may be anything, NaN included; it must not break the store's write.
    run_at = now + timedelta(seconds=min(max(0.0, delay), DELAY_SECONDS_MAX))
    return Decision(Event.FAILED, Status.FAILED, attempts, run_at, message=message)


_EXPLAINED: Final = frozenset({Status.CANCELLED, Status.DEAD, Status.SCHEDULED})


def reason_after(decision: Decision) -> str | None:
    """The reason that a job has from a decision: why it has ended, or waits. Others need none."""
    return decision.message or None if decision.status in _EXPLAINED else None


def decide_recovery(
    *, attempts: int, allowance: int, cancel_reason: str | None, why: str = ""
) -> Decision:
    """What becomes of a running job whose lease expired or whose holder is proved dead."""
    if cancel_reason is not None:
        return Decision(Event.CANCELLED, Status.CANCELLED, attempts, message=cancel_reason)
    if attempts >= allowance:
        return Decision(
            Event.DEAD,
            Status.DEAD,
            attempts,
            message=f"its worker was lost {attempts} time(s) or more and no attempt is left",
        )
    return Decision(Event.RECOVERED, Status.PENDING, attempts, message=why)


def _check_delay(what: str, seconds: float) -> None:
    if not 0 <= seconds <= 366 * 24 * 3600:
        raise ValueError(f"{what}: the delay must be between 0 seconds and a year, not {seconds!r}")
