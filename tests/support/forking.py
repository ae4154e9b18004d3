"""Processes that fork around a store; each acknowledged submit goes into a ledger outside it.

`python -m support.forking <scene as JSON>` plays the parent of one scene. Everything that is
acknowledged is appended to the ledger by one write of the one descriptor that all inherit, after
the store's call returned: a process that is killed has told all of a call, or nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count

from leasehold.core.model.job import Draft
from leasehold.stores.sqlite import SQLiteStore

JOBS = 12
"""How many jobs each process submits before, and after, the parent's part is over."""


@dataclass(frozen=True)
class Scene:
    """One cell of the matrix."""

    path: str
    ledger: str
    parent: str = "closes"
    """What becomes of the parent: closes, exits, _exits, goes on, or is killed."""
    opens: str = "before"
    """Whether the child first uses the store before or after that."""
    store: str = "inherited"
    """Which store the child uses: the inherited one, one of its own (anew), or both."""
    visitors: bool = False
    """Whether other processes open and close the store meanwhile."""
    threads: bool = False
    """Whether threads of the parent write during the fork."""
    forks: str = "once"
    """once, twice (a fork of the fork), or multiprocessing."""

    def __str__(self) -> str:
        parts = [f"parent {self.parent}", f"child opens {self.opens}", self.store]
        parts += ["visitors"] * self.visitors + ["threads"] * self.threads
        return ", ".join([*parts, "" if self.forks == "once" else self.forks]).rstrip(", ")


class Ledger:
    """What was acknowledged, by whichever process."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def submit(self, store: SQLiteStore, job_id: str) -> None:
        store.submit([Draft(id=job_id, task="t")])
        os.write(self._fd, f"{job_id}\n".encode())


class Step:
    """A moment that one process waits for and another one brings about; it outlives both."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def come(self) -> None:
        os.write(self._write, b"x")

    def wait(self) -> None:
        # Left in the pipe for others who wait for the same.
        os.read(self._read, 1)
        self.come()


class Visitor:
    """Another process, forked before any store was opened, that opens, uses and closes one."""

    def __init__(self, path: str) -> None:
        self._asked, self._done = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(self._asked[1])
            # It ends with the last process that could ask it.
            while os.read(self._asked[0], 1):
                for _ in range(2):
                    store = SQLiteStore(path)
                    store.stats()
                    store.promote()
                    store.close()
                os.write(self._done[1], b"x")
            os._exit(0)

    def visit(self) -> None:
        os.write(self._asked[1], b"x")
        os.read(self._done[0], 1)


