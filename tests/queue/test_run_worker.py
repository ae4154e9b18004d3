"""A worker as the main loop of a process: what it runs, and when it is done."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from leasehold import InvalidJobError, NewJob, Status, TaskNotImportableError, TaskQueue
from leasehold.core.model.records import WorkerInfo
from leasehold.errors import StoreBusyError, StoreClosedError
from leasehold.stores.memory import MemoryStore
from leasehold.worker.emptiness import Emptiness
from leasehold.worker.stopping import StopReason

from .conftest import MakeQueue

TASKS = """
from leasehold import TaskQueue

queue = TaskQueue("memory://", num_workers=0)

@queue.task(name="greet")
def greet(who):
    return f"hello {who}"
"""


def is_empty(queue: TaskQueue, *queues: str, tasks: tuple[str, ...] | None = None) -> bool:
    return Emptiness(queue.store, queues or ("default",), tasks).is_reached()


def test_a_store_is_empty_when_nothing_can_come_soon(still: TaskQueue) -> None:
    assert is_empty(still)
    still.submit("later", delay=3600)
    assert is_empty(still)
    job = still.submit("now")
    assert not is_empty(still)
    lease = still.lease(tasks=["now"])
    assert lease is not None
    assert not is_empty(still), "another worker runs it, and may hand it back"
    still.nack(lease, "broken", retry_after=60)
    assert not is_empty(still), "it will be tried again"
    still.cancel(job)
    assert is_empty(still)


def test_other_queues_other_tasks_and_paused_queues_do_not_count(still: TaskQueue) -> None:
    still.submit("here")
    assert is_empty(still, "elsewhere")
    assert is_empty(still, tasks=("other",))
    assert not is_empty(still, "default", "elsewhere", tasks=("here",))
    still.pause_queue("default")
    assert is_empty(still)


def test_it_returns_when_the_work_is_done_retries_and_dependents_included(
    make_queue: MakeQueue,
) -> None:
    queue = make_queue(num_workers=0, poll_interval=0.05)
    runs = []

    @queue.task(name="work", retry=[0.01])
    def work(number: int) -> int:
        runs.append(number)
        if number == 1 and runs.count(1) == 1:
            raise OSError("the first time it fails")
        return number

    first = work.submit(1)
    last = work.options(depends_on=[first]).submit(2)
    later = work.options(delay=3600).submit(3)
    assert queue.run_worker(slots=2, until_empty=True) is StopReason.EMPTY
    assert runs == [1, 1, 2]
    assert last.status() is Status.COMPLETED
    assert later.status() is Status.SCHEDULED
    assert not StopReason.EMPTY.recycled


def test_it_runs_only_the_tasks_it_was_told(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    mine, other = queue.submit(abs, -1), queue.submit(len, "abc")
    assert queue.run_worker(tasks="builtins:abs", until_empty=True) is StopReason.EMPTY
    assert (mine.status(), other.status()) == (Status.COMPLETED, Status.PENDING)


def test_plain_functions_run_in_processes_on_demand(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0, import_tasks=["support.child_tasks"])
    known, by_name = queue.submit(os.getpid), queue.submit("support.child_tasks:parent")
    queue.run_worker(executor="process", until_empty=True)
    assert known.result(0) != os.getpid()
    assert by_name.result(0) == os.getpid()


def test_it_waits_for_what_another_worker_handed_back_and_it_can_run(
    make_queue: MakeQueue,
) -> None:
    lacking = make_queue(num_workers=0)
    knowing = TaskQueue(lacking.store, num_workers=0)
    ran = threading.Event()
    knowing.task(name="known")(ran.set)
    job = lacking.submit("known")
    assert lacking.run_worker(until_empty=True) is StopReason.UNRUNNABLE
    assert lacking.get_status(job) is Status.SCHEDULED
    assert knowing.run_worker(until_empty=True) is StopReason.EMPTY
    assert ran.is_set()
    assert knowing.get_status(job) is Status.COMPLETED


def test_it_says_what_it_leaves_and_why(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(num_workers=0)
    queue.submit_many([NewJob("nobody's"), NewJob("nobody's"), NewJob(abs, (1,))])
    queue.submit("later", delay=3600)
    assert queue.run_worker(until_empty=True) is StopReason.UNRUNNABLE
    [said] = [each for each in caplog.messages if "; left " in each]
    assert 'left 2 jobs of task "nobody\'s" that it cannot run: no task' in said
    assert queue.get_queue_stats()["completed"] == 1
    queue.pause_queue("default")
    assert queue.run_worker(until_empty=True) is StopReason.EMPTY


class BusyStore(MemoryStore):
    """Is locked by another process for the first three tries to register a worker."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> Any:
        self.tries += 1
        if self.tries <= 3:
            raise StoreBusyError("jobs.db stays locked")
        return super().register_worker(info, is_remote=is_remote, is_entered=is_entered)


