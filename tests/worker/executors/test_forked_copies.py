"""What a task forks can neither report, nor settle, nor run anything of its worker's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.core.model.outcome import Complete, Fail
from leasehold.env import SYSTEM
from leasehold.worker.executors.aio import AsyncExecutor
from leasehold.worker.executors.processes import ProcessExecutor
from leasehold.worker.executors.threads import ThreadExecutor
from support import forking_tasks
from support.runs import WatchedRun, call_run

# Newer Pythons warn of what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture
def pool() -> Iterator[ProcessExecutor]:
    executor = ProcessExecutor(1, env=SYSTEM)
    yield executor
    executor.close()


def started(pool: ProcessExecutor, func: object, *args: object, job_id: str) -> WatchedRun:
    assert callable(func)
    watched = call_run(func, *args, job_id=job_id)
    pool.start(watched.run)
    return watched


@pytest.mark.parametrize("ending", ["return", "exit", "raise"])
def test_the_copys_end_is_not_taken_for_the_next_jobs(pool: ProcessExecutor, ending: str) -> None:
    # The copy ends while the next job runs, at the moment at which its word would count for that.
    for number in range(3):
        forking = started(pool, forking_tasks.fork_and_linger, ending, job_id=f"forks-{number}")
        declined = started(pool, forking_tasks.decline, job_id=f"declined-{number}")
        following = started(pool, forking_tasks.name_itself, job_id=f"follows-{number}")
        assert forking.result() == "parent"
        assert declined.failure().error.message == "card declined"
        assert following.result() == f"follows-{number}"


@pytest.mark.parametrize("seconds", [0, 0.05])
def test_a_message_about_another_lease_is_refused_and_its_sender_replaced(
    pool: ProcessExecutor, seconds: float
) -> None:
    forger = started(pool, forking_tasks.forge_an_end, seconds, job_id="job-1")
    pid = forger.result()
    victim = started(pool, forking_tasks.decline, job_id="job-2")
    assert victim.failure().error.message == "card declined"
    assert victim.reports == []
    following = started(pool, forking_tasks.pid, job_id="job-3")
    assert following.result() != pid


def test_a_question_of_an_ended_job_is_answered_with_a_refusal(pool: ProcessExecutor) -> None:
    # Left without an answer, it would keep every later job from asking.
    leaving = started(pool, forking_tasks.leave_a_thread_that_asks, job_id="job-1")
    assert leaving.result() == "left"
    waiting = started(pool, forking_tasks.hear_what_the_thread_was_told, job_id="job-2")
    assert "the attempt is over" in waiting.result()


@pytest.mark.parametrize("ending", ["return", "exit", "raise"])
def test_a_copy_of_a_thread_runs_nothing_of_what_waits(tmp_path: Path, ending: str) -> None:
    executor = ThreadExecutor(1)
    ledger = tmp_path / "ledger"
    ledger.touch()

    def fork() -> None:
        copy = os.fork()
        if copy:
            os.waitpid(copy, 0)  # It has to end, although twenty jobs wait for its thread.
        else:
            forking_tasks.end_like(ending)

    def note(number: int) -> None:
        with ledger.open("a") as file:
            file.write(f"{os.getpid()} {number}\n")

    forking = call_run(fork, executor="thread")
    waiting = [call_run(note, number, job_id=f"job-{number}") for number in range(20)]
    for watched in (forking, *waiting):
        executor.start(watched.run)
    assert forking.outcome() == Complete(b"null", None, "json")
    for watched in waiting:
        watched.result()
    executor.close()
    lines = ledger.read_text().splitlines()
    assert lines == [f"{os.getpid()} {number}" for number in range(20)]


def test_a_copy_of_an_event_loop_takes_no_further_step(tmp_path: Path) -> None:
    executor = AsyncExecutor()
    ledger = tmp_path / "ledger"
    ledger.touch()

    async def fork() -> None:
        copy = os.fork()
        if copy:
            os.waitpid(copy, 0)  # noqa: ASYNC222 - nothing else is to run meanwhile.

    async def note(number: int) -> None:
        with ledger.open("a") as file:
            file.write(f"{os.getpid()} {number}\n")

    forking = call_run(fork, executor="async")
    waiting = [call_run(note, number, job_id=f"job-{number}") for number in range(20)]
    for watched in (forking, *waiting):
        executor.start(watched.run)
    assert forking.outcome() == Complete(b"null", None, "json")
    for watched in waiting:
        watched.result()
    executor.close()
    lines = ledger.read_text().splitlines()
    assert sorted(lines) == sorted(f"{os.getpid()} {number}" for number in range(20))


@pytest.mark.parametrize(("ending", "status"), [("return", 0), ("exit", 3), ("raise", 1)])
def test_a_copy_of_an_async_task_in_a_process_ends_with_the_task(
    pool: ProcessExecutor, ending: str, status: int
) -> None:
    watched = started(pool, forking_tasks.fork_async, ending, job_id="job-1")
    assert watched.result() == f"parent of a copy that ended with {status}"


def test_a_copy_is_told_that_it_cannot_speak_for_the_job(pool: ProcessExecutor) -> None:
    watched = started(pool, forking_tasks.let_the_copy_report, job_id="job-1")
    outcome = watched.outcome()
    assert not isinstance(outcome, Fail), outcome
    assert "forked from it" in watched.result()
    assert watched.reports == []