class Play:
    """The parent's part, and what its children do."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.ledger = Ledger(scene.ledger)
        self.visitor = Visitor(scene.path)
        self.store = SQLiteStore(scene.path)
        self.parent_is_done = Step()
        self.child_has_opened = Step()
        self.stop = threading.Event()

    def submit(self, name: str, *stores: SQLiteStore) -> None:
        for number in range(JOBS):
            self.ledger.submit(stores[number % len(stores)], f"{name}-{number}")

    def run(self) -> None:
        scene = self.scene
        self.submit("parent-first", self.store)
        writers = [threading.Thread(target=self.keep_writing, args=(n,)) for n in range(3)]
        for writer in writers if scene.threads else []:
            writer.start()
        child = self.fork()
        if scene.opens == "before":
            self.child_has_opened.wait()
        if scene.visitors:
            self.visitor.visit()
        self.submit("parent-then", self.store)
        self.stop.set()
        for writer in writers if scene.threads else []:
            writer.join()
        match scene.parent:
            case "closes":
                self.store.close()
                self.parent_is_done.come()
            case "goes on":
                self.parent_is_done.come()
                self.submit("parent-still", self.store)
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "_exits":
                os._exit(0)
            case "exits":
                return
        if scene.visitors:
            self.visitor.visit()
        child()
        self.store.close()

    def keep_writing(self, writer: int) -> None:
        for number in count():
            if self.stop.is_set():
                return
            self.ledger.submit(self.store, f"thread-{writer}-{number}")
            self.store.stats()

    def fork(self) -> Callable[[], None]:
        """Start the child; the answer waits for it."""
        if self.scene.forks == "multiprocessing":
            process = multiprocessing.get_context("fork").Process(
                target=self.child, args=("child",)
            )
            process.start()
            return process.join
        pid = os.fork()
        if pid == 0:
            self.end_after(self.child_or_grandchild)
        return lambda: _expect_success(pid)

    def child_or_grandchild(self) -> None:
        if self.scene.forks != "twice":
            self.child("child")
            return
        # The one in the middle has used the store, too.
        self.ledger.submit(self.store, "middle")
        pid = os.fork()
        if pid == 0:
            self.end_after(lambda: self.child("grandchild"))
        self.ledger.submit(self.store, "middle-again")
        self.store.close()
        _expect_success(pid)

    def child(self, name: str) -> None:
        try:
            self.play_child(name)
        finally:
            # Whatever went wrong, nobody waits for it.
            self.child_has_opened.come()

    def play_child(self, name: str) -> None:
        scene = self.scene
        if scene.opens == "before":
            stores = self.stores_of_child()
            self.submit(f"{name}-first", *stores)
            self.child_has_opened.come()
            self.wait_for_parent()
        else:
            self.wait_for_parent()
            stores = self.stores_of_child()
        if scene.visitors:
            self.visitor.visit()
        self.submit(f"{name}-then", *stores)
        assert_own_locks(scene.path)
        for store in stores:
            store.close()

    def stores_of_child(self) -> list[SQLiteStore]:
        match self.scene.store:
            case "inherited":
                return [self.store]
            case "anew":
                return [SQLiteStore(self.scene.path)]
            case _:
                return [self.store, SQLiteStore(self.scene.path)]

    def wait_for_parent(self) -> None:
        if self.scene.parent in ("closes", "goes on"):
            self.parent_is_done.wait()
        else:
            # Its end shows in ours: we become another's child.
            parent = parent_of_first_child()
            while os.path.exists(f"/proc/{parent}") and not _is_zombie(parent):
                threading.Event().wait(0.002)

    def end_after(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException:
            self.child_has_opened.come()
            traceback.print_exc()
            os._exit(1)
        os._exit(0)


def parent_of_first_child() -> int:
    return int(os.environ["PLAY_PID"])


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _expect_success(pid: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def assert_own_locks(path: str) -> None:
    """The kernel knows of POSIX locks that this very process holds on the database."""
    # Its list is read in pieces, and a lock is in none of them if others come and go meanwhile.
    assert any(_holds_a_lock(path) for _ in range(100)), "this process holds no lock of its own"


def _holds_a_lock(path: str) -> bool:
    inode = os.stat(path).st_ino
    with open("/proc/locks") as locks:
        held = [line.split() for line in locks]
    mine = [f for f in held if f[1] == "POSIX" and f[4] == str(os.getpid())]
    return any(f[5].endswith(f":{inode}") for f in mine)


def main() -> None:
    scene = Scene(**json.loads(sys.argv[1]))
    os.environ["PLAY_PID"] = str(os.getpid())
    Play(scene).run()


def play(scene: Scene, patience_seconds: float = 60) -> list[str]:
    """Play a scene to the end of all its processes; what they were promised."""
    news, news_end = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "support.forking", json.dumps(asdict(scene))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=news_end,
        stderr=subprocess.PIPE,
    ) as parent:
        os.close(news_end)
        # Every process of the scene has this end open: it ends with the last of them.
        while os.read(news, 100):
            pass
        os.close(news)
        assert parent.stderr is not None
        problems = parent.stderr.read().decode()
        code = parent.wait(patience_seconds)
    expected = -signal.SIGKILL if scene.parent == "killed" else 0
    assert (code, problems) == (expected, ""), problems
    with open(scene.ledger) as ledger:
        return ledger.read().split()


if __name__ == "__main__":
    main()
