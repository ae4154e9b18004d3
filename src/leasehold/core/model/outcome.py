"""The possible ends of an attempt.

A task returns a plain value (that is `Complete`), raises (that is `Fail`), or returns one of
`Snooze`, `Retry` and `Cancel` for any other end. `decision` determines what that means for the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from leasehold.core.model.blob import BLOB_CODEC, names_blob_of
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.durations import Seconds, read_seconds
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX


class JobError(msgspec.Struct, frozen=True):
    """An error as data: never the exception object, which only its own process could rebuild."""

    type: str
    message: str
    traceback: str | None = None


class Complete(msgspec.Struct, frozen=True, gc=False, tag="complete"):
    """The task did its work. `result` is encoded; `note` is an attached JSON document."""

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

    if TYPE_CHECKING:

        def __init__(self, seconds: Seconds, reason: str = "") -> None: ...

    def __post_init__(self) -> None:
        _check_delay(self, "seconds")
        _check_reason(self, self.reason)


class Release(msgspec.Struct, frozen=True, tag="release"):
    """The holder hands the job back unfinished, with no attempt spent."""

    delay_seconds: float = 0.0
    reason: str = ""

    if TYPE_CHECKING:

        def __init__(self, delay_seconds: Seconds = 0.0, reason: str = "") -> None: ...

    def __post_init__(self) -> None:
        _check_delay(self, "delay_seconds")
        _check_reason(self, self.reason)


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop here, for good: the job is cancelled. A task returns it: `return Cancel("sold out")`."""

    reason: str = ""

    def __post_init__(self) -> None:
        _check_reason(self, self.reason)


class Retry(msgspec.Struct, frozen=True):
    """A task returns it to be tried again after some seconds; the attempt is spent.

    Without `after`, the job's own backoff decides.
    """

    after: float | None = None
    reason: str = ""

    if TYPE_CHECKING:

        def __init__(self, after: Seconds | None = None, reason: str = "") -> None: ...

    def __post_init__(self) -> None:
        if self.after is not None:
            _check_delay(self, "after")
        _check_reason(self, self.reason)

    def as_failure(self) -> Fail:
        """The outcome that it stands for."""
        return Fail(
            JobError("Retry", self.reason or "the task asked to be retried"),
            retry_after_seconds=self.after,
        )


Outcome = Complete | Fail | Snooze | Release | Cancel


def within_limits(outcome: Outcome, job_id: str) -> Outcome:
    """The outcome, or a permanent failure if its result is too large to store."""
    if type(outcome) is not Complete or outcome.result is None:
        return outcome
    size = len(outcome.result)
    if size <= PAYLOAD_BYTES_MAX:
        if outcome.codec != BLOB_CODEC or names_blob_of(outcome.result, "result", job_id):
            return outcome
        message = f"the result of job {job_id} names a blob that was not written for it"
        return Fail(JobError("PayloadError", message), retryable=False)
    message = (
        f"the result of job {job_id} has {size:,} bytes; at most {PAYLOAD_BYTES_MAX:,} are kept: "
        "store the data elsewhere and return a reference"
    )
    return Fail(JobError("PayloadTooLargeError", message), retryable=False)


def _check_delay(outcome: msgspec.Struct, field: str) -> None:
    """Convert a delay to seconds from any accepted form; raises ValueError for an invalid one."""
    given = getattr(outcome, field)
    seconds = read_seconds(given)
    if isinstance(seconds, str) or not 0 <= seconds <= 366 * 24 * 3600:
        what = type(outcome).__name__
        raise ValueError(f"{what}: the delay must be between 0 seconds and a year, not {given!r}")
    if seconds is not given:
        msgspec.structs.force_setattr(outcome, field, seconds)


def _check_reason(outcome: msgspec.Struct, reason: object) -> None:
    if not isinstance(reason, str):
        raise TypeError(f"{type(outcome).__name__}: the reason must be text, not {reason!r}")
