"""Call the task, and turn its value or its error into an outcome for the job.

Every executor uses these functions, in any thread or process. Nothing but an outcome ever leaves an
attempt, whatever the code, its value or its error does; and no copy of this process that the code
has forked ever returns from here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from types import CoroutineType, MappingProxyType
from typing import Any, Final

from leasehold.codec import passes_results
from leasehold.codec.values import PLAIN_TYPES, check_size
from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.durations import read_seconds
from leasehold.core.model.lease import Lease
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome, Retry, Snooze
from leasehold.core.model.retry import DELAY_SECONDS_MAX, is_retryable
from leasehold.errors import JobCancelledError, PayloadError, RetryableError
from leasehold.observe.tracing import begin_run
from leasehold.worker.context import (
    Attempted,
    AttemptedWith,
    JobContext,
    current_attempt,
    plain_code,
)
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
        "the outcome of the attempt could not be recorded: its result, or its error, raises an "
        "exception when it is inspected",
    )
)
"""The outcome of an attempt when everything else has failed."""
NOTHING: Final = Complete(b"null")
"""The outcome of a task that returns None and has attached nothing."""

NO_ARGUMENTS: Final[Mapping[str, Any]] = MappingProxyType({})
_WISHES: Final = (Retry, Snooze, Cancel)
_CANCELLATIONS: Final = (JobCancelledError, asyncio.CancelledError)


def attempt(lease: Lease, task: TaskDefinition, context: JobContext) -> Outcome:
    """Run a task's code to its end, here and now; never raises.

    Context variables that the task sets end with it.
    """
    return attempt_of(lease, task, AttemptedWith(context))


def attempt_of(lease: Lease, task: TaskDefinition, attempted: Attempted) -> Outcome:
    """Run an attempt whose context is made only if the task asks for it."""
    outer, plain_code.job_id = plain_code.job_id, lease.job_id
    try:
        return copy_context().run(_attempt, lease, task, attempted)
    except BaseException:  # noqa: BLE001 - whatever it is, the attempt is spent and its slot goes on.
        attempted.concluded = True
        made = attempted.context_made
        return BROKE_OFF if made is None else broke_off(made)
    finally:
        plain_code.job_id = outer


def _attempt(lease: Lease, task: TaskDefinition, attempted: Attempted) -> Outcome:
    current_attempt.set(attempted)
    pid = attempted.pid
    end_span = begin_run(lease)
    args: Sequence[Any] | None = None
    kwargs: dict[str, Any] = {}
    try:
        called = lease if lease.codec != BLOB_CODEC else with_payload(lease, attempted.context)
        passed = attempted.context.passed_results() if passes_results(called.payload) else None
        args, kwargs = task.codec.decode_call(called.payload, called.codec, passed)
        value = task.func(*args, **kwargs)
        if type(value) is CoroutineType:
            value = asyncio.run(_whole(value))
    except BaseException as error:  # noqa: BLE001 - whatever the code raises is its job's failure.
        if here() != pid:
            leave_copy(error)
        outcome = outcome_of_error(error, lease, task, attempted.context, args, kwargs)
        if here() != pid:  # Describing an error runs its own code.
            leave_copy()
    else:
        if here() != pid:
            leave_copy()
        if value is None and attempted.context_made is None and task.codec.name == "json":
            outcome = NOTHING  # Most jobs return nothing.
        else:
            outcome = outcome_of_value(value, task, attempted)
            if is_large(outcome):
                outcome = with_result_kept(outcome, lease, task, attempted.context)
            if here() != pid:  # Encoding a value runs its own code.
                leave_copy()
    attempted.concluded = True
    made = attempted.context_made
    if made is not None:
        outcome = conclude(outcome, made)
    if end_span is not None:
        end_span(outcome)
    return outcome


async def _whole(coroutine: CoroutineType[Any, Any, Any]) -> Any:
    # A forked copy must not reach the end of `asyncio.run`, which would close shared descriptors.
    with copies_end_here():
        return await coroutine


def conclude(outcome: Outcome, context: JobContext) -> Outcome:
    """End the task's own transaction, if it has one open: complete the job in it, or roll back.

    From now on the context opens no other transaction. The code's last printed text is kept.
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
    """The outcome of an attempt whose own outcome is unknown; its transaction is rolled back."""
    transaction = guarded(context.close_transactions, None)
    if transaction is not None:
        guarded(transaction.roll_back, None)
    return BROKE_OFF


