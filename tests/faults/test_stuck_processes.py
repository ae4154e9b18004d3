"""A process that is stopped, or takes its time, while it keeps the others from writing."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cli.conftest import Shell
from leasehold import StoreBusyError, TaskQueue
from leasehold.cli.exits import Exit
from leasehold.core.model.job import Draft
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.holder import holder_of
from support.nursery import Nursery
from support.stuck_children import stuck

pytestmark = pytest.mark.faults

BRIEF_SECONDS = 0.3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(tmp_path / "jobs.db", lock_timeout_seconds=BRIEF_SECONDS)
    yield made
    made.close()


def draft() -> Draft:
    return Draft(id=SYSTEM.new_id(), task="t")


def test_a_stopped_process_is_named(store: SQLiteStore, tmp_path: Path) -> None:
    with stuck(tmp_path / "jobs.db", "stopped") as child:
        with pytest.raises(StoreBusyError) as raised:
            store.submit([draft()])
        assert raised.value.holder_pid == child.pid
        assert raised.value.is_holder_stopped
        text = str(raised.value)
        assert f"process {child.pid} (stuck_children.py) has held its write lock since" in text
        assert "doing: stop_inside_a_write" in text
        assert f"kill -CONT {child.pid}" in text
        # To look takes no lock, and to open takes none either.
        assert store.stats().submitted == 0
        SQLiteStore(tmp_path / "jobs.db").close()
    store.submit([draft()])
    assert store.stats().submitted == 1
    assert store.check() == []


def test_everybody_who_waits_hears_of_it(store: SQLiteStore, tmp_path: Path) -> None:
    """The leader and its followers, and those of the application's transactions."""
    raised: list[BaseException] = []

    def write() -> None:
        try:
            store.submit([draft()])
        except BaseException as error:
            raised.append(error)

    connection = store.connect()

    def transact() -> None:
        try:
            with connection.transaction():
                pass
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    threads.append(threading.Thread(target=transact))
    with stuck(tmp_path / "jobs.db", "stopped"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert [type(error) for error in raised] == [StoreBusyError] * 5
    with connection.transaction():
        store.submit_within(connection, [draft()])
    connection.close()
    assert store.stats().submitted == 1


def test_a_place_in_the_line_is_given_back(store: SQLiteStore, tmp_path: Path) -> None:
    """Whoever gave up must not keep the lock when it comes at last."""
    with stuck(tmp_path / "jobs.db", "stopped"), pytest.raises(StoreBusyError):
        store.submit([draft()])
    with closing(SQLiteStore(tmp_path / "jobs.db")) as other:
        other.submit([draft()])
    store.submit([draft()])
    assert store.stats().submitted == 2


def test_a_store_that_gave_up_can_be_closed(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db", lock_timeout_seconds=BRIEF_SECONDS)
    with stuck(tmp_path / "jobs.db", "stopped"):
        with pytest.raises(StoreBusyError):
            store.submit([draft()])
        store.close()


HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "r+b")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding_without_a_note(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Another program's process has the lock, or one that was stopped before it could note so."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child


def test_nobody_is_named_by_a_note_that_was_left_behind(store: SQLiteStore, tmp_path: Path) -> None:
    """The one who wrote it lives, and has nothing to do with it any more."""
    store.submit([draft()])
    lock = tmp_path / "jobs.db-run" / "write.lock"
    note = store._database.side.lock._note
    with holding_without_a_note(lock) as child:
        note.write("something long ago")
        assert holder_of(lock) is None
        with pytest.raises(StoreBusyError) as raised:
            store.submit([draft()])
    assert raised.value.holder_pid == child.pid
    assert "long ago" not in str(raised.value)
    assert f"process {os.getpid()} " not in str(raised.value)


def test_nobody_is_named_by_the_note_of_a_transaction_that_is_over(
    store: SQLiteStore, tmp_path: Path
) -> None:
    store.submit([draft()])
    left_behind = f"{os.getpid()} (a program) since long ago"
    (tmp_path / "jobs.db-run" / "transaction").write_text(left_behind)
    assert store._database.files.transaction_note.read_text() == left_behind
    with (
        holding_without_a_note(tmp_path / "jobs.db-run" / "write.lock") as child,
        pytest.raises(StoreBusyError) as raised,
    ):
        store.submit([draft()])
    assert raised.value.holder_pid == child.pid


def test_an_open_transaction_is_named(store: SQLiteStore, tmp_path: Path) -> None:
    store.submit([draft()])
    with stuck(tmp_path / "jobs.db", "transaction") as child:
        with pytest.raises(StoreBusyError) as raised:
            store.submit([draft()])
        assert raised.value.holder_pid == child.pid
        assert f"process {child.pid} (stuck_children.py" in str(raised.value)
        assert "holds a transaction open" in str(raised.value)


def test_who_waits_behind_a_waiter_hears_of_the_transaction(
    store: SQLiteStore, tmp_path: Path
) -> None:
    store.submit([draft()])
    patient = SQLiteStore(tmp_path / "jobs.db", lock_timeout_seconds=60)
    with stuck(tmp_path / "jobs.db", "transaction") as child:
        waiter = threading.Thread(target=patient.submit, args=([draft()],))
        waiter.start()
        while holder_of(tmp_path / "jobs.db-run" / "write.lock") is None:
            pass
        with pytest.raises(StoreBusyError, match="holds a transaction open") as raised:
            store.submit([draft()])
        assert raised.value.holder_pid == child.pid
    waiter.join()
    patient.close()


def test_ctrl_c_ends_a_wait_for_the_lock(tmp_path: Path) -> None:
    """The write has not begun, so the wait for it can be given up; nobody else is disturbed."""
    store = SQLiteStore(tmp_path / "jobs.db", lock_timeout_seconds=600)
    with stuck(tmp_path / "jobs.db", "stopped"):
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            store.submit([draft()])
        timer.join()
    store.submit([draft()])
    assert store.stats().submitted == 1
    store.close()


def test_ctrl_c_ends_a_wait_for_a_transaction(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    with stuck(tmp_path / "jobs.db", "transaction"):
        for write in (lambda: store.submit([draft()]), lambda: enter_and_leave(store)):
            timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                write()
            timer.join()
        assert not store._database.writer.queue.is_led
    store.submit([draft()])
    assert store.stats().submitted == 2
    store.close()


def enter_and_leave(store: SQLiteStore) -> None:
    connection = store.connect()
    with connection.transaction():
        pass


def test_a_handler_that_does_not_raise_ends_no_wait(tmp_path: Path) -> None:
    """It is called while the write waits, not only after it, and the write goes on waiting."""
    store = SQLiteStore(tmp_path / "jobs.db", lock_timeout_seconds=600)
    called = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: called.set())
    try:
        with stuck(tmp_path / "jobs.db", "stopped") as child:

            def poke_then_resume() -> None:
                os.kill(os.getpid(), signal.SIGUSR1)
                assert called.wait(60)
                child.send_signal(signal.SIGCONT)

            thread = threading.Timer(0.2, poke_then_resume)
            thread.start()
            store.submit([draft()])
            thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert store.stats().submitted == 1
    store.close()


class Noticing(logging.Handler):
    """Waits for a worker to say that it cannot write."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "cannot reach the store" in record.msg:
            self.trouble.set()


def test_a_worker_tries_again_until_it_can_settle(tmp_path: Path) -> None:
    """To the worker it is trouble with the store like any other; the outcome waits with it."""
    path = tmp_path / "jobs.db"
    running, end = threading.Event(), threading.Event()
    queue = TaskQueue(f"sqlite:///{path}?lock_timeout_seconds={BRIEF_SECONDS}", num_workers=1)

    @queue.task(name="work")
    def work() -> str:
        running.set()
        end.wait(60)
        return "done"

    job = work.submit()
    assert running.wait(60)
    with stuck(path, "stopped"):
        noticing = Noticing()
        logging.getLogger("leasehold").addHandler(noticing)
        end.set()
        assert noticing.trouble.wait(60)
        logging.getLogger("leasehold").removeHandler(noticing)
    assert job.result(60) == "done"
    queue.shutdown()


# -- the command line ---------------------------------------------------------------------------

LOOKS = [
    ("status",),
    ("list",),
    ("stats",),
    ("top", "--once"),
    ("doctor", "-o", "json"),
    ("check",),
    ("queue", "list"),
]


@pytest.mark.parametrize("way", ["stopped", "transaction"])
def test_looking_needs_no_lock(tmp_path: Path, way: str, commands: Nursery) -> None:
    path = tmp_path / "leasehold.db"
    queue = TaskQueue(path, num_workers=0)
    queue.submit("t", job_id="one")
    queue.shutdown()
    shell = Shell(tmp_path, commands)
    with stuck(path, way) as child:
        for command in LOOKS:
            done = shell.run(*command, timeout=30)
            assert done.code in (Exit.OK, Exit.FAILURE), (command, done)
            assert "locked" not in done.err, (command, done)
            if command[0] == "doctor":
                found = {each["check"]: each for each in done.json}["write_lock"]
                if way == "stopped":
                    assert found["level"] == "critical"
                    assert f"process {child.pid} (stopped) holds the write lock" in found["found"]
                    assert f"kill -CONT {child.pid}" in found["advice"]
        done = shell.run(
            "--store", f"sqlite:///{path}?lock_timeout_seconds=0.3", "show", "one", timeout=30
        )
        assert done.code == Exit.OK, done
        if way == "stopped":
            done = shell.run(
                *("--store", f"sqlite:///{path}?lock_timeout_seconds=0.3", "cancel", "one"),
                *("--yes",),
                timeout=30,
            )
            assert done.code == Exit.STORE, done
            assert f"kill -CONT {child.pid}" in done.err
