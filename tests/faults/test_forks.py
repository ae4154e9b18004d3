"""Forks around a store: whoever forks, opens, closes and dies when, no acknowledged job is lost."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.errors import LeaseholdError, StoreLostError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk import forks as store_forks
from leasehold.stores.sqlite.disk.continuity import is_held
from support.forking import Scene, play

pytestmark = pytest.mark.faults

PARENTS = ("closes", "exits", "_exits", "goes on", "killed")


def scenes() -> list[Scene]:
    """Each pair of choices at least once; all of them where FORKS_EVERYTHING is set."""
    everything = [
        Scene("", "", parent, opens, store, visitors, threads, forks)
        for parent, opens, store, visitors, threads, forks in product(
            PARENTS,
            ("before", "after"),
            ("inherited", "anew", "both"),
            (False, True),
            (False, True),
            ("once", "twice", "multiprocessing"),
        )
        # multiprocessing's parents wait for their children when they exit.
        if not (forks == "multiprocessing" and parent in ("exits", "_exits", "killed"))
    ]
    if os.environ.get("FORKS_EVERYTHING"):
        return everything
    return _covering(everything)


def _covering(scenes: list[Scene]) -> list[Scene]:
    def pairs(scene: Scene) -> set[object]:
        values = list(enumerate(vars(scene).values()))
        return {(a, b) for a in values for b in values if a < b}

    chosen = []
    missing = set().union(*(pairs(scene) for scene in scenes))
    while missing:
        best = max(scenes, key=lambda scene: len(pairs(scene) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


@pytest.mark.parametrize("scene", scenes(), ids=str)
def test_no_fork_loses_what_was_acknowledged(tmp_path: Path, scene: Scene) -> None:
    path, ledger = tmp_path / "jobs.db", tmp_path / "ledger"
    scene = Scene(**{**vars(scene), "path": str(path), "ledger": str(ledger)})
    acknowledged = play(scene)
    assert len(acknowledged) > 30
    store = SQLiteStore(path)
    lost = [job_id for job_id in acknowledged if store.get(job_id) is None]
    assert lost == []
    assert store.stats().submitted == len(acknowledged)
    assert store.check() == []
    store.close()


# -- one process that forks, looked at closely ---------------------------------------------------


def in_fork(act: Callable[[], object], fork: Callable[[], int] = os.fork) -> str:
    """What a forked child found: "" if all went well. Nothing but `act` is done there."""
    news, news_end = os.pipe()
    child = fork()
    if child == 0:
        told = "died"
        try:
            act()
            told = ""
        except BaseException as error:  # told to the parent
            told = f"{type(error).__name__}: {error}"
        finally:
            os.write(news_end, told.encode())
            os._exit(0)
    os.close(news_end)
    found = b""
    while part := os.read(news, 65536):
        found += part
    os.close(news)
    os.waitpid(child, 0)
    return found.decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def submit(store: SQLiteStore, job_id: str) -> None:
    store.submit([Draft(id=job_id, task="t")])


def test_a_store_made_before_a_fork_works_on_both_sides(path: Path) -> None:
    store = SQLiteStore(path)
    submit(store, "parents")

    def use() -> None:
        assert store.get("parents") is not None
        submit(store, "childs")
        store.subscribe(_Deaf())
        store.close()

    assert in_fork(use) == ""
    submit(store, "parents again")
    leases = store.exchange((), LeaseRequest(worker="w", limit=9)).leases
    assert [lease.job_id for lease in leases] == ["parents", "childs", "parents again"]
    assert store.check() == []
    store.close()


def test_no_descriptor_of_the_store_is_inherited(path: Path) -> None:
    store = SQLiteStore(path)
    submit(store, "a")
    store.stats()
    store.subscribe(_Deaf())
    assert descriptors(path)

    def look() -> None:
        assert descriptors(path) == []

    assert in_fork(look) == ""
    store.close()


def descriptors(path: Path) -> list[str]:
    """What of the store this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found


def test_wake_ups_are_the_parents_own(path: Path) -> None:
    store = SQLiteStore(path)
    ears = _Ears()
    store.subscribe(ears)

    def use() -> None:
        own = _Ears()
        store.subscribe(own)
        submit(store, "childs")
        assert own.ready.is_set()
        assert not ears.ready.is_set()
        store.close()

    assert in_fork(use) == ""
    # Told by the child's FIFO byte, through the thread that the fork has left alone.
    assert ears.ready.wait(20)
    store.close()


