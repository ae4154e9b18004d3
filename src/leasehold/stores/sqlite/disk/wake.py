"""Waking other processes: one FIFO per process that wants to know, one byte per kind of news.

After a commit the writer puts a byte into every other process's FIFO; a thread on the other side
reads it and calls the listeners there. It takes some tens of microseconds, and nothing polls the
database. A byte is only a hint: a woken listener checks for itself, and a slow poll makes up for a
lost byte.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from leasehold.core.model.records import Listener
from leasehold.env import Env
from leasehold.errors import StoreClosedError
from leasehold.interrupts import SHIELD
from leasehold.stores.tables.news import READY, news_of, tell
from leasehold.stores.tables.step import READY as READY_ALONE
from leasehold.stores.tables.step import Hints

logger = logging.getLogger("leasehold.store")

_STOP: Final = b"."
"""Wakes the receiver so that it notices that it should stop; it carries no news."""

CLOSE_WAIT_SECONDS: Final = 10.0
"""How long closing waits for a running listener. The receiver cleans up afterwards."""

READY_PAUSE_SECONDS: Final = 0.001
"""Single submits by many callers share wake-ups: the first is announced at once, and those of the
next moment together.
"""

FOLDER_STAMP_MICROS: Final = 50_000
"""How coarse a folder's time stamp may be: a listing made sooner after it is not trusted."""


class Wake:
    """Sends hints to listeners here and in other processes, and receives theirs."""

    def __init__(self, folder: Path, env: Env) -> None:
        self._folder = folder
        self._folder_path = os.fspath(folder)
        self._env = env
        self._peers: dict[str, int] = {}
        self._inbox: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._name = f"{os.getpid()}-{self._env.new_id()}"
        self._listeners: list[Listener] = []
        self._mutex = threading.Lock()
        self._listed: tuple[int, int] = (-1, 0)
        self._thread: threading.Thread | None = None
        self._closed = False

    def begin_anew(self) -> None:
        """In a forked child: close the parent's descriptors, its listeners included; start empty.

        While the child has the parent's FIFO open, the parent's death cannot be detected.
        """
        inbox, self._inbox = self._inbox, None
        peers, self._peers = self._peers, {}
        for fd in (*peers.values(), *(() if inbox is None else (inbox,))):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._begin()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call this listener from now on; the returned function ends that.

        If that fails, nothing of it is left, and it can be tried again.
        """
        # An interrupt in the midst of it would leave a FIFO that nobody reads.
        with SHIELD, self._mutex:
            if self._closed:
                raise StoreClosedError("the store is closed: there is nothing left to listen to")
            if self._thread is None:
                self._listen()
            self._listeners = [*self._listeners, listener]

        def end() -> None:
            with self._mutex:
                self._listeners = [other for other in self._listeners if other is not listener]

        return end

    def send(self, hints: Hints) -> None:
        """Notify all listeners, here and in other processes, of a commit.

        No error is raised here: the caller's write has been committed.
        """
        # Most commits have no other news, and each passes here.
        news = READY if hints is READY_ALONE else news_of(hints)
        if self._listeners:
            tell(self._listeners, news, hints.ended, hints.cancel_requested)
        try:
            with self._mutex:
                if not self._closed:
                    self._tell_peers(news.encode())
        except OSError as error:
            logger.warning("other processes could not be woken, and will look later: %s", error)

    def _tell_peers(self, news: bytes) -> None:
        for name, fifo in list(self._find_peers().items()):
            try:
                os.write(fifo, news)
            except BlockingIOError:
                pass  # It is full of unread bytes, so the peer will be awake for a while.
            except OSError:
                self._forget(name)

    def close(self) -> None:
        """Stop listening, and leave no FIFO behind.

        It never raises, and may be called again, by any thread, a listener's own included. The FIFO
        belongs to the thread that reads it, which removes it at its end.
        """
        with self._mutex:
            self._closed = True
            self._listeners = []
            for name in list(self._peers):
                _close(self._peers.pop(name))
            if self._inbox is not None:
                # A full FIFO needs no further byte to wake its reader.
                with contextlib.suppress(OSError):
                    os.write(self._inbox, _STOP)
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_WAIT_SECONDS)

    def _find_peers(self) -> dict[str, int]:
        """Open FIFOs of the other processes; the folder is listed again only when it changed."""
        # Called after every commit, so not through pathlib, which takes longer than the system
        # call.
        stamp = os.stat(self._folder_path).st_mtime_ns
        listed_stamp, listed_at = self._listed
        # A folder's time stamp is as coarse as the kernel's tick: a FIFO made just after the
        # listing may not have changed it.
        if stamp == listed_stamp and listed_at - stamp // 1000 > FOLDER_STAMP_MICROS:
            return self._peers
        self._listed = (stamp, self._env.now_micros())
        names = {entry.name for entry in self._folder.iterdir()} - {self._name}
        for gone in self._peers.keys() - names:
            _close(self._peers.pop(gone))
        for name in names - self._peers.keys():
            self._open(name)
        return self._peers

    def _open(self, name: str) -> None:
        try:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
            self._peers[name] = os.open(self._folder / name, flags)
        except OSError as error:
            if error.errno == errno.ENXIO:
                # It has no reader: its process is gone. A new one never uses an old name.
                with contextlib.suppress(FileNotFoundError):
                    (self._folder / name).unlink()
            elif error.errno != errno.ENOENT:
                raise

    def _forget(self, name: str) -> None:
        _close(self._peers.pop(name))
        with contextlib.suppress(FileNotFoundError):
            (self._folder / name).unlink()

    def _listen(self) -> None:
        path = self._folder / self._name
        # Made under a temporary name and moved into place once it is open for reading, so that no
        # sender can find it without a reader and conclude that its process is dead.
        hidden = self._folder.parent / self._name
        try:
            os.mkfifo(hidden, 0o600)
            # Opened for writing too, so that it never reads as closed while no peer has it open.
            self._inbox = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            # The folder may have been deleted: its listeners then rely on their slow poll.
            self._folder.mkdir(mode=0o700, exist_ok=True)
            hidden.rename(path)
            thread = threading.Thread(
                target=self._receive, args=(self._inbox,), name="leasehold-wake", daemon=True
            )
            thread.start()
        except BaseException:
            # The name is this object's alone, and is used again at the next attempt.
            inbox, self._inbox = self._inbox, None
            if inbox is not None:
                _close(inbox)
            for left in (hidden, path):
                with contextlib.suppress(OSError):
                    left.unlink()
            raise
        self._thread = thread

    def _receive(self, inbox: int) -> None:
        poll = select.poll()
        poll.register(inbox, select.POLLIN)
        try:
            while not self._closed:
                poll.poll()
                try:
                    news = os.read(inbox, 65536).decode(errors="replace")
                except BlockingIOError:
                    continue
                tell(self._listeners, news)
                if not news.strip(READY):
                    self._env.clock.pause(READY_PAUSE_SECONDS)
        finally:
            # Under the lock, so that no write goes to the number of a closed descriptor.
            with self._mutex:
                self._inbox = None
                _close(inbox)
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()


def _close(fd: int) -> None:
    """Close a descriptor, which other code in this process may already have closed."""
    with contextlib.suppress(OSError):
        os.close(fd)
