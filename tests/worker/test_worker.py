"""The worker as a whole, with real threads on a memory store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from leasehold.core.model.lease import Exchange, Lease
from leasehold.core.model.outcome import Cancel, Retry, Snooze
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.status import Event, Status
from leasehold.worker.context import JobContext, current_job
from leasehold.worker.hooks import Hooks
from leasehold.worker.stopping import StopReason
from leasehold.worker.worker import Worker
from support.workers import PATIENCE_SECONDS, MoodyStore, Tasks, submit_to

Start = Callable[..., Worker]


class Gate:
    """Code that says that it has begun, and goes on when it is let go or should stop."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.contexts: list[JobContext] = []

    def task(self) -> str:
        context = current_job()
        self.contexts.append(context)
        self.begun.release()
        assert self.go.wait(PATIENCE_SECONDS)
        return "done"

    def polite(self) -> None:
        self.contexts.append(current_job())
        self.begun.release()
        assert current_job().wait(PATIENCE_SECONDS), "nobody asked it to stop"
        current_job().check()

    def until_begun(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.begun.acquire(timeout=PATIENCE_SECONDS)


@pytest.fixture
def gate() -> Gate:
    return Gate()


# -- running -----------------------------------------------------------------------------------


def test_it_runs_what_is_submitted_before_and_after_its_start(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    tasks.add(lambda a, b: a + b, "add")
    before = submit_to(store, "add", 1, 2)
    worker = start_worker(poll_interval_seconds=3600)
    assert store.until_status(before, Status.COMPLETED).result == 3
    after = submit_to(store, "add", 20, 22)
    assert store.until_status(after, Status.COMPLETED).result == 42
    [info] = store.workers()
    assert (info.id, info.slots) == (worker.id, 2)


def test_many_jobs_of_no_length_all_end_once(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    seen: list[int] = []
    tasks.add(seen.append, "note")
    for number in range(3000):
        submit_to(store, "note", number)
    worker = start_worker(slots=4)
    store.until(lambda: store.stats().counts.get(Status.COMPLETED, 0) == 3000)
    assert sorted(seen) == list(range(3000))
    # It leases ahead: far fewer exchanges than jobs.
    assert worker.statistics.exchanges < 1500


def test_jobs_with_a_start_rate_are_not_leased_ahead(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    """A lease is a start: what waits for a slot would begin when others do, who knows how many."""
    store.create_queue("default", QueueConfig(starts_per_second=1_000_000), actor="me")
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, store.stats().counts[Status.RUNNING])

    store.before["exchange"] = look
    tasks.add(lambda: None, "note")
    for _ in range(1000):
        submit_to(store, "note")
    start_worker(slots=2)
    store.until(lambda: store.stats().counts.get(Status.COMPLETED, 0) == 1000)
    assert 1 <= most <= 2


def test_jobs_that_take_time_are_not_leased_ahead(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.task)
    for _ in range(5):
        submit_to(store, "task")
    worker = start_worker(slots=2)
    gate.until_begun(2)
    assert worker.running == 2
    assert store.stats().counts[Status.PENDING] == 3
    gate.go.set()
    store.until(lambda: store.stats().counts.get(Status.COMPLETED, 0) == 5)


def test_a_delayed_job_runs_when_it_is_due_without_polling(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    tasks.add(lambda: "ran", "late")
    start_worker(poll_interval_seconds=3600)
    job_id = submit_to(store, "late", delay_seconds=0.05)
    assert store.until_status(job_id, Status.COMPLETED).result == "ran"


def test_async_tasks_run_on_one_event_loop(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    async def where() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    tasks.add(where)
    jobs = [submit_to(store, "where") for _ in range(3)]
    start_worker(worker_id="w")
    assert {store.until_status(job, Status.COMPLETED).result for job in jobs} == {"w-asyncio"}


@pytest.mark.parametrize(
    ("value", "status", "attempts"),
    [
        (Snooze(3600), Status.SCHEDULED, 0),
        (Retry(after=3600), Status.FAILED, 1),
        (Cancel("sold out"), Status.CANCELLED, 1),
    ],
)
def test_a_task_may_return_what_becomes_of_its_job(
    store: MoodyStore,
    tasks: Tasks,
    start_worker: Start,
    value: object,
    status: Status,
    attempts: int,
) -> None:
    tasks.add(lambda: value, "say")
    job_id = submit_to(store, "say")
    start_worker()
    assert store.until_status(job_id, status).attempts == attempts


def test_failures_are_retried_or_dead(store: MoodyStore, tasks: Tasks, start_worker: Start) -> None:
    def bad(kind: str) -> None:
        raise OSError("net") if kind == "luck" else ValueError("bug")

    tasks.add(bad, backoff=lambda attempt, error: 3600.0 + attempt)
    luck, bug = submit_to(store, "bad", "luck"), submit_to(store, "bad", "bug")
    start_worker()
    retried = store.until_status(luck, Status.FAILED)
    assert (retried.run_at - retried.updated_at).total_seconds() == pytest.approx(3601)
    dead = store.until_status(bug, Status.DEAD)
    assert dead.error is not None
    assert (dead.error.type, dead.error.message) == ("ValueError", "bug")
    assert "raise" in (dead.error.traceback or "")


def test_the_last_progress_and_log_are_there_when_the_job_ends(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    def work() -> None:
        current_job().progress(0, 500)
        # Only the first is written at once: what follows would wait for its turn.
        store.until(lambda: store.calls["report_progress"] == 1)
        for number in range(500):
            current_job().progress(number, 500)
            current_job().log(f"line {number}")
        current_job().attach({"rows": 500})

    tasks.add(work)
    job_id = submit_to(store, "work")
    start_worker()
    job = store.until_status(job_id, Status.COMPLETED)
    assert job.progress == {"done": 499, "total": 500}
    assert store.log(job_id).texts[-1] == "line 499"
    assert store.attempts(job_id)[0].note == {"rows": 500}
    assert store.calls["report_progress"] < 10


def test_progress_is_written_while_the_job_runs(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    def work() -> None:
        current_job().progress(1, 2)
        gate.task()

    tasks.add(work)
    job_id = submit_to(store, "work")
    start_worker(poll_interval_seconds=3600)
    store.until(lambda: store.calls["report_progress"] == 1)
    gate.go.set()
    assert store.until_status(job_id, Status.COMPLETED).progress == {"done": 1, "total": 2}


# -- hooks -------------------------------------------------------------------------------------


def test_hooks_are_told_and_cannot_hurt(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    told: list[str] = []

    def on_success(lease: Lease, settled: Any) -> None:
        told.append(f"success {lease.job_id}")
        raise RuntimeError("a bad hook")

    tasks.add(lambda: None, "good")
    tasks.add(lambda: 1 / 0, "bad")
    hooks = Hooks(
        on_start=lambda lease: told.append(f"start {lease.job_id}"),
        on_success=on_success,
        on_failure=lambda lease, settled, error: told.append(f"failure {error.type}"),
        on_dead=lambda lease, settled, error: told.append(f"dead {settled.status}"),
    )
    worker = start_worker(hooks=hooks)
    submit_to(store, "good", id="one")
    store.until_status("one", Status.COMPLETED)
    submit_to(store, "bad", id="two", max_retries=0)
    store.until_status("two", Status.DEAD)
    submit_to(store, "good", id="three")
    store.until_status("three", Status.COMPLETED)
    assert worker.stop()
    assert told == [
        "start one",
        "success one",
        "start two",
        "failure ZeroDivisionError",
        "dead dead",
        "start three",
        "success three",
    ]


def test_a_job_does_not_wait_for_the_hook_that_is_told_of_its_start(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    has_begun = threading.Event()
    told: list[bool] = []
    tasks.add(has_begun.set, "work")
    start_worker(hooks=Hooks(on_start=lambda _: told.append(has_begun.wait(PATIENCE_SECONDS))))
    job_id = submit_to(store, "work")
    store.until_status(job_id, Status.COMPLETED)
    assert told == [True]


# -- cancel, timeout, unknown ------------------------------------------------------------------


def test_a_running_job_is_cancelled_at_once_when_it_listens(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.polite)
    job_id = submit_to(store, "polite")
    start_worker()
    gate.until_begun()
    store.cancel([job_id], reason="sold out", actor="test")
    assert store.until_status(job_id, Status.CANCELLED).reason == "sold out"
    assert gate.contexts[0].cancel_reason == "sold out"


def test_a_cancel_that_comes_before_the_worker_knows_of_its_lease_is_told(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    def cancel(answer: Exchange) -> None:
        store.cancel([lease.job_id for lease in answer.leases], reason="sold out", actor="test")

    tasks.add(gate.polite)
    job_id = submit_to(store, "polite")
    store.after_exchange = cancel
    start_worker()
    assert store.until_status(job_id, Status.CANCELLED).reason == "sold out"
    # If its code began at all, it was told.
    assert all(context.cancelled for context in gate.contexts)


def test_a_cancelled_job_that_completes_anyway_is_completed(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.task)
    job_id = submit_to(store, "task")
    start_worker()
    gate.until_begun()
    store.cancel([job_id], reason="too late", actor="test")
    assert gate.contexts[0].wait(PATIENCE_SECONDS)
    gate.go.set()
    assert store.until_status(job_id, Status.COMPLETED).result == "done"


def test_an_async_job_is_cancelled_where_it_waits(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    async def work() -> None:
        gate.begun.release()
        await asyncio.sleep(3600)

    tasks.add(work)
    job_id = submit_to(store, "work")
    start_worker()
    gate.until_begun()
    store.cancel([job_id], reason="sold out", actor="test")
    assert store.until_status(job_id, Status.CANCELLED).reason == "sold out"


def test_a_thread_that_times_out_fails_at_once_and_keeps_its_slot(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.task)
    tasks.add(lambda: None, "quick")
    job_id = submit_to(store, "task", timeout_seconds=0.05, max_retries=0)
    worker = start_worker(slots=3)
    gate.until_begun()
    dead = store.until_status(job_id, Status.DEAD)
    assert dead.error is not None
    assert dead.error.type == "JobTimeoutError"
    assert gate.contexts[0].timed_out
    assert worker.statistics.stuck == 1
    store.until_status(submit_to(store, "quick"), Status.COMPLETED)
    gate.go.set()
    for _ in range(10_000):
        # When its thread ends is for the machine to say: jobs run on meanwhile.
        store.until_status(submit_to(store, "quick"), Status.COMPLETED)
        if not worker.statistics.stuck:
            break
    assert worker.statistics.stuck == 0
    assert worker.stop()
    assert store.job(job_id).status is Status.DEAD


def test_a_timed_out_job_is_tried_again(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.polite)
    job_id = submit_to(store, "polite", timeout_seconds=0.05)
    start_worker()
    assert store.until_status(job_id, Status.FAILED).will_retry


def test_embedded_stuck_threads_are_replaced_so_that_the_queue_moves(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.task)
    tasks.add(lambda: "ran", "quick")
    stuck = [submit_to(store, "task", timeout_seconds=0.05, max_retries=0) for _ in range(2)]
    worker = start_worker(slots=2)
    gate.until_begun(2)
    for job_id in stuck:
        store.until_status(job_id, Status.DEAD)
    job_id = submit_to(store, "quick")
    assert store.until_status(job_id, Status.COMPLETED).result == "ran"
    assert worker.statistics.stuck == 0
    gate.go.set()


def test_in_the_foreground_stuck_threads_ask_for_a_new_process(
    store: MoodyStore, tasks: Tasks, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    tasks.add(gate.task)
    for _ in range(2):
        submit_to(store, "task", timeout_seconds=0.05, max_retries=0)
    reason = Worker(store, tasks, slots=2).run()
    gate.go.set()
    assert reason is StopReason.STUCK
    assert reason.recycled
    assert reason.exit_code == 75
    [line] = [each for each in caplog.records if "asks to be replaced" in each.getMessage()]
    assert line.levelname == "ERROR"
    assert "2 of 2 slots are held by tasks that did not stop" in line.getMessage()
    assert "a cancel: task; let them check current_job().should_stop" in line.getMessage()


def test_a_worker_whose_work_is_done_leaves_with_code_0() -> None:
    assert [each for each in StopReason if each.exit_code == 0] == ["stopped", "empty"]


def test_an_unknown_task_is_handed_back_with_a_growing_delay(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    job_id = submit_to(store, "nobody-knows")
    start_worker(poll_interval_seconds=3600)
    job = store.until_status(job_id, Status.SCHEDULED)
    assert job.attempts == 0
    assert "nobody-knows" in (job.reason or "")
    assert (job.run_at - job.updated_at).total_seconds() == pytest.approx(1, abs=0.01)
    assert store.calls["exchange"] < 10


def test_jobs_that_it_can_run_do_not_wait_behind_urgent_ones_that_it_cannot(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    urgent = [submit_to(store, "nobody-knows", priority=99) for _ in range(100)]
    known = [submit_to(store, "known", priority=1) for _ in range(5)]
    tried: list[int] = []

    def was_leased(job_id: str) -> bool:
        return any(each.event is Event.LEASED for each in store.history(job_id))

    def count_tried() -> None:
        tried.append(sum(was_leased(each) for each in urgent))

    tasks.add(count_tried, "known")
    start_worker(slots=1, poll_interval_seconds=3600)
    for job_id in known:
        store.until_status(job_id, Status.COMPLETED)
    assert max(tried) < len(urgent) / 2
    # When it has nothing else to do, it tries them all.
    store.until(lambda: all(map(was_leased, urgent)))


def test_what_another_worker_knows_is_left_to_it(
    store: MoodyStore, tasks: Tasks, gate: Gate, start_worker: Start
) -> None:
    tasks.add(len)
    knowing = Tasks()
    knowing.add(gate.task, "new")
    other = Worker(store, knowing, slots=1)
    other.start()
    try:
        first = submit_to(store, "new")
        gate.until_begun()
        lacking = start_worker()
        jobs = [submit_to(store, "new") for _ in range(5)]
        # It has looked at all of them, and at what came after them.
        store.until_status(submit_to(store, "len", "abc"), Status.COMPLETED)
        assert {store.job(each).status for each in jobs} == {Status.PENDING}
        gate.go.set()
        for each in (first, *jobs):
            assert store.until_status(each, Status.COMPLETED).attempts == 1
        assert lacking.statistics.handed_back <= 2, "it kept taking what it does not know"
    finally:
        other.request_stop(now=True)
        assert other.wait(PATIENCE_SECONDS) is not None


def test_a_command_is_refused_unless_allowed(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    job_id = submit_to(store, "command")
    start_worker()
    assert "allow_commands" in (store.until_status(job_id, Status.SCHEDULED).reason or "")
    with pytest.raises(ValueError, match="output_dir"):
        Worker(store, tasks, allow_commands=True)


def test_a_task_whose_module_breaks_on_import_is_handed_back(
    store: MoodyStore, start_worker: Start, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> None:
        raise SyntaxError("a bad module")

    monkeypatch.setattr(tasks, "find", find)
    job_id = submit_to(store, "task")
    start_worker()
    assert "a bad module" in (store.until_status(job_id, Status.SCHEDULED).reason or "")


# -- stopping ----------------------------------------------------------------------------------


def test_a_graceful_stop_lets_what_runs_finish(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.task)
    running, waiting = submit_to(store, "task"), submit_to(store, "task")
    worker = start_worker(slots=1)
    gate.until_begun()
    worker.request_stop()
    gate.go.set()
    assert worker.wait(PATIENCE_SECONDS) is StopReason.STOPPED
    assert store.job(running).status is Status.COMPLETED
    assert store.job(waiting).status is Status.PENDING
    assert store.workers() == []


def test_what_outlasts_the_grace_is_handed_back_without_spending_an_attempt(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    tasks.add(gate.task)
    job_id = submit_to(store, "task")
    worker = start_worker(grace_seconds=0.05)
    gate.until_begun()
    assert worker.stop()
    job = store.job(job_id)
    assert (job.status, job.attempts) == (Status.PENDING, 0)
    assert gate.contexts[0].lease_lost
    gate.go.set()


def test_what_waits_is_handed_back_at_once(
    store: MoodyStore, tasks: Tasks, start_worker: Start, gate: Gate
) -> None:
    """Jobs leased ahead, behind one that suddenly takes long, go back to the others."""
    first = threading.Event()

    def sometimes(number: int) -> None:
        if number == 300:
            first.set()
            gate.task()

    tasks.add(sometimes)
    for number in range(600):
        submit_to(store, "sometimes", number)
    worker = start_worker(slots=1)
    assert first.wait(PATIENCE_SECONDS)
    store.until(lambda: store.stats().counts[Status.RUNNING] == 1)
    # The books are brought up to date after the store.
    store.until(lambda: worker.statistics.completed == 300)
    assert worker.running == 1
    job = next(job for job in store.search_all() if job.status is Status.PENDING)
    assert job.attempts == 0
    gate.go.set()
    store.until(lambda: store.stats().counts.get(Status.COMPLETED, 0) == 600)


def test_a_worker_recycles_after_so_many_jobs(store: MoodyStore, tasks: Tasks) -> None:
    tasks.add(lambda: None, "quick")
    for _ in range(20):
        submit_to(store, "quick")
    reason = Worker(store, tasks, slots=2, max_jobs=10).run()
    assert reason is StopReason.MAX_JOBS
    counts = store.stats().counts
    assert (counts[Status.COMPLETED], counts[Status.PENDING]) == (10, 10)


def test_a_worker_recycles_when_it_has_grown_too_large(store: MoodyStore, tasks: Tasks) -> None:
    tasks.add(lambda: None, "quick")
    submit_to(store, "quick", id="one")
    assert Worker(store, tasks, max_memory_mb=1).run() is StopReason.MAX_MEMORY
    assert store.job("one").status is Status.COMPLETED


def test_a_worker_is_started_once(start_worker: Start) -> None:
    worker = start_worker()
    with pytest.raises(RuntimeError, match="already started"):
        worker.start()


def test_stopping_a_worker_that_never_started_is_harmless(store: MoodyStore, tasks: Tasks) -> None:
    assert Worker(store, tasks).stop()


# -- idleness ----------------------------------------------------------------------------------


def test_an_idle_worker_does_not_spin(store: MoodyStore, tasks: Tasks, start_worker: Start) -> None:
    tasks.add(lambda: None, "quick")
    worker = start_worker(poll_interval_seconds=3600, slots=4)
    store.until_status(submit_to(store, "quick"), Status.COMPLETED)
    quiet = threading.Event()
    quiet.wait(0.3)
    assert store.calls["exchange"] <= 4
    assert worker.statistics.exchanges == store.calls["exchange"]


def test_it_asks_again_at_every_poll_when_no_hint_comes(
    store: MoodyStore, tasks: Tasks, start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "subscribe", lambda listener: lambda: None)
    tasks.add(lambda: None, "quick")
    start_worker(poll_interval_seconds=0.02)
    store.until(lambda: store.calls["exchange"] >= 1)
    job_id = submit_to(store, "quick")
    store.until_status(job_id, Status.COMPLETED)


def test_the_history_of_an_ordinary_job_is_short(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    tasks.add(lambda: None, "quick")
    job_id = submit_to(store, "quick")
    start_worker()
    store.until_status(job_id, Status.COMPLETED)
    events = [event.event for event in store.history(job_id)]
    assert events == [Event.CREATED, Event.LEASED, Event.COMPLETED]