def refused(told: str, *words: str) -> None:
    assert told.startswith("StoreLostError"), told
    for word in ("cannot be used in this forked process", *words):
        assert word in told


@pytest.mark.parametrize("through", ["the store", "another store", "another path", "a connection"])
def test_an_open_connection_of_the_application_bars_the_child(path: Path, through: str) -> None:
    store = SQLiteStore(path)
    submit(store, "a")
    connection = store.connect()
    link = path.with_name("link.db")
    link.symlink_to(path)

    def use() -> None:
        match through:
            case "the store":
                submit(store, "b")
            case "another store":
                submit(SQLiteStore(path), "b")
            case "another path":
                submit(SQLiteStore(link), "b")
            case _:
                with connection.transaction():
                    connection.execute("CREATE TABLE mine (x)")

    refused(in_fork(use), "queue.connect()", "spawn")
    with connection.transaction():
        store.submit_within(connection, [Draft(id="c", task="t")])
    connection.close()
    assert in_fork(lambda: submit(store, "d")) == ""
    assert [store.get(job_id) is not None for job_id in "abcd"] == [True, False, True, True]
    store.close()


def test_a_transaction_that_was_open_at_the_fork_stays_the_parents(path: Path) -> None:
    store = SQLiteStore(path)
    connection = store.connect()
    connection.execute("CREATE TABLE mine (x)")
    with connection.transaction():
        # More than the cache holds, so that a part is in the write-ahead log already.
        connection.execute("PRAGMA cache_size = 10")
        for number in range(200):
            connection.execute("INSERT INTO mine VALUES (?)", (f"{number}" * 500,))

        def leave() -> None:
            with pytest.raises(StoreLostError):
                connection.commit()
            connection.roll_back()
            connection.close()

        assert in_fork(leave) == ""
        store.submit_within(connection, [Draft(id="a", task="t")])
    assert connection.execute("SELECT count(*) FROM mine").fetchall() == [(200,)]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert store.get("a") is not None
    store.close()


def test_a_fork_inside_a_write_or_a_read_bars_the_child(path: Path) -> None:
    store = SQLiteStore(path)
    submit(store, "a")
    told = []

    def write() -> None:
        store._database.write(lambda _: told.append(in_fork(lambda: submit(store, "b"))))

    write()
    with store._database.read():
        told.append(in_fork(lambda: store.get("a")))
    refused(told[0], "a write to it was under way")
    refused(told[1], "a read from it was under way")
    submit(store, "c")
    assert store.get("b") is None
    assert store.check() == []
    store.close()


def test_a_child_forked_inside_a_write_acknowledges_nothing(path: Path) -> None:
    store = SQLiteStore(path)
    news, news_end = os.pipe()

    def fork_inside() -> None:
        is_child = False

        def operation(step: object) -> None:
            nonlocal is_child
            is_child = os.fork() == 0

        code = b"acknowledged"
        try:
            store._database.write(operation)
        except LeaseholdError as error:
            code = type(error).__name__.encode()
        if is_child:
            os.write(news_end, code)
            os._exit(0)

    fork_inside()
    assert os.read(news, 100) == b"StoreLostError"
    os.wait()
    submit(store, "a")
    assert store.check() == []
    store.close()


def test_a_fork_waits_for_writes_of_other_threads(path: Path) -> None:
    store = SQLiteStore(path)
    is_inside, may_end = threading.Event(), threading.Event()

    def slow(_: object) -> None:
        is_inside.set()
        may_end.wait()

    writer = threading.Thread(target=store._database.write, args=(slow,))
    writer.start()
    is_inside.wait()
    threading.Timer(0.05, may_end.set).start()
    assert in_fork(lambda: submit(store, "a")) == ""
    writer.join()
    assert store.get("a") is not None
    store.close()


def test_a_fork_does_not_wait_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_forks, "PATIENCE_SECONDS", 0.05)
    store = SQLiteStore(path)
    is_inside, may_end = threading.Event(), threading.Event()

    def slow(_: object) -> None:
        is_inside.set()
        may_end.wait()

    writer = threading.Thread(target=store._database.write, args=(slow,))
    writer.start()
    is_inside.wait()
    refused(in_fork(lambda: submit(store, "a")), "a write to it was under way")
    may_end.set()
    writer.join()
    submit(store, "b")
    assert store.check() == []
    store.close()


