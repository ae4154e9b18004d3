"""ctx.transaction(): what a task writes and its completion, in one commit, in every executor."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leasehold import (
    Connection,
    Job,
    JobHandle,
    Lease,
    LeaseLostError,
    NewJob,
    Settled,
    Status,
    TaskQueue,
    TransactionError,
    UnsupportedError,
    current_job,
)
from leasehold.codec import CallCodec
from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Event
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing import drain
from leasehold.worker.attempt import attempt, attempt_of
from leasehold.worker.backing import PlainBacking
from leasehold.worker.context import JobContext
from leasehold.worker.leases import LeaseManager
from leasehold.worker.run import Host, Run
from leasehold.worker.task import ExecutorKind, TaskDefinition
from support.transaction_tasks import (
    ADD_ROW,
    MAKE_ROWS,
    ROWS,
    stand_inside,
    write,
    write_async,
)

WAIT = 30
LOOK_SECONDS = 0.002

KEPT = ["", "plain"]
UNDONE = {
    "raise": Status.FAILED,
    "raise late": Status.FAILED,
    "commit": Status.FAILED,
    "roll back": Status.FAILED,
    "close": Status.FAILED,
    "snooze": Status.SCHEDULED,
    "retry": Status.FAILED,
    "cancel": Status.CANCELLED,
    "too large": Status.DEAD,
    "no data": Status.DEAD,
}


class Scene:
    """A queue with workers, the application's connection to it, and what its hooks heard."""

    def __init__(self, path: Path) -> None:
        self.succeeded: list[str] = []
        self.lost: list[str] = []
        self._heard = threading.Condition()
        self.queue = TaskQueue(
            path,
            num_workers=3,
            sweep_interval=0.2,
            blobs=False,  # So that a result can be too large.
            on_success=self._on_success,
            on_lease_lost=self._on_lease_lost,
        )
        self.write = self.queue.task(name="thread", retry=3600.0)(write)
        self.write_async = self.queue.task(name="async", retry=3600.0)(write_async)
        self.write_process = self.queue.task(name="process", executor="process", retry=3600.0)(
            write
        )
        assert isinstance(self.queue.store, SQLiteStore)
        self.store = self.queue.store

    def _on_success(self, lease: Lease, _: object) -> None:
        with self._heard:
            self.succeeded.append(lease.job_id)
            self._heard.notify_all()

    def until_succeeded(self, count: int) -> None:
        """Wait until the hook has heard of so many."""
        with self._heard:
            assert self._heard.wait_for(lambda: len(self.succeeded) >= count, WAIT)

    def _on_lease_lost(self, lease: Lease, _: Exception) -> None:
        self.lost.append(lease.job_id)

    def open(self) -> None:
        self.connection = self.queue.connect()
        self.connection.execute(MAKE_ROWS)

    def rows(self) -> list[str]:
        return [row[0] for row in self.connection.execute(ROWS)]

    def events(self, job: JobHandle[Any]) -> list[Event]:
        return [event.event for event in self.queue.history(job)]

    def until_settled(self, job: JobHandle[Any]) -> Job:
        """Wait until its only attempt has ended, however that was."""
        pause = threading.Event()
        while (snapshot := job.job()).status in (Status.PENDING, Status.RUNNING):
            assert snapshot.attempts <= 1
            pause.wait(LOOK_SECONDS)
        return snapshot


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path / "jobs.db")
    yield scene
    scene.connection.close()
    assert scene.store.check() == []
    scene.queue.shutdown()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One for all that only run its tasks: a process for them takes long to start."""
    scene = Scene(tmp_path_factory.mktemp("lasting") / "jobs.db")
    scene.open()
    yield scene
    scene.connection.close()
    scene.queue.shutdown()


@pytest.fixture
def shared(lasting: Scene) -> Iterator[Scene]:
    lasting.connection.execute("DELETE FROM app_row")
    lasting.succeeded.clear()
    yield lasting
    assert lasting.store.check() == []


@pytest.mark.parametrize("task", ["thread", "async", "process"])
@pytest.mark.parametrize("how", KEPT)
def test_completed_together(shared: Scene, task: str, how: str) -> None:
    scene = shared
    completed = scene.queue.get_queue_stats()["total_completed"]
    job = scene.queue.submit(task, how)
    assert job.result(WAIT) == "done"
    assert scene.rows() == [job.id]
    assert scene.events(job) == [Event.CREATED, Event.LEASED, Event.COMPLETED]
    snapshot = job.job()
    assert (snapshot.progress, snapshot.attempts) == ({"done": 1, "total": 2}, 1)
    assert scene.queue.log(job) == ["before", "inside"]
    pid = scene.connection.execute("SELECT pid FROM app_row").fetchone()[0]
    assert (pid != os.getpid()) == (task == "process")
    # The worker knows that nothing is left to settle, and goes on with the next.
    assert scene.queue.submit(task, how).result(WAIT) == "done"
    assert scene.queue.get_queue_stats()["total_completed"] == completed + 2
    scene.until_succeeded(2)
    assert (len(scene.succeeded), scene.lost) == (2, [])


@pytest.mark.parametrize("task", ["thread", "async", "process"])
@pytest.mark.parametrize("how", UNDONE)
def test_rolled_back_and_settled_as_usual(shared: Scene, task: str, how: str) -> None:
    scene = shared
    job = scene.queue.submit(task, how)
    snapshot = scene.until_settled(job)
    assert snapshot.status is UNDONE[how], snapshot.error
    assert scene.rows() == []
    assert snapshot.progress is None
    assert Event.VERSION_MISMATCH not in scene.events(job)
    assert (scene.succeeded, scene.lost) == ([], [])
    # What was logged tells why, so it is kept.
    assert scene.queue.log(job) == ["before", "inside"]
    assert scene.queue.submit(task, "").result(WAIT) == "done"
    scene.until_succeeded(1)


def test_what_is_submitted_inside_is_a_part_of_it(scene: Scene, tmp_path: Path) -> None:
    elsewhere = TaskQueue(tmp_path / "other.db", num_workers=0)

    @scene.queue.task(name="parent", retry=3600.0)
    def parent(fails: bool) -> list[str]:
        ctx = current_job()
        with ctx.transaction() as connection:
            ids = [scene.queue.submit("child", 1).id]
            ids += [job.id for job in scene.queue.submit_many([NewJob("child", (2,))])]
            ids += [scene.queue.submit("child", 3, connection=connection).id]
            elsewhere.submit("child", 4)
        ids += [scene.queue.submit("child", 5).id]  # It is open until the task returns.
        assert [job.task for job in scene.queue.search(task="child")] == []
        if fails:
            raise OSError
        return ids

    scene.queue.task(name="child")(abs)
    scene.open()
    job = parent.submit(fails=True)
    assert scene.until_settled(job).status is Status.FAILED
    assert list(scene.queue.search(task="child")) == []
    ids = parent.submit(fails=False).result(WAIT)
    assert len(ids) == 4
    assert {job.id for job in scene.queue.search(task="child")} == set(ids)
    assert {job.status for job in scene.queue.wait(ids, WAIT)} == {Status.COMPLETED}
    assert len(list(elsewhere.search())) == 2, "another store knows nothing of it"
    elsewhere.shutdown()


def test_async_submits_inside_join_without_waiting_for_themselves(scene: Scene) -> None:
    @scene.queue.task(name="parent")
    async def parent() -> int:
        async with current_job().transaction():
            await scene.queue.asubmit("child", 1)
            await scene.queue.asubmit_many([NewJob("child", (2,))])
            with pytest.raises(TransactionError, match="none can make room"):
                await scene.queue.asubmit_many([NewJob("child", (3,))], block=True)
            assert (await scene.queue.aget(current_job().job_id)).status is Status.RUNNING
            return len(list(scene.queue.search(task="child")))

    scene.open()
    assert parent.submit().result(WAIT) == 0
    assert len(list(scene.queue.search(task="child"))) == 2


def test_other_writes_beside_it_are_refused_at_once(scene: Scene) -> None:
    @scene.queue.task(name="careless", max_retries=0)
    def careless() -> None:
        with current_job().transaction():
            scene.queue.cancel(current_job().job_id)

    scene.open()
    job = careless.submit()
    assert scene.until_settled(job).status is Status.DEAD
    error = job.job().error
    assert error is not None
    assert error.type == "TransactionError"


def test_a_second_one_is_refused_and_a_part_is_not(scene: Scene) -> None:
    @scene.queue.task(name="twice")
    def twice() -> str:
        ctx = current_job()
        with ctx.transaction() as connection:
            connection.execute(ADD_ROW, ("kept", 0))
            with suppress(KeyError), connection.transaction():
                connection.execute(ADD_ROW, ("undone", 0))
                raise KeyError
        with pytest.raises(TransactionError, match="already has its transaction open"):
            ctx.transaction()
        return "done"

    @scene.queue.task(name="again")
    def again() -> str:
        ctx = current_job()
        with suppress(KeyError), ctx.transaction() as connection:
            connection.execute(ADD_ROW, ("undone", 0))
            raise KeyError
        with ctx.transaction() as connection:
            connection.execute(ADD_ROW, ("second try", 0))
        return "done"

    scene.open()
    assert twice.submit().result(WAIT) == "done"
    assert again.submit().result(WAIT) == "done"
    assert scene.rows() == ["kept", "second try"]


def test_a_task_that_opens_none_completes_as_ever(scene: Scene) -> None:
    @scene.queue.task(name="idle")
    def idle() -> str:
        current_job().transaction()  # Asked for, and never entered.
        with suppress(KeyError), current_job().transaction():
            raise KeyError
        return "done"

    scene.open()
    assert idle.submit().result(WAIT) == "done"


def test_on_an_event_loop_it_is_awaited(scene: Scene) -> None:
    @scene.queue.task(name="blocking", max_retries=0)
    async def blocking() -> None:
        with current_job().transaction():
            pass

    scene.open()
    job = blocking.submit()
    assert scene.until_settled(job).status is Status.DEAD
    error = job.job().error
    assert error is not None
    assert "async with" in error.message


def test_many_async_tasks_take_turns(scene: Scene) -> None:
    scene.open()
    jobs = [scene.write_async.submit() for _ in range(20)] + [
        scene.write.submit() for _ in range(10)
    ]
    assert {job.result(WAIT) for job in jobs} == {"done"}
    assert sorted(scene.rows()) == sorted(job.id for job in jobs)


class Gate:
    """A task that stands inside its transaction until it is let go."""

    def __init__(self, queue: TaskQueue) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self.task = queue.task(name="gate", retry=3600.0)(self.stand)

    def stand(self) -> str:
        ctx = current_job()
        with ctx.transaction() as connection:
            connection.execute(ADD_ROW, (ctx.job_id, 0))
            self.inside.set()
            assert self.go.wait(WAIT)
        return "done"

    def until_inside(self) -> None:
        assert self.inside.wait(WAIT)


def until_decided(scene: Scene) -> None:
    """Wait until the worker has decided about its only run, whose code still runs.

    Once that is decided and settled, the worker does not hold it any more.
    """
    worker = scene.queue._worker
    assert worker is not None
    pause = threading.Event()
    while any(run.outcome is None for run in list(worker._in_hand.held)):
        pause.wait(LOOK_SECONDS)


def test_an_async_task_that_times_out_while_it_waits_leaves_the_way_free(scene: Scene) -> None:
    begun, go = threading.Event(), threading.Event()

    @scene.queue.task(name="waits", retry=3600.0)
    async def waits() -> None:
        begun.set()
        assert go.wait(WAIT)
        async with current_job().transaction() as connection:
            connection.execute(ADD_ROW, ("never", 0))

    scene.open()
    job = waits.options(timeout_seconds=0.1).submit()
    assert begun.wait(WAIT)
    with scene.connection.transaction():
        go.set()
        until_decided(scene)
    assert scene.until_settled(job).status is Status.FAILED
    assert scene.write_async.submit().result(WAIT) == "done"
    assert len(scene.rows()) == 1


def test_a_timeout_rolls_it_back(scene: Scene) -> None:
    gate = Gate(scene.queue)
    scene.open()
    job = gate.task.options(timeout_seconds=0.05).submit()
    gate.until_inside()
    until_decided(scene)
    gate.go.set()
    snapshot = scene.until_settled(job)
    assert snapshot.error is not None
    assert (snapshot.status, snapshot.error.type) == (Status.FAILED, "JobTimeoutError")
    assert scene.rows() == []
    assert scene.lost == []


def test_a_process_that_times_out_inside_it_leaves_nothing(scene: Scene) -> None:
    task = scene.queue.task(name="stand", executor="process", retry=3600.0)(stand_inside)
    scene.open()
    job = task.options(timeout_seconds=0.5).submit()
    snapshot = scene.until_settled(job)
    assert snapshot.error is not None
    assert (snapshot.status, snapshot.error.type) == (Status.FAILED, "JobTimeoutError")
    assert scene.rows() == []
    assert scene.write_process.submit("").result(WAIT) == "done"


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_an_async_function_elsewhere_than_on_the_event_loop(
    scene: Scene, executor: ExecutorKind
) -> None:
    task = scene.queue.task(name="elsewhere", executor=executor)(write_async)
    scene.open()
    job = task.submit("")
    assert job.result(WAIT) == "done"
    assert scene.rows() == [job.id]


def test_once_it_is_about_to_commit_no_timeout_counts(scene: Scene) -> None:
    gate = Gate(scene.queue)
    scene.open()
    job = gate.task.options(timeout_seconds=3600).submit()
    gate.until_inside()
    worker = scene.queue._worker
    assert worker is not None
    [run] = worker._in_hand.held
    assert run.claim()
    worker._loop._cutting_short.stop_what_timed_out(float("inf"))
    assert run.outcome is None
    gate.go.set()
    assert job.result(WAIT) == "done"
    assert scene.rows() == [job.id]


def test_it_outlasts_its_lease_and_no_heartbeat_disturbs_it(tmp_path: Path) -> None:
    lost: list[object] = []
    clock = ManualClock()
    queue = TaskQueue(
        tmp_path / "jobs.db",
        env=Env(clock),
        num_workers=2,
        lease_seconds=60,
        heartbeat_interval=10,
        sweep_interval=10,
        on_lease_lost=lambda *said: lost.append(said),
    )
    assert isinstance(queue.store, SQLiteStore)
    gate = Gate(queue)
    connection = queue.connect()
    connection.execute(MAKE_ROWS)
    job = gate.task.submit()
    gate.until_inside()
    clock.advance(120)
    pause = threading.Event()
    while len(queue.store._database.writer.queue.waiting) < 2:
        pause.wait(LOOK_SECONDS)  # The heartbeat and the sweep stand behind it.
    gate.go.set()
    assert job.result(WAIT) == "done"
    queue.shutdown()
    store = SQLiteStore(tmp_path / "jobs.db")
    assert [event.event for event in store.history(job.id)] == [
        Event.CREATED,
        Event.LEASED,
        Event.COMPLETED,
    ]
    assert lost == []
    store.close()
    connection.close()


def test_a_job_that_was_taken_away_before_rolls_back(scene: Scene) -> None:
    begun, go = threading.Event(), threading.Event()
    raised: list[type[BaseException]] = []

    @scene.queue.task(name="late")
    def late() -> str:
        if current_job().attempt > 1:
            return "the other one"
        begun.set()
        assert go.wait(WAIT)
        try:
            with current_job().transaction() as connection:
                connection.execute(ADD_ROW, ("stale", 0))
        except LeaseLostError as error:
            raised.append(type(error))
            raise
        return "stale"

    scene.open()
    job = late.submit()
    assert begun.wait(WAIT)
    scene.store.recover_one(
        job.id, job.job().lease_version, reset_attempts=False, reason="taken away"
    )
    assert job.result(WAIT) == "the other one"
    go.set()
    pause = threading.Event()
    while not scene.lost:
        pause.wait(0.001)
    assert len(raised) == 1
    assert scene.rows() == []
    assert job.job().result == "the other one"


def test_cancelled_meanwhile_it_still_completes(scene: Scene) -> None:
    gate = Gate(scene.queue)
    scene.open()
    job = gate.task.submit()
    gate.until_inside()
    answers: list[BaseException | Job] = []

    def cancel() -> None:
        try:
            answers.append(job.cancel("too late"))
        except Exception as error:
            answers.append(error)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    gate.go.set()
    canceller.join(WAIT)
    assert job.result(WAIT) == "done"
    assert scene.rows() == [job.id]
    assert "completed" in str(answers[0])


def test_a_draining_test_runs_it_too(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=0)
    task = queue.task(name="thread")(write)
    connection: Connection = queue.connect()
    connection.execute(MAKE_ROWS)
    kept, undone = task.submit(""), task.options(max_retries=0).submit("raise")
    drained = drain(queue)
    assert (drained.completed, drained.dead) == (1, 1)
    assert [row[0] for row in connection.execute(ROWS)] == [kept.id]
    assert undone.status() is Status.DEAD
    connection.close()
    queue.shutdown()


def test_without_a_database_there_is_none() -> None:
    queue = TaskQueue("memory://", num_workers=1)
    jobs = [
        queue.task(name=kind, executor=kind, max_retries=0)(write).submit("")
        for kind in ("thread", "process")
    ]
    for job in jobs:
        snapshot = job.wait(WAIT)
        assert snapshot.error is not None
        assert snapshot.error.type == UnsupportedError.__name__
        assert "SQLite file" in snapshot.error.message
    queue.shutdown()


def test_a_settled_answer_is_what_the_hook_hears(tmp_path: Path) -> None:
    heard: list[Settled] = []
    told = threading.Event()

    def on_success(_: Lease, settled: Settled) -> None:
        heard.append(settled)
        told.set()

    with TaskQueue(tmp_path / "jobs.db", num_workers=1, on_success=on_success) as queue:
        task = queue.task(name="process", executor="process")(write)
        connection = queue.connect()
        connection.execute(MAKE_ROWS)
        job = task.submit("")
        assert told.wait(WAIT)
        assert (heard[0].job_id, heard[0].status) == (job.id, Status.COMPLETED)
        connection.close()


class NoSink:
    def progress(self, lease: Lease, document: bytes) -> None: ...

    def log(self, lease: Lease, line: LogLine) -> None: ...


def test_no_transaction_begins_once_the_attempt_is_over(tmp_path: Path) -> None:
    # A thread that the task has left behind, in the moment before the attempt is settled.
    store = SQLiteStore(tmp_path / "jobs.db")
    store.submit([Draft(id="job-1", task="task", payload=b'{"args":[],"kwargs":{}}')])
    [lease] = LeaseManager(store, "worker").acquire(("default",), 1)
    context = JobContext(lease, NoSink(), backing=PlainBacking(store))
    kept: list[Any] = []

    def task() -> None:
        kept.append(current_job().transaction())

    definition = TaskDefinition("task", task, CallCodec(task))
    assert isinstance(attempt(lease, definition, context), Complete)
    with pytest.raises(TransactionError, match="its attempt was over"):
        kept[0].__enter__()

    # The same if its context is first asked for when the attempt is over.
    def quiet() -> None:
        """Leave behind a thread that asks later."""

    host = Host(lambda _: None, lambda _: True, lambda *_: context)
    context = JobContext(lease, NoSink(), backing=PlainBacking(store))
    run = Run(lease, TaskDefinition("task", quiet, CallCodec(quiet)), host)
    assert isinstance(attempt_of(lease, run.task, run), Complete)
    with pytest.raises(TransactionError, match="its attempt was over"):
        run.context.transaction().__enter__()
    # Nothing is left open: others can write.
    store.submit([Draft(id="job-2", task="task", payload=b"{}")])
    store.close()
