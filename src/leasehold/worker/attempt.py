"""From code to outcome: call the task, and say what its value or its error means for the job.

Every executor uses these, in whatever thread or process the code runs.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from contextvars import copy_context
from types import CoroutineType, TracebackType
from typing import Any, Final

from leasehold.core.blob import BLOB_CODEC
from leasehold.core.lease import Lease
from leasehold.core.limits import PAYLOAD_BYTES_MAX
from leasehold.core.outcome import Cancel, Complete, Fail, JobError, Outcome, Retry, Snooze
from leasehold.core.retry import DELAY_SECONDS_MAX, is_retryable
from leasehold.errors import JobCancelledError, RetryableError
from leasehold.worker.context import JobContext, enter_context
from leasehold.worker.large import is_large, with_payload, with_result_kept
from leasehold.worker.task import TaskDefinition

TRACEBACK_LENGTH_MAX: Final = 16 * 1024
MESSAGE_LENGTH_MAX: Final = 4 * 1024


def attempt(lease: Lease, task: TaskDefinition, context: JobContext) -> Outcome:
    """Run a task's code to its end, here and now; never raises.

    What the task sets in context variables ends with it.
    """
    return copy_context().run(_attempt, lease, task, context)


def _attempt(lease: Lease, task: TaskDefinition, context: JobContext) -> Outcome:
    enter_context(context)
    try:
        called = lease if lease.codec != BLOB_CODEC else with_payload(lease, context)
        args, kwargs = task.codec.decode_call(called.payload, called.codec)
        value = task.func(*args, **kwargs)
        if type(value) is CoroutineType:
            value = asyncio.run(value)
    except BaseException as error:  # noqa: BLE001 - whatever the code raises is its job's failure.
        outcome = outcome_of_error(error, lease, task, context)
    else:
        outcome = outcome_of_value(value, lease, task, context)
        if is_large(outcome):
            outcome = with_result_kept(outcome, lease, task, context)
    return conclude(outcome, context)


def conclude(outcome: Outcome, context: JobContext) -> Outcome:
    """End the task's own transaction, if it has one open: complete the job in it, or roll back."""
    transaction = context.own_transaction
    if transaction is None:
        return outcome
    try:
        context.settled = transaction.conclude(outcome)
    except Exception as error:  # noqa: BLE001 - whatever keeps it from committing is its failure.
        return Fail(describe_error(error))
    return outcome


def outcome_of_value(
    value: Any, lease: Lease, task: TaskDefinition, context: JobContext
) -> Outcome:
    """What a returned value means. One that cannot be encoded is a failure for good.

    A result that is too large for a row is still to be put away, by `large.with_result_kept`.
    """
    if isinstance(value, Retry):
        return value.as_failure()
    if isinstance(value, Snooze | Cancel):
        return value
    codec = task.codec
    bytes_max = PAYLOAD_BYTES_MAX if context.large is None else context.large.bytes_max
    try:
        return Complete(codec.encode_result(value, bytes_max), context.note, codec.name)
    except Exception as error:  # noqa: BLE001 - a value's own methods may raise anything here.
        message = (
            f"job {lease.job_id} ran, but what task {task.name!r} returned, "
            f"a {type(value).__qualname__}, cannot be stored as its result: {error}"
        )
        return Fail(JobError("PayloadError", _clean(message)[:MESSAGE_LENGTH_MAX]), retryable=False)


def outcome_of_error(
    error: BaseException, lease: Lease, task: TaskDefinition, context: JobContext
) -> Outcome:
    """What a raised error means: cancelled if that was asked for, otherwise a failed attempt."""
    if context.cancelled and isinstance(error, JobCancelledError | asyncio.CancelledError):
        return Cancel(context.cancel_reason or "")
    retryable = is_retryable(error, task.permanent, task.retryable)
    seconds = _retry_after_seconds(error, lease, task.backoff) if retryable else None
    return Fail(describe_error(error), retryable, seconds)


def describe_error(error: BaseException) -> JobError:
    """An error as bounded text: its type, its message, and the end of its traceback."""
    try:
        message = str(error)
    except Exception as broken:  # noqa: BLE001 - a broken __str__ must not hide the error itself.
        message = f"(its message cannot be shown: {type(broken).__name__})"
    lines = traceback.format_exception(type(error), error, _below_this_file(error.__traceback__))
    text = _clean("".join(lines))
    if len(text) > TRACEBACK_LENGTH_MAX:
        text = "...\n" + text[-TRACEBACK_LENGTH_MAX:]
    return JobError(type(error).__qualname__, _clean(message)[:MESSAGE_LENGTH_MAX], text)


def _retry_after_seconds(
    error: BaseException, lease: Lease, backoff: Callable[[int, BaseException], float] | None
) -> float | None:
    seconds = error.retry_after_seconds if isinstance(error, RetryableError) else None
    if seconds is None and backoff is not None:
        try:
            seconds = float(backoff(lease.attempt, error))
        except Exception as broken:  # noqa: BLE001 - the job's own policy is there to fall back on.
            error.add_note(f"its backoff function failed too: {broken!r}")
            return None
    if seconds is None or not seconds >= 0:
        return None
    return min(seconds, DELAY_SECONDS_MAX)


def _below_this_file(trace: TracebackType | None) -> TracebackType | None:
    # The task's author wants to see the task, not the machinery that called it.
    while trace is not None and trace.tb_next and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _clean(text: str) -> str:
    # A lone surrogate cannot be encoded, and would make the failure itself impossible to store.
    return text.encode("utf-8", "backslashreplace").decode()