def test_a_fork_that_python_knows_nothing_of_is_recognised(path: Path) -> None:
    store = SQLiteStore(path)
    submit(store, "a")
    fork_in_c = ctypes.PyDLL(None).fork
    refused(in_fork(lambda: submit(store, "b"), fork_in_c), "other means than Python's os.fork()")
    refused(in_fork(lambda: SQLiteStore(path), fork_in_c), "other means than Python's os.fork()")
    other = path.with_name("other.db")
    assert in_fork(lambda: submit(SQLiteStore(other), "mine"), fork_in_c) == ""
    submit(store, "c")
    assert store.get("b") is None
    store.close()


def test_what_is_refused_in_a_child_is_refused_in_its_children(path: Path) -> None:
    store = SQLiteStore(path)
    connection = store.connect()

    def fork_again() -> None:
        refused(in_fork(lambda: submit(store, "a")))
        refused(in_fork(lambda: SQLiteStore(path)))

    assert in_fork(fork_again) == ""
    connection.close()
    store.close()


def test_refused_connections_are_never_closed_in_the_child(path: Path) -> None:
    """Not even by the interpreter when it ends: its exit would drop or take locks of the file."""
    store = SQLiteStore(path)
    submit(store, "a")
    connection = store.connect()
    process = multiprocessing.get_context("fork").Process(target=_leave_orderly)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert path.with_name("jobs.db-wal").exists()
    submit(store, "b")
    connection.close()
    store.close()
    again = SQLiteStore(path)
    assert again.stats().submitted == 2
    again.close()


def _leave_orderly() -> None:
    import gc

    gc.collect()


def test_many_threads_may_fork_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each fork waits for all others: on a busy machine, for longer than a program should have to.
    monkeypatch.setattr(store_forks, "PATIENCE_SECONDS", 60.0)
    store = SQLiteStore(path)
    told: list[str] = []

    def fork_and_use(number: int) -> None:
        for turn in range(4):
            submit(store, f"thread-{number}-{turn}")
            told.append(in_fork(lambda turn=turn: submit(store, f"child-{number}-{turn}")))  # type: ignore[misc]

    threads = [threading.Thread(target=fork_and_use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [""] * 16
    assert store.stats().submitted == 32
    assert store.check() == []
    store.close()


class _Ears:
    def __init__(self) -> None:
        self.ready = threading.Event()

    def on_ready(self) -> None:
        self.ready.set()

    def on_ended(self, job_ids: object) -> None:
        """Of no interest here."""

    def on_cancel_requested(self, job_ids: object) -> None:
        """Of no interest here."""


class _Deaf(_Ears):
    pass


@pytest.mark.parametrize("step", ["close_for_fork", "resume_after_fork"])
def test_a_signal_during_a_fork_is_heard_after_it_and_stops_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    heard: list[str] = []

    def ring(signum: int, frame: object) -> None:
        heard.append(stage)
        raise TimeoutError

    def interrupted(*arguments: object) -> object:
        signal.raise_signal(signal.SIGALRM)
        return honest(*arguments)

    store = SQLiteStore(path)
    submit(store, "before")
    database = store._database
    honest = getattr(database, step)
    before = signal.signal(signal.SIGALRM, ring)
    stage = "in the fork"
    try:
        with monkeypatch.context() as patch, suppress(TimeoutError):
            patch.setattr(database, step, interrupted)
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            stage = "after the fork"
            threading.Event().wait(60)
        assert os.waitpid(pid, 0)[1] == 0
        assert heard == ["after the fork"]
        # The handler is the application's again, and neither this thread nor others must wait.
        assert signal.getsignal(signal.SIGALRM) is ring
    finally:
        signal.signal(signal.SIGALRM, before)
    submit(store, "after")
    other = threading.Thread(target=submit, args=(store, "other thread"), daemon=True)
    other.start()
    other.join(60)
    assert in_fork(lambda: submit(store, "child")) == ""
    assert store.stats().submitted == 4
    store.close()


def test_a_child_that_may_not_use_the_store_does_not_hold_it(path: Path) -> None:
    """Else all who come later would believe that somebody still writes to it."""
    store = SQLiteStore(path)
    submit(store, "before")
    connection = store.connect()  # Keeps the store from being closed for the fork.
    end, ended = os.pipe()
    forked, tell_forked = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ended)
        os.write(tell_forked, b".")
        os.read(end, 1)
        os._exit(0)
    try:
        os.read(forked, 1)  # What a fork does in the child is done when it returns there.
        connection.close()
        store.close()
        assert not is_held(path.with_name("jobs.db-run") / "continuity")
    finally:
        for each in (end, ended, forked, tell_forked):
            os.close(each)
        os.waitpid(child, 0)
