from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease
from leasehold.env import Env
from leasehold.errors import JobCancelledError, JobTimeoutError, LeaseLostError, PayloadError
from leasehold.worker.context import JobContext, StopCause, current_job
from leasehold.worker.leases import LeaseManager
from support.turned_clock import TurnedClock
from support.workers import PATIENCE_SECONDS, MoodyStore, submit_to


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.documents: list[bytes] = []
        self.lines: list[str] = []

    def progress(self, lease: Lease, document: bytes) -> None:
        self.documents.append(document)

    def log(self, lease: Lease, line: LogLine) -> None:
        self.lines.append(line.text)


@pytest.fixture
def sink() -> Heard:
    return Heard()


@pytest.fixture
def context(timed_store: MoodyStore, env: Env, sink: Heard) -> JobContext:
    submit_to(timed_store, "t", id="job-1", metadata={"tenant": "a"})
    [lease] = LeaseManager(timed_store, "me").acquire()
    return JobContext(lease, sink, env)


def test_it_says_what_runs(context: JobContext) -> None:
    assert (context.job_id, context.task, context.queue) == ("job-1", "t", "default")
    assert context.attempt == 1
    assert context.fencing_token == context.lease.version
    assert context.metadata == {"tenant": "a"}
    assert context.deadline is None
    assert not context.should_stop
    context.check()


@pytest.mark.parametrize(
    ("cause", "error", "flags"),
    [
        (StopCause.CANCELLED, JobCancelledError, (True, False, False)),
        (StopCause.TIMED_OUT, JobTimeoutError, (False, True, False)),
        (StopCause.LEASE_LOST, LeaseLostError, (False, False, True)),
        (StopCause.HANDED_BACK, LeaseLostError, (False, False, True)),
    ],
)
def test_it_hears_why_it_should_stop(
    context: JobContext,
    cause: StopCause,
    error: type[Exception],
    flags: tuple[bool, bool, bool],
) -> None:
    context.stop(cause, "because")
    assert context.should_stop
    assert (context.cancelled, context.timed_out, context.lease_lost) == flags
    assert context.cancel_reason == ("because" if context.cancelled else None)
    with pytest.raises(error, match=r"job-1.*because"):
        context.check()


@given(st.lists(st.sampled_from(StopCause), min_size=1))
def test_the_first_cause_stays(causes: list[StopCause]) -> None:
    context = JobContext.__new__(JobContext)
    context._stop = context._condition = None
    for number, cause in enumerate(causes):
        context.stop(cause, str(number))
    assert context._stop == (causes[0], "0")


def test_wait_ends_early_when_it_should_stop(context: JobContext) -> None:
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(context.wait(3600)))
    waiting.start()
    context.stop(StopCause.CANCELLED, "now")
    waiting.join(PATIENCE_SECONDS)
    assert answers == [True]
    assert context.wait(3600)


def test_wait_lasts_as_long_as_asked(context: JobContext, clock: TurnedClock) -> None:
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(context.wait(10)))
    waiting.start()
    for _ in range(9):
        clock.turn(1)
    assert answers == []
    clock.advance(1)
    waiting.join(PATIENCE_SECONDS)
    assert answers == [False]


def test_reports_go_to_the_sink(context: JobContext, sink: Heard) -> None:
    context.progress(1, 4, "quarter", file="a.txt")
    context.progress(0.5)
    context.log("hello")
    assert sink.documents == [
        b'{"done":1,"total":4,"message":"quarter","file":"a.txt"}',
        b'{"done":0.5}',
    ]
    assert sink.lines == ["hello"]


def test_what_json_cannot_hold_is_refused_where_it_is_said(context: JobContext) -> None:
    with pytest.raises(PayloadError):
        context.progress(float("nan"))
    with pytest.raises(PayloadError):
        context.attach(object())


def test_nothing_is_reported_once_the_lease_is_gone(context: JobContext, sink: Heard) -> None:
    context.stop(StopCause.LEASE_LOST, "gone")
    context.progress(1)
    context.log("late")
    assert (sink.documents, sink.lines) == ([], [])


def test_a_cancelled_task_may_still_report(context: JobContext, sink: Heard) -> None:
    context.stop(StopCause.CANCELLED, "enough")
    context.log("cleaning up")
    assert sink.lines == ["cleaning up"]


def test_there_is_no_context_outside_a_job() -> None:
    with pytest.raises(RuntimeError, match="outside a job"):
        current_job()
