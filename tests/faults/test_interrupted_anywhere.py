"""Ctrl-C before every single instruction of the write path, on both stores.

An application may catch KeyboardInterrupt and go on. Whatever it cut short, nothing may stay
behind: no open transaction, no lock, nobody who is taken to be writing.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.env import SYSTEM
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk import forks
from support.effort import THOROUGH
from support.interrupted_walk import in_another_thread, interrupt_twice, walk

# Not by a signal, as usual: it is signals that a hanging shield would hold back.
pytestmark = pytest.mark.timeout(600, method="thread")

WRITE_PATH = {
    "interrupts.py",
    "writer.py",
    "lock.py",
    "holder.py",
    "transaction.py",
    "turn.py",
    "application.py",
    "transaction_verbs.py",
    "locked.py",
}
"""Every instruction of these is hit; of the others, each n-th."""
LESS = 1 if THOROUGH else 2
STRIDE = 19 * LESS
LESS_OF: dict[str, tuple[set[str], int]] = {
    "close": (
        {"interrupts.py", "writer.py", "lock.py", "turn.py", "database.py", "forks.py"},
        31,
    ),
    "open": ({"lock.py", "holder.py", "transaction.py", "database.py", "forks.py"}, 61 * LESS),
    "create": (set(), 101 * LESS),
    "now": ({"clock.py", "connection.py"}, STRIDE),
}
"""These take milliseconds each, and most of what they do is done by the others too."""
SQLITE_ALONE = {"own_transaction", "within", "close", "open", "create"}


def rule(verb: str) -> tuple[set[str], int]:
    """Which files' every instruction is hit, and each how-manieth of the others."""
    return LESS_OF.get(verb, (WRITE_PATH, STRIDE))


class Scene(Protocol):
    store: Any

    def examine(self, verb: str) -> None: ...


class Other:
    """Another process that uses the stores of the scenes, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, what: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def end(self) -> None:
        self._process.communicate()


class SQLiteScene:
    """A store, and another process that uses it too."""

    def __init__(self, folder: Path, other: Other) -> None:
        self.path = folder / "jobs.db"
        self.store = SQLiteStore(self.path, durability="normal", lock_timeout_seconds=10)
        self._lock_fd = os.open(f"{self.path}-run/write.lock", os.O_RDWR)
        self._other = other
        self._other.do(f"open {self.path}")
        self.connection = self.store.connect()
        self._examined = 0

    def examine(self, verb: str) -> None:
        if verb == "close":
            self.reopen()  # To close it again must end, too.
        writer = self.store._database.writer
        assert not writer.queue.is_led
        assert not writer.queue.waiting
        side = self.store._database.side
        assert not (side.is_open and side.db.in_transaction)
        assert not self.connection.in_transaction
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        readers = self.store._database.readers
        assert not readers._mutex.locked()
        assert all(not db.in_transaction for db in readers._idle)
        assert readers.pause(0), "a fork would wait for a read that is over"
        readers.resume()
        in_another_thread(self._go_on)
        self._examined += 1
        if self._examined % 10 == 0:
            self._other.do("submit")

    def _go_on(self) -> None:
        submit(self.store)
        # As whoever opens a store does, and what a fork needs: it is known already.
        forks.register(self.store._database)

    def reopen(self) -> None:
        self.store.close()
        self.connection.close()
        self.store = SQLiteStore(self.path, durability="normal", lock_timeout_seconds=10)
        self.connection = self.store.connect()

    def end(self) -> None:
        self._other.do("close")
        self.connection.close()
        os.close(self._lock_fd)
        assert self.store.check() == []
        self.store.close()


OTHER = """
import sys
from leasehold.core.model.job import Draft
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
for line in sys.stdin:
    what, _, path = line.rstrip("\\n").partition(" ")
    if what == "open":
        store = SQLiteStore(path, durability="normal", lock_timeout_seconds=10)
        store.promote()  # A write: from here on it has the store open as all others have.
    elif what == "submit":
        store.submit([Draft(id=SYSTEM.new_id(), task="t", queue="other")])
    else:
        store.close()
    print("done", flush=True)
