"""From code to outcome: call the task, and say what its value or its error means for the job.

Every executor uses these, in any thread or process. Nothing but an outcome ever leaves an attempt,
whatever the code, its value or its error does; and no copy of this process that the code has forked
comes back from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from types import CoroutineType
from typing import Any, Final

from leasehold.codec import passes_results
from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.durations import read_seconds
from leasehold.core.model.lease import Lease
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome, Retry, Snooze
from leasehold.core.model.retry import DELAY_SECONDS_MAX, is_retryable
from leasehold.errors import JobCancelledError, RetryableError
from leasehold.observe.tracing import begin_run
from leasehold.worker.context import JobContext, enter_context
from leasehold.worker.copies import copies_end_here, here, leave_copy
from leasehold.worker.describe import (
    clean_text,
    describe_briefly,
    describe_error,
    guarded,
    message_of,
    type_name,
)
from leasehold.worker.large import is_large, with_payload, with_result_kept
from leasehold.worker.printed import keep_rest
from leasehold.worker.safelog import safe_logger
from leasehold.worker.task import TaskDefinition

logger = safe_logger("leasehold.worker")

BROKE_OFF: Final = Fail(
    JobError(
        "AttemptBrokeOff",
        "the attempt ended in a way that could not even be described: its task, or the value or "
        "the error that came out of it, disturbs whoever looks at it",
    )
)
"""The outcome of an attempt when everything else has failed."""

_WISHES: Final = (Retry, Snooze, Cancel)
_CANCELLATIONS: Final = (JobCancelledError, asyncio.CancelledError)


def attempt(lease: Lease, task: TaskDefinition, context: JobContext) -> Outcome:
    """Run a task's code to its end, here and now; never raises.

    Context variables that the task sets end with it.
    """
    try:
        return copy_context().run(_attempt, lease, task, context)
    except BaseException:  # noqa: BLE001 - whatever it is, the attempt is spent and its slot goes on.
        return broke_off(context)


def _attempt(lease: Lease, task: TaskDefinition, context: JobContext) -> Outcome:
    enter_context(context)
    end_span = begin_run(lease)
    try:
        called = lease if lease.codec != BLOB_CODEC else with_payload(lease, context)
        passed = context.passed_results() if passes_results(called.payload) else None
        args, kwargs = task.codec.decode_call(called.payload, called.codec, passed)
        value = task.func(*args, **kwargs)
        if type(value) is CoroutineType:
            value = asyncio.run(_whole(value))
    except BaseException as error:  # noqa: BLE001 - whatever the code raises is its job's failure.
        if here() != context.pid:
            leave_copy(error)
        outcome = outcome_of_error(error, lease, task, context)
    else:
        if here() != context.pid:
            leave_copy()
        outcome = outcome_of_value(value, lease, task, context)
        if is_large(outcome):
            outcome = with_result_kept(outcome, lease, task, context)
    if here() != context.pid:  # Encoding a value, or describing an error, runs its own code.
        leave_copy()
    outcome = conclude(outcome, context)
    if end_span is not None:
        end_span(outcome)
    return outcome


async def _whole(coroutine: CoroutineType[Any, Any, Any]) -> Any:
    # A copy must not come to the end of `asyncio.run`, which would close shared descriptors.
    with copies_end_here():
        return await coroutine


def conclude(outcome: Outcome, context: JobContext) -> Outcome:
    """End the task's own transaction, if it has one open: complete the job in it, or roll back.

    From now on the context opens no other one. The code's last printed text is kept.
    """
    if context.unfinished_line:
        keep_rest(context)
    transaction = context.close_transactions()
    if transaction is None:
        return outcome
    try:
        context.settled = transaction.conclude(outcome)
    except BaseException as error:  # noqa: BLE001 - whatever keeps it from committing is its failure.
        return Fail(describe_error(error))
    return outcome


def broke_off(context: JobContext) -> Outcome:
    """The outcome of an attempt of which nothing else can be told; its transaction is undone."""
    transaction = guarded(context.close_transactions, None)
    if transaction is not None:
        guarded(transaction.roll_back, None)
    return BROKE_OFF


def outcome_of_value(
    value: Any, lease: Lease, task: TaskDefinition, context: JobContext
) -> Outcome:
    """The outcome of a returned value. One that cannot be encoded fails for good; never raises.

    A result that is too large for a row is still to be put away, by `large.with_result_kept`.
    """
    # Its real class: a value may raise, or lie, when it is asked for its `__class__`.
    kind = type(value)
    codec = task.codec
    try:
        if issubclass(kind, _WISHES):
            return _wish(value)
        bytes_max = PAYLOAD_BYTES_MAX if context.large is None else context.large.bytes_max
        data = codec.encode_result(value, bytes_max)
        if value is not None:
            _tell_of_change(value, data, task)
        return Complete(data, context.note, codec.name)
    except BaseException as error:  # noqa: BLE001 - a value's own methods may raise anything here.
        message = (
            f"job {lease.job_id} ran, but what task {task.name!r} returned, "
            f"of type {type_name(value)}, cannot be stored as its result: {message_of(error)}"
        )
        return Fail(JobError("PayloadError", clean_text(message)), retryable=False)


def _tell_of_change(value: Any, data: bytes, task: TaskDefinition) -> None:
    # The work is done, so that to refuse its result would only lose it.
    why = guarded(lambda: task.codec.first_change_of_result(value, data), None)
    if why is not None:
        logger.warning(
            "task %r returns what its result does not bring back: %s. Write it as the return hint "
            "(`-> ...`), or return plain data; the job is completed all the same.",
            task.name,
            why,
        )


def _wish(value: Retry | Snooze | Cancel) -> Outcome:
    """The outcome that the task asks for, made anew of plain numbers and texts."""
    reason = clean_text(value.reason)
    if isinstance(value, Snooze):
        return Snooze(float(value.seconds), reason)
    if isinstance(value, Cancel):
        return Cancel(reason)
    return Retry(None if value.after is None else float(value.after), reason).as_failure()


def outcome_of_error(
    error: BaseException, lease: Lease, task: TaskDefinition, context: JobContext
) -> Outcome:
    """The outcome of a raised error: cancelled if that was asked for, otherwise a failed attempt.

    Never raises.
    """
    if context.cancelled and issubclass(type(error), _CANCELLATIONS):
        return Cancel(context.cancel_reason or "")
    # A class of exceptions may have a hostile metaclass: then it is retried, as most are.
    retryable = guarded(lambda: is_retryable(error, task.permanent, task.retryable), True)
    seconds = _retry_after_seconds(error, lease, task.backoff) if retryable else None
    return Fail(describe_error(error, skip_file=__file__), retryable, seconds)


def _retry_after_seconds(
    error: BaseException, lease: Lease, backoff: Callable[[int, BaseException], float] | None
) -> float | None:
    try:
        # `isinstance` would ask the error for its `__class__` too, which is caught here.
        seconds = error.retry_after_seconds if isinstance(error, RetryableError) else None
        if seconds is None and backoff is not None:
            seconds = backoff(lease.attempt, error)
        if seconds is None:
            return None
        seconds = float(read_seconds(seconds))
    except BaseException as broken:  # noqa: BLE001 - the job's own policy is there to fall back on.
        note = f"its backoff function failed too: {describe_briefly(broken)}"
        guarded(lambda: error.add_note(note), None)
        return None
    return min(seconds, DELAY_SECONDS_MAX) if seconds >= 0 else None
