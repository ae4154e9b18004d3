"""Waking other processes. Closing it never raises, whoever closes it and whatever is left."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from leasehold.env import SYSTEM, Env, SystemClock
from leasehold.errors import StoreClosedError
from leasehold.stores.sqlite.disk.wake import Wake
from leasehold.stores.tables.news import ENDED, READY
from leasehold.stores.tables.step import Hints
from support.interrupting import Interrupter

PATIENCE_SECONDS = 20


class Listening:
    """A listener that does something when it is woken, and says that it was."""

    def __init__(self, on_ready: Callable[[], object] = lambda: None) -> None:
        self._on_ready = on_ready
        self.woken = threading.Event()

    def on_ready(self) -> None:
        self._on_ready()
        self.woken.set()

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        pass

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "wake"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def wake(folder: Path) -> Iterator[Wake]:
    made = Wake(folder, SYSTEM)
    yield made
    made.close()


def knock(folder: Path, news: str = READY) -> None:
    """Wake the one process that listens, as another one would."""
    [name] = os.listdir(folder)
    fifo = os.open(folder / name, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(fifo, news.encode())
    finally:
        os.close(fifo)


def fill(folder: Path) -> None:
    """Leave no room for another byte in the FIFO of the one process that listens."""
    for size in (65536, 4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                knock(folder, READY * size)


def receivers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "leasehold-wake"]


def test_closed_twice_it_leaves_neither_fifo_nor_thread(wake: Wake, folder: Path) -> None:
    wake.subscribe(Listening())
    assert len(os.listdir(folder)) == 1
    wake.close()
    wake.close()
    assert os.listdir(folder) == []
    assert receivers() == []


def test_a_listener_may_close_it(wake: Wake, folder: Path) -> None:
    """In the very thread that receives, which cannot wait for itself."""
    closing = Listening(wake.close)
    wake.subscribe(closing)
    [receiver] = receivers()
    knock(folder)
    receiver.join(PATIENCE_SECONDS)
    assert closing.woken.is_set()
    assert not receiver.is_alive()
    assert os.listdir(folder) == []


def test_closed_while_its_fifo_is_full(wake: Wake, folder: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def busy() -> None:
        entered.set()
        go_on.wait(PATIENCE_SECONDS)

    wake.subscribe(Listening(busy))
    [receiver] = receivers()
    knock(folder)
    assert entered.wait(PATIENCE_SECONDS)
    fill(folder)
    closing = threading.Thread(target=wake.close)
    closing.start()
    go_on.set()
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()
    assert not receiver.is_alive()
    assert os.listdir(folder) == []


def test_closed_when_its_folder_is_gone(wake: Wake, folder: Path) -> None:
    wake.subscribe(Listening())
    shutil.rmtree(folder.parent)
    wake.close()
    assert receivers() == []


def test_closed_when_its_folder_is_no_folder_any_more(wake: Wake, folder: Path) -> None:
    wake.subscribe(Listening())
    shutil.rmtree(folder)
    folder.write_text("a file")
    wake.close()
    assert receivers() == []


def test_closed_by_many_threads_at_once(wake: Wake, folder: Path) -> None:
    wake.subscribe(Listening())
    failures: list[BaseException] = []
    together = threading.Barrier(8)

    def close() -> None:
        together.wait(PATIENCE_SECONDS)
        try:
            wake.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert failures == []
    assert os.listdir(folder) == []


def test_closed_although_a_peer_was_closed_by_somebody_else(wake: Wake, folder: Path) -> None:
    """Code in this process may close descriptors that are not its own."""
    other = Wake(folder, SYSTEM)
    other.subscribe(Listening())
    hints = Hints()
    hints.ready = True
    wake.send(hints)
    [peer] = wake._peers.values()
    os.close(peer)
    wake.close()
    other.close()


def test_once_closed_it_opens_nothing_again(wake: Wake, folder: Path) -> None:
    other = Wake(folder, SYSTEM)
    other.subscribe(Listening())
    wake.close()
    hints = Hints()
    hints.ready = True
    wake.send(hints)
    assert wake._peers == {}
    with pytest.raises(StoreClosedError):
        wake.subscribe(Listening())
    other.close()


def test_an_interrupt_at_any_instruction_leaves_it_able_to_listen(folder: Path) -> None:
    """It may leave the caller anywhere, but not half of a FIFO in the way of the next attempt."""
    counting = Interrupter()
    first = Wake(folder, SYSTEM)
    with counting.watching():
        first.subscribe(Listening())
    first.close()
    for number in range(counting.count):
        wake = Wake(folder, SYSTEM)
        with contextlib.suppress(KeyboardInterrupt), Interrupter([number]).watching():
            wake.subscribe(Listening())
        heard = Listening()
        wake.subscribe(heard)
        knock(folder)
        assert heard.woken.wait(PATIENCE_SECONDS)
        assert os.listdir(folder.parent) == [folder.name]
        wake.close()
        assert os.listdir(folder) == []
        assert receivers() == []


@pytest.mark.parametrize("step", ["os.open", "threading.Thread.start"])
def test_a_failure_leaves_it_able_to_listen(
    wake: Wake, folder: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be too many open files or threads, for a moment."""

    def fails(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, "too many of them")

    descriptors = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(step, fails)
        with pytest.raises(OSError, match="too many of them"):
            wake.subscribe(Listening())
    assert os.listdir(folder.parent) == [folder.name]
    assert os.listdir(folder) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors
    heard = Listening()
    wake.subscribe(heard)
    knock(folder)
    assert heard.woken.wait(PATIENCE_SECONDS)


class _HeldPause(SystemClock):
    """A clock whose pauses go on until they may end."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def pause(self, seconds: float) -> None:  # as long as the test likes
        self.begun.release()
        assert self.may_end.acquire(timeout=PATIENCE_SECONDS)


def test_jobs_of_one_moment_share_a_wake_up(folder: Path) -> None:
    clock, told = _HeldPause(), threading.Semaphore(0)
    wake = Wake(folder, Env(clock=clock))
    wake.subscribe(Listening(told.release))
    try:
        knock(folder)
        assert told.acquire(timeout=PATIENCE_SECONDS), "the first of them is told at once"
        assert clock.begun.acquire(timeout=PATIENCE_SECONDS)
        for _ in range(3):
            knock(folder)
        clock.may_end.release()
        assert clock.begun.acquire(timeout=PATIENCE_SECONDS)
        assert told.acquire(blocking=False)
        assert not told.acquire(blocking=False)
    finally:
        clock.may_end.release(10)
        wake.close()


def test_other_news_are_not_followed_by_a_pause(folder: Path) -> None:
    clock, told = _HeldPause(), threading.Semaphore(0)
    wake = Wake(folder, Env(clock=clock))
    wake.subscribe(Listening(told.release))
    try:
        for _ in range(3):
            knock(folder, ENDED + READY)
            assert told.acquire(timeout=PATIENCE_SECONDS)
        assert not clock.begun.acquire(blocking=False)
    finally:
        clock.may_end.release(10)
        wake.close()