def outcome_of_value(value: Any, task: TaskDefinition, attempted: Attempted) -> Outcome:
    """The outcome of a returned value; a value that cannot be encoded fails the job for good. Never
    raises.

    A result too large for a row must still be put into the blob store by `large.with_result_kept`.
    """
    # Its real class: a value may raise, or lie, when it is asked for its `__class__`.
    kind = type(value)
    codec = task.codec
    try:
        if kind not in PLAIN_TYPES and issubclass(kind, _WISHES):
            return _wish(value)
        data = codec.encode_result(value, sys.maxsize)
        if len(data) > PAYLOAD_BYTES_MAX:
            large = attempted.context.large
            check_size(data, "the result", PAYLOAD_BYTES_MAX if large is None else large.bytes_max)
        if kind not in PLAIN_TYPES:
            _tell_of_change(value, data, task)
        made = attempted.context_made
        return Complete(data, None if made is None else made.note, codec.name)
    except BaseException as error:  # noqa: BLE001 - a value's own methods may raise anything here.
        # The codec's errors already name the type where it matters.
        of_type = "" if isinstance(error, PayloadError) else f" of type {type_name(value)}"
        message = (
            f"it ran, but task {task.name!r} returned a value{of_type} that "
            f"cannot be stored: {message_of(error)}"
        )
        return Fail(JobError("PayloadError", clean_text(message)), retryable=False)


def _tell_of_change(value: Any, data: bytes, task: TaskDefinition) -> None:
    # The work is done; refusing its result now would only lose it.
    why = guarded(lambda: task.codec.first_change_of_result(value, data), None)
    if why is not None:
        logger.warning(
            "task %r returns a value that its stored result does not restore: %s. Name its type "
            "in the return hint "
            "(`-> ...`), or return plain data; the job is completed nevertheless.",
            task.name,
            why,
        )


def _wish(value: Retry | Snooze | Cancel) -> Outcome:
    """The outcome that the task asked for, rebuilt from plain numbers and strings."""
    reason = clean_text(value.reason)
    if isinstance(value, Snooze):
        return Snooze(float(value.seconds), reason)
    if isinstance(value, Cancel):
        return Cancel(reason)
    return Retry(None if value.after is None else float(value.after), reason).as_failure()


def outcome_of_error(
    error: BaseException,
    lease: Lease,
    task: TaskDefinition,
    context: JobContext,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] = NO_ARGUMENTS,
) -> Outcome:
    """The outcome of a raised error: cancelled if that was requested, otherwise a failed attempt.

    The arguments are passed if the task was called. Never raises.
    """
    if context.cancelled and issubclass(type(error), _CANCELLATIONS):
        return Cancel(context.cancel_reason or "")
    if type(error) is TypeError and args is not None and not task.codec.fits(args, kwargs):
        # Neither the task's code, which was not entered, nor the job is at fault: another version
        # of the program submitted it, and workers of that version may exist.
        described = JobError(
            "TypeError",
            clean_text(
                f"{message_of(error)}; the job was submitted for another version of task "
                f"{task.name!r}, and a worker that has it may take the next attempt"
            ),
        )
        return Fail(described, retryable=True)
    # An exception class may have a hostile metaclass: the error is then retried, as most are.
    retryable = guarded(lambda: is_retryable(error, task.permanent, task.retryable), True)
    seconds = _retry_after_seconds(error, lease, task.backoff) if retryable else None
    return Fail(describe_error(error, skip_file=__file__), retryable, seconds)


def _retry_after_seconds(
    error: BaseException, lease: Lease, backoff: Callable[[int, BaseException], float] | None
) -> float | None:
    try:
        # `isinstance` would also read the error's `__class__`; an error from that is caught here.
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
