from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.codec import CallCodec
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Cancel, Complete, Fail, Outcome, Retry, Snooze
from leasehold.errors import JobCancelledError, PermanentError, RetryableError
from leasehold.worker.attempt import BROKE_OFF, attempt
from leasehold.worker.context import JobContext, StopCause, current_job
from leasehold.worker.describe import (
    MESSAGE_LENGTH_MAX,
    TRACEBACK_LENGTH_MAX,
    describe_error,
)
from leasehold.worker.task import TaskDefinition
from support.zoo import errors, results
from support.zoo.members import Member, members_of

HOSTILE = [
    member
    for member in members_of("thread")
    if member.func.__module__ in (errors.__name__, results.__name__)
]


class NoSink:
    def progress(self, lease: Lease, document: bytes) -> None: ...

    def log(self, lease: Lease, line: LogLine) -> None: ...


def lease_of(payload: bytes = b'{"args":[],"kwargs":{}}') -> Lease:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    return Lease(
        job_id="job-1",
        version=1,
        worker="w",
        queue="default",
        task="t",
        payload=payload,
        codec="json",
        priority=50,
        attempt=2,
        allowance=4,
        acquired_at=moment,
        expires_at=moment,
        lease_seconds=300,
    )


def outcome_of(
    func: Callable[..., Any], context: JobContext | None = None, **options: Any
) -> Outcome:
    lease = lease_of()
    context = context or JobContext(lease, NoSink())
    return attempt(lease, TaskDefinition("t", func, CallCodec(func), **options), context)


def failure_of(error: BaseException, **options: Any) -> Fail:
    def task() -> None:
        raise error

    outcome = outcome_of(task, **options)
    assert isinstance(outcome, Fail)
    return outcome


def test_a_value_completes_the_job_with_what_was_attached() -> None:
    def task() -> dict[str, int]:
        current_job().attach({"rows": 3})
        return {"a": 1}

    assert outcome_of(task) == Complete(b'{"a":1}', b'{"rows":3}', "json")


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (Snooze(60, "later"), Snooze(60, "later")),
        (Cancel("sold out"), Cancel("sold out")),
        (Retry(after=5), Retry(after=5).as_failure()),
    ],
)
def test_values_that_say_something_else(value: object, outcome: Outcome) -> None:
    assert outcome_of(lambda: value) == outcome


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (OSError("net"), True),
        (RuntimeError("unknown"), True),
        (ValueError("bug"), False),
        (PermanentError("no"), False),
        (RetryableError("again"), True),
        (SystemExit(3), True),
        (KeyboardInterrupt(), True),
    ],
)
def test_errors_are_classified(error: BaseException, retryable: bool) -> None:
    outcome = failure_of(error)
    assert outcome.retryable is retryable
    assert outcome.error.type == type(error).__name__


def test_a_task_may_change_the_lists() -> None:
    lists = {"permanent": (OSError,), "retryable": (ValueError,)}
    assert failure_of(ValueError(), **lists).retryable
    assert not failure_of(ConnectionError(), **lists).retryable


def wrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


def test_a_call_for_another_version_of_the_task_is_left_to_its_workers() -> None:
    def plain(order: int) -> None: ...

    async def on_a_loop(order: int) -> None: ...

    for task in (plain, on_a_loop, wrapped(plain)):
        outcome = outcome_of(task)
        assert isinstance(outcome, Fail)
        assert outcome.retryable
        assert "missing 1 required positional argument: 'order'" in outcome.error.message
        assert "submitted for another version of task 't'" in outcome.error.message


def test_a_wrong_call_inside_the_task_is_its_bug() -> None:
    def inner(order: int) -> None: ...

    def task() -> None:
        inner()  # type: ignore[call-arg]

    outcome = outcome_of(task)
    assert isinstance(outcome, Fail)
    assert not outcome.retryable
    assert "another version" not in outcome.error.message


def test_an_error_may_name_its_delay_and_a_task_its_backoff() -> None:
    def backoff(number: int, error: BaseException) -> float:
        return number * 10.0

    assert failure_of(RetryableError(retry_after_seconds=7)).retry_after_seconds == 7
    assert failure_of(OSError(), backoff=backoff).retry_after_seconds == 20
    named = failure_of(RetryableError(retry_after_seconds=7), backoff=backoff)
    assert named.retry_after_seconds == 7
    assert failure_of(ValueError(), backoff=backoff).retry_after_seconds is None


@pytest.mark.parametrize("answer", [float("nan"), -1.0, "soon", None])
def test_a_backoff_that_makes_no_sense_leaves_it_to_the_job(answer: Any) -> None:
    assert failure_of(OSError("net"), backoff=lambda *_: answer).retry_after_seconds is None


