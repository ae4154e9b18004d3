"""Child processes: what comes back from them, and that they really end."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.codec import CallCodec
from leasehold.core.model.limits import LOG_LINE_LENGTH_MAX
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Release, Snooze
from leasehold.env import SYSTEM
from leasehold.worker.context import StopCause
from leasehold.worker.executors.processes import ProcessExecutor
from leasehold.worker.executors.wire import FRAME_BYTES_MAX
from leasehold.worker.task import TaskDefinition
from support import child_tasks
from support.processes import child_pids, holdings
from support.runs import WatchedRun, call_run

TIMEOUT = Fail(JobError("JobTimeoutError", "too long"))


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessExecutor]:
    """One executor for all tests that leave it as they found it."""
    executor = ProcessExecutor(1, env=SYSTEM)
    yield executor
    executor.close()


@pytest.fixture
def own_pool() -> Iterator[ProcessExecutor]:
    executor = ProcessExecutor(1, env=SYSTEM)
    yield executor
    executor.close()


def started(
    executor: ProcessExecutor, func: Callable[..., Any], *args: Any, **facts: Any
) -> WatchedRun:
    watched = call_run(func, *args, **facts)
    executor.start(watched.run)
    return watched


# -- what comes back ----------------------------------------------------------------------------


def test_a_function_runs_in_another_process(pool: ProcessExecutor) -> None:
    assert started(pool, child_tasks.add, 1, 2).result() == 3
    assert started(pool, child_tasks.pid).result() != os.getpid()


def test_started_is_set(pool: ProcessExecutor) -> None:
    before = SYSTEM.clock.monotonic()
    watched = started(pool, child_tasks.add, 1, 2)
    watched.outcome()
    assert watched.run.started is not None
    assert before <= watched.run.started <= SYSTEM.clock.monotonic()


def test_an_async_function_runs_to_its_end(pool: ProcessExecutor) -> None:
    assert started(pool, child_tasks.add_async, 1, 2).result() == 3


def test_many_jobs_share_one_child(pool: ProcessExecutor) -> None:
    runs = [started(pool, child_tasks.pid, job_id=f"job-{n}") for n in range(200)]
    assert len({watched.result() for watched in runs}) == 1


def test_the_task_sees_its_job(pool: ProcessExecutor) -> None:
    watched = started(pool, child_tasks.facts, job_id="ünï/1", version=7, attempt=2)
    assert watched.result() == ["ünï/1", 7, 2, True]


def test_the_child_lives_in_the_same_surroundings(
    pool: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    executor = ProcessExecutor(1, env=SYSTEM)
    try:
        surroundings = started(executor, child_tasks.surroundings).result()
    finally:
        executor.close()
    assert surroundings == ["/nowhere", os.getcwd()]


def test_reports_come_in_order_and_the_note_with_the_result(pool: ProcessExecutor) -> None:
    watched = started(pool, child_tasks.report)
    outcome = watched.outcome()
    assert isinstance(outcome, Complete)
    assert (outcome.result, outcome.note) == (b'"done"', b'{"seen":[1,2]}')
    assert watched.reports == [
        {"done": 1, "total": 2, "message": "half"},
        "a line with ünïcode",
        {"done": 2, "total": 2},
    ]


def test_any_thread_of_the_task_may_report(pool: ProcessExecutor) -> None:
    watched = started(pool, child_tasks.report_from_thread)
    watched.outcome()
    assert watched.reports == ["from another thread"]


def test_large_values_pass(pool: ProcessExecutor) -> None:
    text = "x" * 200_000
    assert started(pool, child_tasks.echo, text).result() == text


@pytest.mark.parametrize(
    ("kind", "type_name", "message", "retryable"),
    [
        ("unpicklable", "Unpicklable", "cannot travel", True),
        ("value", "ValueError", "bad value", False),
        ("permanent", "PermanentError", "never", False),
        ("exit", "SystemExit", "3", True),
        ("interrupt", "KeyboardInterrupt", "", True),
    ],
)
def test_an_error_comes_back_as_text(
    pool: ProcessExecutor, kind: str, type_name: str, message: str, retryable: bool
) -> None:
    failure = started(pool, child_tasks.fail, kind).failure()
    assert (failure.error.type, failure.error.message) == (type_name, message)
    assert failure.retryable is retryable
    assert failure.error.traceback is not None
    assert "raise errors[kind]" in failure.error.traceback


def test_returned_verdicts_come_back(pool: ProcessExecutor) -> None:
    assert started(pool, child_tasks.control, "snooze").outcome() == Snooze(60, "later")
    assert started(pool, child_tasks.control, "cancel").outcome() == Cancel("sold out")
    assert started(pool, child_tasks.control, "retry").failure().retry_after_seconds == 5


def test_a_result_that_cannot_be_stored_is_a_failure_for_good(pool: ProcessExecutor) -> None:
    failure = started(pool, child_tasks.unencodable).failure()
    assert failure.error.type == "PayloadError"
    assert not failure.retryable


def test_a_log_line_is_cut_before_it_travels(pool: ProcessExecutor) -> None:
    run = started(pool, child_tasks.log_too_much, FRAME_BYTES_MAX)
    assert isinstance(run.outcome(), Complete)
    [line] = run.reports
    assert len(line) <= LOG_LINE_LENGTH_MAX


def test_what_a_task_prints_goes_where_the_worker_prints(
    own_pool: ProcessExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    started(own_pool, child_tasks.shout, "hör mal").outcome()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("hör mal\n", "hör mal\n")


# -- finding the code ---------------------------------------------------------------------------


def test_a_decorated_task_is_run_by_its_own_rules(pool: ProcessExecutor) -> None:
    task = child_tasks.decorated.definition
    watched = WatchedRun(task, task.codec.encode_call(("x",), {}))
    pool.start(watched.run)
    failure = watched.failure()
    assert (failure.error.type, failure.retryable) == ("KeyError", True)


def a_local_function() -> Callable[[], None]:
    def local() -> None: ...

    return local


def in_main() -> None:
    """A function that claims to stand in the script that was started."""


in_main.__module__ = "__main__"


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (in_main, "move in_main to a module of its own"),
        (a_local_function(), "top level of a module"),
        (lambda: None, "lambda"),
        (child_tasks.original_of_shadowed, "support.child_tasks.shadowed is not its function"),
    ],
)
def test_what_a_child_could_not_find_is_refused(
    pool: ProcessExecutor, func: Callable[..., Any], message: str
) -> None:
    watched = WatchedRun(TaskDefinition("t", func, CallCodec(func), "process"), b"null")
    pool.start(watched.run)
    failure = watched.failure()
    assert failure.error.type == "TaskNotImportableError"
    assert message in failure.error.message
    assert not failure.retryable


def test_rules_that_a_child_could_not_know_are_refused(pool: ProcessExecutor) -> None:
    func = child_tasks.bare
    task = TaskDefinition("t", func, CallCodec(func), "process", permanent=(OSError,))
    watched = WatchedRun(task, b"null")
    pool.start(watched.run)
    assert "Decorate it where it is defined" in watched.failure().error.message


def test_a_module_that_fails_in_the_child_fails_the_job_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fails_in_child.py").write_text(
        "from leasehold.worker.executors.role import is_child_process\n"
        "if is_child_process(): raise OSError('no such library')\n"
        "def run(): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    func = importlib.import_module("fails_in_child").run
    executor = ProcessExecutor(1, env=SYSTEM)
    try:
        failure = started(executor, func).failure()
        assert started(executor, child_tasks.add, 1, 2).result() == 3
    finally:
        executor.close()
        del sys.modules["fails_in_child"]
    assert failure.error.type == "OSError"
    assert "cannot be imported in a child process, from fails_in_child" in failure.error.message
    assert not failure.retryable


@pytest.mark.parametrize(
    ("raised", "spends_an_attempt"),
    [("leasehold.errors:StoreUnavailableError", False), ("builtins:ConnectionRefusedError", True)],
)
def test_a_module_whose_store_is_away_does_not_condemn_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, spends_an_attempt: bool
) -> None:
    module, _, name = raised.partition(":")
    (tmp_path / "away_in_child.py").write_text(
        f"from {module} import {name}\n"
        "from leasehold.worker.executors.role import is_child_process\n"
        f"if is_child_process(): raise {name}('the server is away')\n"
        "def run(): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    func = importlib.import_module("away_in_child").run
    executor = ProcessExecutor(1, env=SYSTEM)
    try:
        outcome = started(executor, func).outcome()
    finally:
        executor.close()
        del sys.modules["away_in_child"]
    if spends_an_attempt:
        assert isinstance(outcome, Fail)
        assert outcome.retryable
    else:
        assert isinstance(outcome, Release)
        assert outcome.delay_seconds > 0
        assert outcome.reason is not None
        assert "the server is away" in outcome.reason


def test_a_module_that_kills_the_child_fails_only_its_own_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kills_child.py").write_text(
        "import os\n"
        "from leasehold.worker.executors.role import is_child_process\n"
        "if is_child_process(): os._exit(9)\n"
        "def run(): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    func = importlib.import_module("kills_child").run
    executor = ProcessExecutor(1, env=SYSTEM)
    try:
        first, second = started(executor, func), started(executor, child_tasks.add, 1, 2)
        assert second.result() == 3
    finally:
        executor.close()
        del sys.modules["kills_child"]
    assert first.failure().error.type == "WorkerCrashed"
    assert "import kills_child" in first.failure().error.message


# -- crashes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "status"),
    [("exit", "exit code 7"), ("kill", "killed by SIGKILL"), ("segfault", "killed by SIGSEGV")],
)
def test_a_crash_fails_the_job_and_the_child_is_replaced(
    own_pool: ProcessExecutor, how: str, status: str
) -> None:
    before = started(own_pool, child_tasks.pid).result()
    failure = started(own_pool, child_tasks.crash, how, job_id="job-9").failure()
    assert failure.error.type == "WorkerCrashed"
    assert failure.error.message.startswith("its process ended before its task did")
    assert status in failure.error.message
    assert failure.retryable
    assert started(own_pool, child_tasks.pid).result() != before


def test_a_crash_is_seen_although_a_forked_process_keeps_the_connection(
    own_pool: ProcessExecutor,
) -> None:
    watched = started(own_pool, child_tasks.crash_and_leave_a_holder_of_the_connection)
    holder_pid = int(watched.report())
    try:
        assert "exit code 7" in watched.failure().error.message
    finally:
        os.kill(holder_pid, signal.SIGKILL)


def test_a_child_that_died_idle_costs_no_job(own_pool: ProcessExecutor) -> None:
    pid = started(own_pool, child_tasks.pid).result()
    os.kill(pid, signal.SIGKILL)
    # Waits until it is dead, and leaves it for the executor to reap.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert started(own_pool, child_tasks.pid).result() != pid


def test_an_interrupt_is_the_workers_business(pool: ProcessExecutor) -> None:
    assert started(pool, child_tasks.interrupt_self).result() == "still here"


def test_a_child_is_replaced_after_its_share_of_jobs() -> None:
    executor = ProcessExecutor(1, env=SYSTEM, max_jobs_per_child=2)
    try:
        pids = [started(executor, child_tasks.pid).result() for _ in range(4)]
    finally:
        executor.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


# -- stopping -----------------------------------------------------------------------------------


def test_a_busy_child_is_killed(own_pool: ProcessExecutor) -> None:
    watched = started(own_pool, child_tasks.spin)
    pid = int(watched.report())
    watched.run.decide(TIMEOUT)
    own_pool.stop(watched.run)
    assert watched.outcome() is TIMEOUT
    assert pid not in child_pids()
    assert started(own_pool, child_tasks.pid).result() != pid


def test_what_the_task_started_is_killed_with_it(own_pool: ProcessExecutor, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    watched = started(own_pool, child_tasks.spin_beside_a_subprocess, str(fifo))
    with fifo.open() as subprocess_end:
        watched.report()
        watched.run.decide(TIMEOUT)
        own_pool.stop(watched.run)
        watched.outcome()
        # It reads to the end only if nobody holds the other side any more.
        assert subprocess_end.read() == ""


def test_with_grace_the_task_hears_why_and_the_child_lives() -> None:
    executor = ProcessExecutor(1, env=SYSTEM, grace_seconds=60)
    try:
        before = started(executor, child_tasks.pid).result()
        watched = started(executor, child_tasks.heed)
        watched.report()
        watched.run.decide(Cancel("sold out"))
        watched.context.stop(StopCause.CANCELLED, "sold out")
        executor.stop(watched.run)
        executor.stop(watched.run)
        assert watched.outcome() == Cancel("sold out")
        assert watched.reports == ["begun", "True sold out"]
        assert started(executor, child_tasks.pid).result() == before
    finally:
        executor.close()


def test_after_the_grace_a_deaf_child_is_killed() -> None:
    executor = ProcessExecutor(1, env=SYSTEM, grace_seconds=0.01)
    try:
        watched = started(executor, child_tasks.spin)
        pid = int(watched.report())
        watched.run.decide(TIMEOUT)
        watched.context.stop(StopCause.TIMED_OUT, "too long")
        executor.stop(watched.run)
        assert watched.outcome() is TIMEOUT
        assert pid not in child_pids()
    finally:
        executor.close()


def test_stopping_what_has_ended_harms_nobody(own_pool: ProcessExecutor) -> None:
    first = started(own_pool, child_tasks.pid)
    pid = first.result()
    own_pool.stop(first.run)
    assert started(own_pool, child_tasks.pid).result() == pid


def test_waiting_runs_can_be_taken_back_or_stopped(
    own_pool: ProcessExecutor, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    busy = started(own_pool, child_tasks.wait_for_file_end, str(fifo))
    busy.report()
    one, two, three = (started(own_pool, child_tasks.add, 1, n) for n in range(3))
    own_pool.stop(two.run)
    assert isinstance(two.outcome(), Release)
    assert own_pool.take_back() == [one.run, three.run]
    assert own_pool.take_back() == []
    fifo.write_text("go on")
    assert busy.result() == "go on"
    assert started(own_pool, child_tasks.add, 1, 2).result() == 3
    assert not one.run.ended
    assert one.run.started is None


# -- the lock -----------------------------------------------------------------------------------


def test_a_child_holds_the_workers_lock(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        executor = ProcessExecutor(1, env=SYSTEM, lock_fd=lock.fileno())
        try:
            assert lock.name in started(executor, child_tasks.open_files).result()
        finally:
            executor.close()


# -- closing ------------------------------------------------------------------------------------


def test_closing_ends_everything_and_leaks_nothing(tmp_path: Path) -> None:
    before = holdings()
    executor = ProcessExecutor(2, env=SYSTEM)
    started(executor, child_tasks.add, 1, 2).outcome()
    started(executor, child_tasks.crash, "kill").outcome()
    spinning = [started(executor, child_tasks.spin) for _ in range(2)]
    for watched in spinning:
        watched.report()
    waiting = started(executor, child_tasks.add, 1, 2)
    executor.close()
    for watched in [*spinning, waiting]:
        assert isinstance(watched.outcome(), Release)
    assert holdings() == before


def test_closing_during_the_start_of_a_child_leaks_nothing() -> None:
    before = holdings()
    executor = ProcessExecutor(1, env=SYSTEM)
    watched = started(executor, child_tasks.add, 1, 2)
    executor.close()
    assert isinstance(watched.outcome(), Release | Complete)
    assert holdings() == before


def test_a_closed_executor_hands_runs_back(own_pool: ProcessExecutor) -> None:
    own_pool.close()
    own_pool.close()
    assert isinstance(started(own_pool, child_tasks.add, 1, 2).outcome(), Release)


def test_an_executor_needs_a_slot() -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        ProcessExecutor(0, env=SYSTEM)
