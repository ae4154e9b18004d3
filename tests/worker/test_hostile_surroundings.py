"""A worker beside hooks, imports, logging handlers and defaults that would end its threads."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from leasehold import TaskNotImportableError, TaskQueue
from leasehold.core.model.outcome import Complete, Fail, Outcome
from leasehold.core.model.status import Status
from leasehold.env import SYSTEM
from leasehold.worker.executors.aio import AsyncExecutor
from leasehold.worker.executors.command import CommandExecutor
from leasehold.worker.executors.processes import ProcessExecutor
from leasehold.worker.executors.slots import Slot, SlotExecutor
from leasehold.worker.executors.threads import ThreadExecutor
from leasehold.worker.hooks import Hooks
from leasehold.worker.run import Run
from leasehold.worker.safelog import safe_logger
from leasehold.worker.task import TaskRegistry
from leasehold.worker.worker import Worker
from support import child_tasks
from support.runs import call_run, command_run
from support.workers import MoodyStore, Tasks, submit_to

Start = Callable[..., Worker]
SECONDS = 20.0
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root may do that")

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def leave(*_: object) -> NoReturn:
    sys.exit("from the application")


def interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


# -- hooks, imports, logging ---------------------------------------------------------------------


@pytest.mark.parametrize("hook", [leave, interrupt])
def test_hooks_that_exit_do_not_end_the_worker(
    store: MoodyStore, tasks: Tasks, start_worker: Start, hook: Callable[..., None]
) -> None:
    tasks.add(lambda: 1, "good")
    tasks.add(lambda: 1 / 0, "bad")
    start_worker(hooks=Hooks(None, hook, hook, hook, hook, hook))
    for _ in range(3):
        bad = submit_to(store, "bad", max_retries=0)
        good = submit_to(store, "good")
        store.until_status(bad, Status.DEAD)
        store.until_status(good, Status.COMPLETED)


def test_a_copy_that_a_hook_forks_ends_with_the_hook(
    store: MoodyStore, tasks: Tasks, start_worker: Start, tmp_path: Path
) -> None:
    copies: SimpleQueue[int] = SimpleQueue()

    def fork(*_: object) -> None:
        if copy := os.fork():
            copies.put(copy)

    ran = tmp_path / "ran"

    def note() -> None:
        with ran.open("a") as file:
            file.write(f"{os.getpid()}\n")

    tasks.add(note)
    start_worker(hooks=Hooks(on_start=fork, on_success=fork))
    jobs = [submit_to(store, "note") for _ in range(5)]
    for job in jobs:
        store.until_status(job, Status.COMPLETED)
    for _ in range(10):
        _, status = os.waitpid(copies.get(timeout=SECONDS), 0)
        assert os.waitstatus_to_exitcode(status) == 0
    assert ran.read_text() == f"{os.getpid()}\n" * 5


def test_a_module_that_exits_when_it_is_imported_is_one_that_cannot_be(
    store: MoodyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_that_exits.py").write_text("import sys\nsys.exit('from an import')\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = TaskRegistry(allow_import=("module_that_exits", "support.child_tasks"))
    worker = Worker(store, registry, slots=1)
    worker.start()
    job = submit_to(store, "module_that_exits:task")
    released = store.until_status(job, Status.SCHEDULED)
    assert "from an import" in (released.reason or "")
    good = submit_to(store, "support.child_tasks:pid")
    store.until_status(good, Status.COMPLETED)
    assert worker.stop(timeout=SECONDS)


def test_a_queue_says_that_a_module_exits_when_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "another_that_exits.py").write_text("import sys\nsys.exit('from an import')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with (
        TaskQueue("memory://", num_workers=0) as queue,
        pytest.raises(TaskNotImportableError, match="SystemExit: from an import"),
    ):
        queue.load_tasks("another_that_exits")


class ExitingHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.calls += 1
        leave()


@pytest.fixture
def exiting_handler() -> Iterator[ExitingHandler]:
    handler = ExitingHandler()
    logging.getLogger("leasehold").addHandler(handler)
    yield handler
    logging.getLogger("leasehold").removeHandler(handler)


def test_logging_handlers_that_exit_do_not_end_the_worker(
    store: MoodyStore, tasks: Tasks, start_worker: Start, exiting_handler: ExitingHandler
) -> None:
    tasks.add(lambda: 1 / 0, "bad")
    tasks.add(lambda: 1, "good")
    start_worker()
    for _ in range(3):
        store.until_status(submit_to(store, "bad", max_retries=0), Status.DEAD)
        store.until_status(submit_to(store, "no such task"), Status.SCHEDULED)
        store.until_status(submit_to(store, "good"), Status.COMPLETED)
    assert exiting_handler.calls >= 6


def test_a_safe_logger_names_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    logger = safe_logger("leasehold.test")
    logger.warning("one %s", "word", extra={"job_id": "job-1"})
    [record] = caplog.records
    assert record.getMessage() == "one word"
    assert record.funcName == "test_a_safe_logger_names_its_caller"
    assert record.__dict__["job_id"] == "job-1"


# -- executors that break off --------------------------------------------------------------------


def test_a_thread_that_is_interrupted_between_jobs_goes_on() -> None:
    executor = ThreadExecutor(1)
    broken = call_run(lambda: 1, executor="thread")
    # Whatever lies between two attempts: here the clock, which is asked when the code has ended.
    times = iter([1.0])
    executor._clock = SimpleNamespace(monotonic=lambda: next(times, None) or leave())
    executor.start(broken.run)
    assert broken.failure().error.type == "AttemptBrokeOff"
    executor._clock = SYSTEM.clock
    following = call_run(lambda: "alive", executor="thread", job_id="job-2")
    executor.start(following.run)
    assert following.outcome() == Complete(b'"alive"', None, "json")
    executor.close()


class BreakingSlot(Slot):
    """Breaks the event loop of its executor with the first run, then works."""

    breaks = True

    async def prepare(self, candidate: Run) -> Fail | None:
        return None

    async def execute(self, run: Run) -> Outcome:
        if BreakingSlot.breaks:
            BreakingSlot.breaks = False
            asyncio.get_running_loop().stop()
            await asyncio.sleep(SECONDS)
        return Complete(b'"done"')

    def halt(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_executor_whose_loop_ends_fails_what_ran_and_starts_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BreakingSlot, "breaks", True)
    executor = SlotExecutor(1, BreakingSlot, thread_name="breaking")
    lost, waiting = (call_run(child_tasks.pid, job_id=f"job-{n}") for n in (1, 2))
    executor.start(lost.run)
    executor.start(waiting.run)
    assert lost.failure().error.type == "ExecutorDied"
    assert waiting.outcome() == Complete(b'"done"')
    following = call_run(child_tasks.pid, job_id="job-3")
    executor.start(following.run)
    assert following.outcome() == Complete(b'"done"')
    executor.close()


class ExitingSlot(BreakingSlot):
    async def execute(self, run: Run) -> Outcome:
        if run.lease.job_id == "job-1":
            leave()
        return Complete(b'"done"')


def test_an_executor_survives_what_exits_in_a_slot() -> None:
    executor = SlotExecutor(1, ExitingSlot, thread_name="exiting")
    exits, following = (call_run(child_tasks.pid, job_id=f"job-{n}") for n in (1, 2))
    executor.start(exits.run)
    executor.start(following.run)
    assert exits.failure().error.type == "SystemExit"
    assert following.outcome() == Complete(b'"done"')
    executor.close()


def test_an_event_loop_that_was_closed_is_replaced_and_what_ran_there_has_failed() -> None:
    executor = AsyncExecutor()
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.sleep(1000)

    async def good() -> int:
        return 1

    lost = call_run(wait, executor="async")
    executor.start(lost.run)
    assert begun.wait(SECONDS)
    os.close(executor._loop._selector.fileno())  # type: ignore[attr-defined]
    # The loop notices when it turns.
    executor.stop(call_run(good, executor="async", job_id="job-0").run)
    assert lost.failure().error.type == "EventLoopDied"
    following = call_run(good, executor="async", job_id="job-2")
    executor.start(following.run)
    assert following.result() == 1
    executor.close()


def test_a_task_that_blocks_the_shared_loop_does_not_keep_the_worker_from_stopping(
    store: MoodyStore, tasks: Tasks
) -> None:
    begun, go = threading.Event(), threading.Event()

    async def block() -> None:
        begun.set()
        go.wait(SECONDS)

    tasks.add(block)
    worker = Worker(store, tasks, slots=1)
    worker.start()
    job = submit_to(store, "block")
    assert begun.wait(SECONDS)
    assert worker.stop(timeout=0)
    assert store.job(job).status is Status.PENDING
    go.set()


# -- defaults of the application -----------------------------------------------------------------


@pytest.fixture
def default_timeout() -> Iterator[None]:
    socket.setdefaulttimeout(10)
    yield
    socket.setdefaulttimeout(None)


@pytest.mark.usefixtures("default_timeout")
def test_a_default_timeout_of_sockets_does_not_end_child_processes() -> None:
    executor = ProcessExecutor(1, env=SYSTEM)
    watched = call_run(child_tasks.add, 1, 2)
    executor.start(watched.run)
    assert watched.result() == 3
    executor.close()


@pytest.mark.usefixtures("default_timeout")
def test_a_default_timeout_of_sockets_does_not_end_commands(tmp_path: Path) -> None:
    executor = CommandExecutor(1, env=SYSTEM, output_dir=str(tmp_path))
    watched = command_run({"shell": "echo well"})
    executor.start(watched.run)
    result: dict[str, Any] = watched.result()
    assert result["stdout_tail"] == "well\n"
    executor.close()


def test_child_processes_can_be_started_in_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    executor = ProcessExecutor(1, env=SYSTEM)
    watched = call_run(child_tasks.add, 1, 2)
    executor.start(watched.run)
    assert watched.result() == 3
    executor.close()


def test_a_child_process_puts_its_surroundings_back_after_each_job() -> None:
    executor = ProcessExecutor(1, env=SYSTEM)
    runs = [
        call_run(func, job_id=f"job-{number}")
        for number, func in enumerate(
            (
                child_tasks.process_state,
                child_tasks.change_process_state,
                child_tasks.process_state,
            )
        )
    ]
    for watched in runs:
        executor.start(watched.run)
    before, pid, after = (watched.result() for watched in runs)
    assert before == after
    assert pid == before["pid"]
    executor.close()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (child_tasks.add_an_audit_hook, "an audit hook"),
        (child_tasks.be_nicer, "another priority"),
        pytest.param(child_tasks.become_somebody_else, "another user or group", marks=AS_ROOT),
        pytest.param(child_tasks.move_to_another_root, "another root folder", marks=AS_ROOT),
    ],
)
def test_a_child_process_is_replaced_after_a_job_that_changed_it_for_good(
    task: Callable[[], int], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leasehold.worker")
    executor = ProcessExecutor(1, env=SYSTEM)
    pids = []
    for number, func in enumerate((child_tasks.pid, task, child_tasks.pid, child_tasks.pid)):
        watched = call_run(func, job_id=f"job-{number}")
        executor.start(watched.run)
        pids.append(watched.result())
    executor.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]
    [said] = [each for each in caplog.messages if "cannot be undone" in each]
    assert said.startswith("job job-1 ")
    assert f"left its process with {words}" in said


def test_a_limit_that_nobody_can_raise_again_is_a_change_for_good() -> None:
    script = """
import os, resource
from leasehold.worker.executors.lasting import LastingChanges
if os.getuid() == 0:
    os.setuid(65534)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
changes = LastingChanges()
resource.setrlimit(resource.RLIMIT_NOFILE, (16, hard))
print(changes.found(), resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard))
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 32))
print(changes.found())
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["None True", "a lower resource limit"]


def test_what_the_import_of_a_task_changes_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_with_a_wish.py").write_text(
        "import os, sys\nos.environ['WISH'] = 'stays'\ndef wish(): return os.environ.get('WISH')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_with_a_wish")
    monkeypatch.delenv("WISH")
    executor = ProcessExecutor(1, env=SYSTEM)
    answers = []
    # The child is started for another module, and imports this one when its job begins.
    for number, func in enumerate((child_tasks.pid, module.wish, module.wish)):
        watched = call_run(func, job_id=f"job-{number}")
        executor.start(watched.run)
        answers.append(watched.result())
    executor.close()
    assert answers[1:] == ["stays", "stays"]