def test_a_backoff_that_raises_is_noted_in_the_traceback() -> None:
    def backoff(number: int, error: BaseException) -> float:
        raise ZeroDivisionError

    outcome = failure_of(OSError("net"), backoff=backoff)
    assert outcome.retry_after_seconds is None
    assert "backoff" in (outcome.error.traceback or "")


def test_the_traceback_begins_in_the_task() -> None:
    trace = failure_of(OSError("net")).error.traceback
    assert trace is not None
    assert "attempt.py" not in trace.replace("test_attempt.py", "")
    assert "raise error" in trace


def test_a_result_that_cannot_be_encoded_is_a_failure_for_good() -> None:
    outcome = outcome_of(threading.Lock)
    assert isinstance(outcome, Fail)
    assert not outcome.retryable
    assert outcome.error.message.startswith("it ran, but task")
    assert "lock" in outcome.error.message


def test_a_result_that_json_changes_is_stored_and_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def when():  # type: ignore[no-untyped-def]
        return datetime(2030, 1, 1, tzinfo=UTC)

    task = TaskDefinition("t", when, CallCodec(when))
    for _ in range(2):
        lease = lease_of()
        outcome = attempt(lease, task, JobContext(lease, NoSink()))
        assert isinstance(outcome, Complete)
        assert outcome.result == b'"2030-01-01T00:00:00Z"'
    [said] = caplog.messages
    assert (
        "task 't' returns a value that its stored result does not restore: it is of type datetime"
        in said
    )
    assert "-> ..." in said


def test_an_async_function_may_run_on_a_thread() -> None:
    async def task() -> str:
        await asyncio.sleep(0)
        return current_job().job_id

    assert outcome_of(task) == Complete(b'"job-1"', None, "json")


def test_a_cancelled_task_that_stops_is_cancelled() -> None:
    context = JobContext(lease_of(), NoSink())
    context.stop(StopCause.CANCELLED, "enough")
    assert outcome_of(lambda: current_job().check(), context) == Cancel("enough")
    # But its own trouble stays its own.
    assert isinstance(outcome_of(lambda: 1 / 0, context), Fail)


def test_nobody_else_can_cancel_by_raising() -> None:
    assert isinstance(failure_of(JobCancelledError("me?")), Fail)


@given(st.text(st.characters(), max_size=50), st.integers(1, 3000))
def test_errors_are_bounded_text_that_can_be_stored(text: str, times: int) -> None:
    def task() -> None:
        raise RuntimeError(text * times)

    outcome = outcome_of(task)
    assert isinstance(outcome, Fail)
    assert len(outcome.error.message) <= MESSAGE_LENGTH_MAX
    assert len(outcome.error.traceback or "") <= TRACEBACK_LENGTH_MAX + 4
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Fail) == outcome


def test_a_lone_surrogate_is_made_visible() -> None:
    assert describe_error(OSError("\udc80")).message == "\\udc80"


def test_a_broken_message_does_not_hide_the_error() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "cannot be shown" in describe_error(BrokenError()).message


@pytest.mark.parametrize("member", HOSTILE, ids=lambda member: member.name)
def test_nothing_but_an_outcome_leaves_an_attempt(member: Member) -> None:
    outcome = outcome_of(member.func)
    if member.ends == "fails":
        assert isinstance(outcome, Fail)
        # Whatever it is, it is bounded text, and can be stored.
        assert len(outcome.error.message) <= MESSAGE_LENGTH_MAX
        assert msgspec.json.decode(msgspec.json.encode(outcome), type=Fail) == outcome


def test_a_hostile_error_is_still_told_by_its_type_and_place() -> None:
    class HostileError(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise SystemExit(name)

        def __str__(self) -> str:
            raise SystemExit("text")

    error = failure_of(HostileError()).error
    assert error.type.endswith("HostileError")
    assert "cannot be shown: SystemExit" in error.message
    assert "in task" in (error.traceback or "")


def test_an_attempt_that_cannot_even_be_described_has_failed() -> None:
    class BrokenContext(JobContext):
        @property
        def cancelled(self) -> bool:
            raise KeyboardInterrupt

    context = BrokenContext(lease_of(), NoSink())
    assert outcome_of(lambda: 1 / 0, context) == BROKE_OFF


def test_a_group_without_end_is_described_by_itself() -> None:
    group: ExceptionGroup[Exception] = ExceptionGroup("g", [ValueError("deep inside")])
    for _ in range(60):
        group = ExceptionGroup("g", [group, group])
    described = describe_error(group)
    assert described.type == "ExceptionGroup"
    assert "g (2 sub-exceptions)" in described.message
    assert "deep inside" not in (described.traceback or "")


def test_a_small_group_is_described_as_a_whole() -> None:
    described = describe_error(ExceptionGroup("g", [ValueError("one"), KeyError("two")]))
    assert "ValueError: one" in (described.traceback or "")
    assert "KeyError: 'two'" in (described.traceback or "")
