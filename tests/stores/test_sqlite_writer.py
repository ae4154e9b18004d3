"""The SQLite store's writes: group commit, isolation of bad operations, wake-ups, query plans."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import apsw
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import WorkerInfo
from leasehold.env import SYSTEM, Env, ManualClock
from leasehold.errors import DuplicateJobError, LeaseholdError, StoreUnavailableError
from leasehold.interrupts import Interrupted
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.reading.read import FIND_IDS
from leasehold.stores.sqlite.writing.step import Step


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "jobs.db")
    yield opened
    opened.close()


def test_callers_that_wait_share_one_commit(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one caller writes, all others queue up; the next one carries them out together."""
    writer = store._database.writer
    entered, go_on = threading.Event(), threading.Event()
    transactions = 0
    original = writer._transaction

    def counted(*args: object) -> int:
        nonlocal transactions
        transactions += 1
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(writer, "_transaction", counted)

    def slow(_: Step) -> None:
        entered.set()
        go_on.wait(30)

    first = threading.Thread(target=writer.run, args=(slow,))
    first.start()
    entered.wait(30)
    others = [
        threading.Thread(target=store.submit, args=([Draft(id=f"job-{i}", task="t")],))
        for i in range(10)
    ]
    for thread in others:
        thread.start()
    while len(writer.queue.waiting) < 10:
        pass
    go_on.set()
    for thread in [first, *others]:
        thread.join(30)
    assert store.stats().submitted == 10
    # What was queued before the first one's commit joined it.
    assert transactions == 1


class MutexThatTells:
    """The writer's mutex; tells when a thread has left it, before that thread goes on."""

    def __init__(self, inner: threading.Lock, left: Callable[[], None]) -> None:
        self._inner = inner
        self._left = left

    def __enter__(self) -> None:
        self._inner.acquire()

    def __exit__(self, *_: object) -> None:
        self._inner.release()
        self._left()