def test_it_begins_when_a_busy_store_lets_it(caplog: pytest.LogCaptureFixture) -> None:
    store = BusyStore()
    with TaskQueue(store, num_workers=0) as queue:
        queue.submit(abs, -1)
        assert queue.run_worker(until_empty=True) is StopReason.EMPTY
        assert store.tries == 4
        assert queue.get_queue_stats()["completed"] == 1
    said = [each for each in caplog.messages if "cannot start, and tries again in" in each]
    assert len(said) == 3
    assert said[0].endswith("jobs.db stays locked")


def test_it_may_be_stopped_before_it_could_begin() -> None:
    store = BusyStore()
    store.tries = -(10**9)
    before = signal.getsignal(signal.SIGTERM)

    def stop_on_the_second_try(record: logging.LogRecord) -> bool:
        if store.tries == -(10**9) + 2:
            signal.raise_signal(signal.SIGTERM)
        return True

    logger = logging.getLogger("leasehold.worker")
    logger.addFilter(stop_on_the_second_try)
    try:
        with TaskQueue(store, num_workers=0) as queue:
            assert queue.run_worker() is StopReason.STOPPED
    finally:
        logger.removeFilter(stop_on_the_second_try)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_store_that_is_gone_is_told_at_once() -> None:
    store = MemoryStore()
    with TaskQueue(store, num_workers=0) as queue:
        store.close()
        with pytest.raises(StoreClosedError):
            queue.run_worker()


@pytest.mark.parametrize("slots", [0, -1])
def test_a_worker_without_slots_is_refused(still: TaskQueue, slots: int) -> None:
    with pytest.raises(ValueError, match=f"slots must be 1 or more, not {slots}"):
        still.run_worker(slots=slots, until_empty=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("slots", each) for each in (2.5, "4", True)),
        ("queues", 1),
        ("max_jobs", "many"),
        ("max_memory_mb", "1G"),
        ("tasks", [1]),
        ("until_empty", "no"),
        ("allow_commands", 1),
        ("app_version", 2),
        ("on_ready", "later"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_by_name(
    still: TaskQueue, name: str, value: object
) -> None:
    wrong: dict[str, Any] = {"until_empty": True, name: value}
    with pytest.raises(TypeError, match=name):
        still.run_worker(**wrong)


def test_it_says_when_it_begins(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    registered = []
    looked = threading.Event()

    # Without a job it might have left again before the look.
    @queue.task(name="stay")
    def stay() -> None:
        assert looked.wait(60)

    def note(worker_id: str) -> None:
        registered.append((worker_id, [worker.id for worker in queue.workers()]))
        looked.set()

    stay.submit()
    queue.run_worker(until_empty=True, on_ready=note)
    [(worker_id, workers)] = registered
    assert workers == [worker_id]


def test_tasks_with_names_of_their_own_are_loaded_from_a_module(
    make_queue: MakeQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greetings_of_this_test.py").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    queue = make_queue(num_workers=0)
    assert queue.load_tasks("greetings_of_this_test") == ["greet"]
    job = queue.submit("greet", "Ada")
    queue.run_worker(until_empty=True)
    assert job.result(0) == "hello Ada"
    with pytest.raises(TaskNotImportableError, match="'no_such_module' cannot be imported"):
        queue.load_tasks("no_such_module")


def test_a_job_is_checked_without_being_stored(still: TaskQueue) -> None:
    still.check_job(NewJob("mail", ["a@b.c"], priority="high"))
    with pytest.raises(InvalidJobError, match="max_retries"):
        still.check_job(NewJob("mail", max_retries=-1))
    with pytest.raises(InvalidJobError, match="unknown option"):
        still.check_job(NewJob("mail", colour="red"))  # type: ignore[call-arg]
    assert list(still.search()) == []


def test_the_output_of_every_attempt_is_found(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=0, allow_commands=True)
    job = queue.submit_command('echo "$LEASEHOLD_ATTEMPT"; exit 1', max_retries=1, retry=0.01)
    assert queue.output_paths(job) is None, "there was no attempt yet"
    assert queue.output_paths(queue.submit("other", delay=3600)) is None, "it is no command"
    queue.run_worker(until_empty=True)
    latest = queue.output_paths(job)
    assert latest is not None
    assert Path(latest[0]).read_text() == "2\n"
    assert latest == queue.output_paths(job.job()) == queue.output_paths(job, attempt=2)
    first = queue.output_paths(job, attempt=1)
    assert first is not None
    assert Path(first[0]).read_text() == "1\n"
    assert queue.output_paths(job, attempt=3) is None
    queue.shutdown()
