from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context

import pytest

from leasehold.core.model.outcome import Complete, Release
from leasehold.worker.context import current_job
from leasehold.worker.executors.threads import ThreadExecutor
from leasehold.worker.run import _process
from support.runs import WatchedRun, call_run

SECONDS = 20.0


@pytest.fixture
def executor() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor(1)
    yield executor
    executor.close()


class Gate:
    """A task that says that it has begun, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.go.wait(SECONDS)


def gate_run(gate: Gate) -> WatchedRun:
    def task() -> None:
        gate()

    return call_run(task)


def test_it_runs_code_and_measures_it(executor: ThreadExecutor) -> None:
    watched = call_run(lambda: current_job().job_id)
    executor.start(watched.run)
    assert watched.outcome() == Complete(b'"job-1"', None, "json")
    assert watched.run.started is not None
    assert watched.run.finished is not None
    assert watched.run.finished >= watched.run.started


def test_what_has_not_begun_can_be_taken_back(executor: ThreadExecutor) -> None:
    gate = Gate()
    running, waiting = gate_run(gate), call_run(lambda: None)
    executor.start(running.run)
    assert gate.begun.wait(SECONDS)
    executor.start(waiting.run)
    assert executor.take_back() == [waiting.run]
    assert executor.take_back() == []
    gate.go.set()
    running.outcome()
    assert waiting.run.started is None


def test_taking_back_does_not_keep_threads_from_ending() -> None:
    executor = ThreadExecutor(1)
    gate = Gate()
    running = gate_run(gate)
    executor.start(running.run)
    assert gate.begun.wait(SECONDS)
    thread = next(one for one in threading.enumerate() if one.name == "leasehold-thread-1")
    executor.close()
    assert executor.take_back() == []
    gate.go.set()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_code_whose_outcome_is_decided_before_it_begins_never_runs(
    executor: ThreadExecutor,
) -> None:
    called = threading.Event()
    watched = call_run(called.set)
    watched.run.decide(Release(reason="the lease was lost"))
    executor.start(watched.run)
    assert watched.outcome() == Release(reason="the lease was lost")
    assert not called.is_set()


def test_a_stuck_thread_can_be_replaced_and_ends_when_it_can(executor: ThreadExecutor) -> None:
    gate = Gate()
    stuck, following = gate_run(gate), call_run(lambda: threading.current_thread().name)
    executor.start(stuck.run)
    assert gate.begun.wait(SECONDS)
    thread = next(one for one in threading.enumerate() if one.name == "leasehold-thread-1")
    executor.replace(stuck.run)
    executor.start(following.run)
    assert following.outcome() == Complete(b'"leasehold-thread-2"', None, "json")
    gate.go.set()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_what_a_task_sets_in_a_context_variable_ends_with_it(executor: ThreadExecutor) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="clean")

    def task() -> str:
        before = variable.get()
        variable.set("dirty")
        return before

    for _ in range(2):
        watched = call_run(task)
        executor.start(watched.run)
        assert watched.outcome() == Complete(b'"clean"', None, "json")


def test_a_context_is_made_only_for_code_that_asks_for_it(executor: ThreadExecutor) -> None:
    quiet, asking = call_run(lambda: 7), call_run(lambda: current_job().attempt, job_id="job-2")
    for watched in (quiet, asking):
        executor.start(watched.run)
        watched.outcome()
    assert quiet.run.context_made is None
    assert asking.run.context_made is asking.context


def test_threads_that_ask_at_once_get_the_same_context(executor: ThreadExecutor) -> None:
    def task() -> int:
        asking = copy_context()
        with ThreadPoolExecutor(4) as threads:
            found = [threads.submit(asking.copy().run, current_job) for _ in range(8)]
            return len({id(each.result()) for each in found})

    watched = call_run(task)
    executor.start(watched.run)
    assert watched.result() == 1


def test_a_context_first_asked_for_in_a_fork_is_still_the_parents(
    executor: ThreadExecutor,
) -> None:
    def task() -> int:
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, str(current_job().pid).encode())
            return 0
        os.close(writer)
        with os.fdopen(reader) as told:
            return int(told.read())

    watched = call_run(task)
    with _process.making_context:  # As if another thread made one at the moment of the fork.
        executor.start(watched.run)
        assert watched.result() == os.getpid()
