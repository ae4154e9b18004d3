"""A write that waits for its turn keeps its place while signals come and are handled."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.core.model.job import Draft
from leasehold.errors import StoreClosedError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.step import Step

# Not by a signal, as usual: signals are what these tests are about.
pytestmark = pytest.mark.timeout(120, method="thread")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    yield opened
    opened.close()


@contextmanager
def handling(signum: int, handler: Any) -> Iterator[None]:
    before = signal.signal(signum, handler)
    try:
        yield
    finally:
        signal.signal(signum, before)


class Writes:
    """Writes that tell in which order they were carried out."""

    def __init__(self, store: SQLiteStore) -> None:
        self.writer = store._database.writer
        self.order: list[str] = []
        self._threads: list[threading.Thread] = []

    def write(self, name: str) -> None:
        self.writer.run(lambda _: self.order.append(name))

    def in_thread(self, name: str) -> None:
        """Another thread's write, which is in the queue when this returns."""
        before = len(self.writer.queue.waiting)
        self._start(lambda: self.write(name))
        until(lambda: len(self.writer.queue.waiting) > before)

    @contextmanager
    def under_way(self) -> Iterator[threading.Event]:
        """Another thread's write that goes on until the event is set."""
        begun, end = threading.Event(), threading.Event()

        def hold(_: Step) -> None:
            begun.set()
            assert end.wait(60)

        self._start(lambda: self.writer.run(hold))
        assert begun.wait(60)
        try:
            yield end
        finally:
            end.set()
            for thread in self._threads:
                thread.join(60)
                assert not thread.is_alive()

    def _start(self, target: Callable[[], object]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        self._threads.append(thread)


def until(is_so: Callable[[], object]) -> None:
    pause = threading.Event()
    while not is_so():
        pause.wait(0.001)


def beside(script: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=script, daemon=True)
    thread.start()
    return thread


def test_a_write_keeps_its_place_while_handlers_run(store: SQLiteStore) -> None:
    writes = Writes(store)
    handled: list[int] = []

    with writes.under_way() as end:

        def signal_again_and_again() -> None:
            until(lambda: len(writes.writer.queue.waiting) == 1)
            for number in range(3):
                writes.in_thread(f"later-{number}")
                signal.raise_signal(signal.SIGUSR1)
                until(lambda wanted=number + 1: len(handled) == wanted)  # type: ignore[misc]
            end.set()

        script = beside(signal_again_and_again)
        with handling(signal.SIGUSR1, lambda *_: handled.append(1)):
            writes.write("first")
        script.join(60)
    assert writes.order == ["first", "later-0", "later-1", "later-2"]


def test_whoever_waits_for_another_process_keeps_its_place_too(store: SQLiteStore) -> None:
    """It leads the writes of this process: while its handlers run, another thread may."""
    writes = Writes(store)
    writes.write("opens the store")
    handled: list[int] = []
    lock = os.open(f"{store.describe()['path']}-run/write.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def signal_then_free() -> None:
        until(lambda: len(writes.writer.queue.waiting) == 1)
        writes.in_thread("later")
        for number in range(2):
            signal.raise_signal(signal.SIGUSR1)
            until(lambda wanted=number + 1: len(handled) == wanted)  # type: ignore[misc]
        os.close(lock)

    script = beside(signal_then_free)
    with handling(signal.SIGUSR1, lambda *_: handled.append(1)):
        writes.write("first")
    script.join(60)
    until(lambda: len(writes.order) == 3)
    assert writes.order[1:] == ["first", "later"]


def test_while_its_handler_runs_others_carry_it_out(store: SQLiteStore) -> None:
    """A handler that takes its time keeps nobody waiting, not even its own write."""
    writes = Writes(store)
    with writes.under_way() as end:

        def signal_once() -> None:
            until(lambda: len(writes.writer.queue.waiting) == 1)
            signal.raise_signal(signal.SIGUSR1)

        def handler(*_: object) -> None:
            writes.in_thread("later")
            end.set()
            until(lambda: len(writes.order) == 2)

        script = beside(signal_once)
        with handling(signal.SIGUSR1, handler):
            writes.write("first")
        script.join(60)
    assert writes.order == ["first", "later"]


def test_a_handler_that_raises_ends_the_wait_and_leaves_no_gap(store: SQLiteStore) -> None:
    writes = Writes(store)
    with writes.under_way():

        def interrupt() -> None:
            until(lambda: len(writes.writer.queue.waiting) == 1)
            writes.in_thread("later")
            signal.raise_signal(signal.SIGINT)

        script = beside(interrupt)
        with pytest.raises(KeyboardInterrupt):
            writes.write("interrupted")
        script.join(60)
        assert len(writes.writer.queue.waiting) == 1
    assert writes.order == ["later"]
    writes.write("next")
    assert not writes.writer.queue.waiting
    assert not writes.writer.queue.is_led


def test_a_handler_that_raises_though_its_write_is_being_carried_out(store: SQLiteStore) -> None:
    """It is done when the exception gets out: nothing goes on behind the application's back."""
    writes = Writes(store)
    with writes.under_way() as end:

        def signal_once() -> None:
            until(lambda: len(writes.writer.queue.waiting) == 1)
            signal.raise_signal(signal.SIGUSR1)

        def handler(*_: object) -> None:
            end.set()
            until(lambda: "first" in writes.order)
            raise TimeoutError

        script = beside(signal_once)
        with handling(signal.SIGUSR1, handler), pytest.raises(TimeoutError):
            writes.write("first")
        script.join(60)
    assert writes.order == ["first"]
    assert not writes.writer.queue.waiting


def test_a_handler_may_write_while_its_own_write_waits(store: SQLiteStore) -> None:
    """By then nobody else is left to lead: the handler's write carries out the other one too."""
    writes = Writes(store)
    with writes.under_way() as end:

        def signal_once() -> None:
            until(lambda: len(writes.writer.queue.waiting) == 1)
            signal.raise_signal(signal.SIGUSR1)

        def handler(*_: object) -> None:
            end.set()
            writes.write("handler's")

        script = beside(signal_once)
        with handling(signal.SIGUSR1, handler):
            writes.write("first")
        script.join(60)
    assert writes.order == ["first", "handler's"]


def test_a_handler_may_close_the_store(store: SQLiteStore) -> None:
    lock = os.open(f"{store.describe()['path']}-run/write.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    writer = store._database.writer

    def signal_once() -> None:
        until(lambda: len(writer.queue.waiting) == 1)
        signal.raise_signal(signal.SIGUSR1)

    def handler(*_: object) -> None:
        os.close(lock)
        store.close()

    script = beside(signal_once)
    with handling(signal.SIGUSR1, handler), pytest.raises(StoreClosedError):
        store.submit([Draft(id="one", task="t")])
    script.join(60)
    assert not writer.queue.waiting


def test_a_handler_may_fork(tmp_path: Path) -> None:
    """Parent and child both come back to the write that waits, each in its own queue."""
    SQLiteStore(tmp_path / "jobs.db", durability="normal").close()
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    lock = os.open(f"{tmp_path}/jobs.db-run/write.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    writer = store._database.writer
    children: list[int] = []
    ran: list[int] = []

    def signal_once() -> None:
        until(lambda: len(writer.queue.waiting) == 1)
        signal.raise_signal(signal.SIGUSR1)

    def handler(*_: object) -> None:
        fcntl.flock(lock, fcntl.LOCK_UN)
        children.append(os.fork())

    script = beside(signal_once)
    with handling(signal.SIGUSR1, handler):
        writer.run(lambda _: ran.append(os.getpid()))
        if children == [0]:
            os._exit(ran != [os.getpid()])
    script.join(60)
    os.close(lock)
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert ran == [os.getpid()]
    assert not writer.queue.waiting
    store.close()