"""


class MemoryScene:
    def __init__(self) -> None:
        self.store = MemoryStore()

    def examine(self, verb: str) -> None:
        assert not self.store._lock.locked()
        in_another_thread(lambda: submit(self.store))
        assert self.store.check() == []

    def end(self) -> None:
        self.store.close()


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    process = Other()
    yield process
    process.end()


@pytest.fixture(params=[SQLiteScene, MemoryScene])
def scene(request: pytest.FixtureRequest, tmp_path: Path, other: Other) -> Iterator[Any]:
    made = MemoryScene() if request.param is MemoryScene else SQLiteScene(tmp_path, other)
    yield made
    made.end()


# -- what is interrupted ------------------------------------------------------------------------


def submit(store: Store, queue: str = "default") -> str:
    job_id = SYSTEM.new_id()
    store.submit([Draft(id=job_id, task="t", queue=queue)])
    return job_id


def prepare_lease(scene: Scene) -> Callable[[], object]:
    submit(scene.store)
    return lambda: scene.store.exchange((), LeaseRequest(worker="w"))


def leased(scene: Scene) -> Any:
    submit(scene.store)
    return scene.store.exchange((), LeaseRequest(worker="w")).leases[0]


def prepare_settle(scene: Scene) -> Callable[[], object]:
    lease = leased(scene)
    settlement = Settlement(lease.job_id, lease.version, Complete(b"1"))
    return lambda: scene.store.exchange([settlement])


def prepare_renew(scene: Scene) -> Callable[[], object]:
    lease = leased(scene)
    renewal = Renewal(lease.job_id, lease.version, 30.0)
    return lambda: scene.store.renew("w", [renewal])


def prepare_cancel(scene: Scene) -> Callable[[], object]:
    job_id = submit(scene.store, "cancelled")
    return lambda: scene.store.cancel([job_id], reason="enough", actor="me")


def prepare_own_transaction(scene: SQLiteScene) -> Callable[[], object]:
    connection = scene.connection

    def transact() -> None:
        with connection.transaction():
            connection.execute("CREATE TABLE IF NOT EXISTS app_row (n)")

    return transact


def prepare_within(scene: SQLiteScene) -> Callable[[], object]:
    connection = scene.connection

    def transact() -> None:
        with connection.transaction():
            scene.store.submit_within(connection, [Draft(id=SYSTEM.new_id(), task="t")])

    return transact


def prepare_close(scene: SQLiteScene) -> Callable[[], object]:
    scene.reopen()
    submit(scene.store)
    return scene.store.close


def prepare_open(scene: SQLiteScene) -> Callable[[], object]:
    def open_and_write() -> None:
        with closing(SQLiteStore(scene.path, durability="normal")) as store:
            submit(store)

    return open_and_write


def prepare_create(scene: SQLiteScene) -> Callable[[], object]:
    path = scene.path.with_name(f"{SYSTEM.new_id()}.db")
    return lambda: SQLiteStore(path, durability="normal").close()


VERBS: dict[str, Callable[[Any], Callable[[], object]]] = {
    "submit": lambda scene: lambda: submit(scene.store),
    "lease": prepare_lease,
    "settle": prepare_settle,
    "renew": prepare_renew,
    "cancel": prepare_cancel,
    "now": lambda scene: scene.store.now,
    "own_transaction": prepare_own_transaction,
    "within": prepare_within,
    "close": prepare_close,
    "open": prepare_open,
    "create": prepare_create,
}


def verbs_of(scene: Scene) -> dict[str, Callable[[Any], Callable[[], object]]]:
    return {
        name: prepare
        for name, prepare in VERBS.items()
        if isinstance(scene, SQLiteScene) or name not in SQLITE_ALONE
    }


@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupt_before_any_instruction_leaves_nothing_behind(scene: Any, verb: str) -> None:
    if verb not in verbs_of(scene):
        pytest.skip("a memory store has none")
    walk(scene, verbs_of(scene), verb, lambda name: rule(name)[0], rule(verb)[1])


@pytest.mark.parametrize("verb", VERBS)
def test_two_interrupts_in_one_call_leave_nothing_behind(scene: Any, verb: str) -> None:
    if verb not in verbs_of(scene):
        pytest.skip("a memory store has none")
    interrupt_twice(scene, verbs_of(scene), verb, 60 if THOROUGH else 20)