def test_a_caller_that_is_let_lead_before_it_waits_leads_once(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has queued its operation, and not yet begun to wait, when it becomes its turn."""
    store.submit([Draft(id="first", task="t")])
    writer = store._database.writer
    committing, queued, passed_on = (threading.Event() for _ in range(3))
    before_commit = writer._before_commit

    def wait_for_the_other() -> None:
        before_commit()
        if not committing.is_set():
            committing.set()
            assert queued.wait(30)

    def left() -> None:
        if threading.current_thread() is second and not queued.is_set():
            queued.set()
            assert passed_on.wait(30)

    errors: list[BaseException] = []

    def submit(job_id: str, done: threading.Event | None = None) -> None:
        try:
            store.submit([Draft(id=job_id, task="t")])
        except BaseException as error:
            errors.append(error)
        if done is not None:
            done.set()

    monkeypatch.setattr(writer, "_before_commit", wait_for_the_other)
    first = threading.Thread(target=submit, args=("a", passed_on))
    second = threading.Thread(target=submit, args=("b",))
    first.start()
    assert committing.wait(30)
    monkeypatch.setattr(writer.queue, "_mutex", MutexThatTells(writer.queue._mutex, left))
    second.start()
    for thread in (first, second):
        thread.join(30)
        assert not thread.is_alive()
    assert errors == []
    store.submit([Draft(id="c", task="t")])
    assert store.stats().submitted == 4


def test_a_bad_operation_fails_alone(store: SQLiteStore) -> None:
    """Operations of one commit: the one that clashes is told so, the others are stored."""
    store.submit([Draft(id="taken", task="t")])
    entered, go_on = threading.Event(), threading.Event()

    def slow(_: Step) -> None:
        entered.set()
        go_on.wait(30)

    first = threading.Thread(target=store._database.writer.run, args=(slow,))
    first.start()
    entered.wait(30)
    answers: dict[str, object] = {}

    def submit(*ids: str) -> None:
        try:
            answers[ids[0]] = store.submit([Draft(id=job_id, task="t") for job_id in ids])
        except LeaseholdError as error:
            answers[ids[0]] = error

    threads = [
        threading.Thread(target=submit, args=ids) for ids in (("a",), ("b", "taken"), ("c",))
    ]
    for thread in threads:
        thread.start()
    while len(store._database.writer.queue.waiting) < 3:
        pass
    go_on.set()
    for thread in [first, *threads]:
        thread.join(30)
    assert isinstance(answers["b"], DuplicateJobError)
    assert "taken" in str(answers["b"])
    assert [store.get(job_id) is not None for job_id in ("a", "b", "c")] == [True, False, True]
    assert store.stats().submitted == 3
    assert store.check() == []


def test_a_bad_operation_silences_no_other(store: SQLiteStore) -> None:
    """What one operation of a commit has to tell is told, although a later one fails."""
    store.submit([Draft(id="a", task="t"), Draft(id="taken", task="t")])
    listener = Recorder()
    store.subscribe(listener)
    entered, go_on = threading.Event(), threading.Event()

    def slow(_: Step) -> None:
        entered.set()
        go_on.wait(30)

    def refused() -> None:
        with pytest.raises(DuplicateJobError):
            store.submit([Draft(id="taken", task="t")])

    threads = [threading.Thread(target=store._database.writer.run, args=(slow,))]
    threads[0].start()
    entered.wait(30)
    cancel = threading.Thread(target=store.cancel, args=(["a"],), kwargs=CANCEL)
    for number, thread in enumerate([cancel, threading.Thread(target=refused)], start=1):
        thread.start()
        threads.append(thread)
        while len(store._database.writer.queue.waiting) < number:
            pass
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert ("ended", ["a"]) in listener.heard


CANCEL = {"reason": "enough", "actor": "me"}


def test_a_write_is_not_repeated_for_a_listener_that_was_interrupted(store: SQLiteStore) -> None:
    class Waits(Recorder):
        def on_ready(self) -> None:
            super().on_ready()
            raise Interrupted

    listener = Waits()
    store.subscribe(listener)
    runs: list[int] = []

    def counted(step: Step) -> None:
        runs.append(1)
        step.hints.ready = True
        step.execute("INSERT OR REPLACE INTO meta VALUES ('counted', ?)", (len(runs),))

    store._database.writer.run(counted)
    assert (runs, listener.heard) == ([1], [("ready", None)])


def test_an_interrupted_leader_lets_the_others_go_on(store: SQLiteStore) -> None:
    def interrupted(_: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store._database.writer.run(interrupted)
    store.submit([Draft(id="a", task="t")])
    assert store.check() == []


def test_a_foreign_lock_is_reported_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.stores.sqlite.disk.connection.BUSY_SECONDS", 0.05)
    store = SQLiteStore(tmp_path / "jobs.db")
    intruder = apsw.Connection(str(tmp_path / "jobs.db"))
    intruder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="stays locked"):
        store.submit([Draft(id="a", task="t")])
    intruder.execute("ROLLBACK")
    intruder.close()
    store.submit([Draft(id="a", task="t")])
    store.close()


def test_looking_for_work_writes_nothing(store: SQLiteStore, tmp_path: Path) -> None:
    before = (tmp_path / "jobs.db-wal").stat()
    for _ in range(10):
        assert store.exchange((), LeaseRequest(worker="w")).leases == []
    after = (tmp_path / "jobs.db-wal").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_the_stores_clock_never_steps_back(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    store.submit([Draft(id="a", task="t")])
    before = store.now()
    clock.step_wall_clock(-3600)
    store.submit([Draft(id="b", task="t")])
    assert store.now() >= before
    a, b = store.get("a"), store.get("b")
    assert a is not None
    assert b is not None
    assert b.created_at >= a.created_at
    store.close()


class Recorder:
    """A listener that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []
        self.news = threading.Event()

    def on_ready(self) -> None:
        self._hear("ready", None)

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        self._hear("ended", job_ids if job_ids is None else sorted(job_ids))

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        self._hear("cancel", job_ids if job_ids is None else sorted(job_ids))

    def _hear(self, kind: str, ids: object) -> None:
        self.heard.append((kind, ids))
        self.news.set()


SUBMITTER = """
import sys
from leasehold.stores.sqlite import SQLiteStore
from leasehold.core.model.job import Draft
store = SQLiteStore(sys.argv[1])
store.submit([Draft(id="from-afar", task="t")])
store.close()
"""


def test_another_process_wakes_listeners_here(store: SQLiteStore, tmp_path: Path) -> None:
    recorder = Recorder()
    store.subscribe(recorder)
    subprocess.run([sys.executable, "-c", SUBMITTER, str(tmp_path / "jobs.db")], check=True)
    assert recorder.news.wait(30)
    assert recorder.heard == [("ready", None)]


def test_listeners_here_hear_which_jobs_ended(store: SQLiteStore) -> None:
    recorder = Recorder()
    end = store.subscribe(recorder)
    store.submit([Draft(id="a", task="t")])
    lease = store.exchange((), LeaseRequest(worker="w")).leases[0]
    store.exchange([Settlement("a", lease.version, Complete(b"1"))])
    assert recorder.heard == [("ready", None), ("ended", ["a"])]
    end()
    store.submit([Draft(id="b", task="t")])
    assert len(recorder.heard) == 2


def test_a_dead_peers_fifo_is_cleared_away(tmp_path: Path) -> None:
    script = (
        "import os, sys; from leasehold.stores.sqlite import SQLiteStore\n"
        "class L:\n"
        "    def on_ready(self): pass\n"
        "s = SQLiteStore(sys.argv[1]); s.subscribe(L()); os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "jobs.db"
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    wake = tmp_path / "jobs.db-run" / "wake"
    assert len(list(wake.iterdir())) == 1
    store = SQLiteStore(path)
    store.submit([Draft(id="a", task="t")])
    assert list(wake.iterdir()) == []
    store.close()


def worker_info(worker: str) -> WorkerInfo:
    now = SYSTEM.now()
    return WorkerInfo(
        id=worker, host="h", pid=1, queues=("default",), slots=1, started_at=now, heartbeat_at=now
    )


HOLDER = """
import sys
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.records import WorkerInfo
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
store = SQLiteStore(sys.argv[1])
now = SYSTEM.now()
info = WorkerInfo(id="holder", host="h", pid=1, queues=("default",), slots=1,
                  started_at=now, heartbeat_at=now)
life = store.register_worker(info)
lease = store.exchange((), LeaseRequest(worker="holder")).leases[0]
print(lease.version, flush=True)
sys.stdin.read()
"""


def test_only_a_worker_that_is_dead_is_proved_dead(store: SQLiteStore, tmp_path: Path) -> None:
    store.submit([Draft(id="a", task="t")])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "jobs.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"1\n"
    assert store.dead_workers() == set()
    assert store.recover().recovered == 0
    assert [worker.id for worker in store.workers()] == ["holder"]
    holder.kill()
    holder.wait(30)
    holder.stdin.close()
    holder.stdout.close()
    assert store.dead_workers() == {"holder"}
    report = store.recover()
    assert (report.recovered, report.workers_proved_dead) == (1, ("holder",))
    assert store.dead_workers() == set()
    assert store.workers() == []
    job = store.get("a")
    assert job is not None
    assert job.error is not None
    assert "worker holder died" in job.error.message


def test_a_worker_that_leaves_in_order_is_not_dead(store: SQLiteStore) -> None:
    life = store.register_worker(worker_info("w/1"))
    assert store.dead_workers() == set()
    life.close()
    life.close()
    assert store.dead_workers() == set()
    assert store.workers() == []


def plan(store: SQLiteStore, statement: str, *values: object) -> str:
    with store._database.read() as db:
        rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        return "\n".join(str(row[3]) for row in rows)


def test_promoting_seeks_and_never_scans_or_sorts(store: SQLiteStore) -> None:
    due = plan(store, leasing.FIND_DUE, 1, 1)
    assert "SEARCH waiting USING INDEX waiting_by_due (due<?)" in due
    for text in (due, plan(store, leasing.NEXT_DUE)):
        assert "TEMP B-TREE" not in text
        assert "SCAN" not in text.replace("SEARCH", ""), text


def test_the_beginning_of_an_id_is_a_seek(store: SQLiteStore) -> None:
    found = plan(store, FIND_IDS, "0190", 10)
    assert "SEARCH job USING COVERING INDEX" in found
    assert "TEMP B-TREE" not in found
