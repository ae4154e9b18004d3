"""Worker processes to be killed and stopped, and the tasks they run.

Tasks tell what they do through a FIFO, and hold on until the test opens their gate: another FIFO,
one per attempt.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from leasehold import TaskQueue
from leasehold.core.model.lease import Lease
from leasehold.errors import LeaseLostError, StoreUnavailableError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.worker import inhand
from leasehold.worker.context import current_job
from leasehold.worker.task import TaskRegistry
from leasehold.worker.worker import Worker
from support.readable import is_readable

PATIENCE_SECONDS = 60.0


def work(path: str, news: str, options: dict[str, Any]) -> None:
    """A worker as an application runs it."""

    def lost(lease: Lease, _: Exception) -> None:
        tell(news, "lost", lease.job_id, os.getpid(), lease.version)

    queue = TaskQueue(path, on_lease_lost=lost, **options)
    queue.task(name="hold")(hold)
    queue.task(name="hold in process", executor="process")(hold_in_process)
    queue.task(name="stray")(stray)
    queue.task(name="spin")(spin)
    queue.task(name="note")(note)
    queue.run_worker()


def work_ahead(path: str, news: str, options: dict[str, Any], jobs_ahead: int) -> None:
    """A worker that leases ahead, and keeps what it has, however long its jobs take."""
    inhand.InHand.jobs_ahead = property(lambda _: jobs_ahead)  # type: ignore[assignment, method-assign]
    inhand.START_SECONDS_MAX = 1000.0  # type: ignore[misc]
    work(path, news, options)


def work_on_commands(path: str, output_dir: str) -> None:
    """A worker that runs commands."""
    store = SQLiteStore(path)
    Worker(store, TaskRegistry(), allow_commands=True, output_dir=output_dir).run()


def consume(path: str, news: str, lease_seconds: float) -> None:
    """Lease a job without a worker, and acknowledge it when its gate is opened."""
    queue = TaskQueue(path, num_workers=0)
    lease = queue.lease(lease_seconds=lease_seconds)
    assert lease is not None
    _hold(news, lease.job_id, lease.version)
    try:
        queue.ack(lease, "too late")
        answer = "acknowledged"
    except LeaseLostError as error:
        answer = type(error).__name__
    tell(news, answer, lease.job_id, os.getpid(), lease.version)
    while True:
        signal.pause()


def submit(path: str, news: str, *names: str) -> None:
    """Submit a job at each opening of a gate, and the same again until it is acknowledged."""
    queue = TaskQueue(path, num_workers=0)
    _submit(news, names, lambda name: queue.submit("hold", job_id=name))


def submit_by_key(path: str, news: str, *names: str) -> None:
    """The same, of jobs without ids: who does not know what became of a submit may repeat it."""
    queue = TaskQueue(path, num_workers=0)

    def submit(name: str) -> None:
        queue.submit("hold", idempotency_key=name, metadata={"name": name})

    _submit(news, names, submit)


def submit_without_key(path: str, news: str, *names: str) -> None:
    """The same, of jobs that nothing tells apart: each that is submitted twice is there twice."""
    queue = TaskQueue(path, num_workers=0)
    _submit(news, names, lambda name: queue.submit("hold", metadata={"name": name}))


def _submit(news: str, names: tuple[str, ...], submit: Callable[[str], object]) -> None:
    for name in names:
        for attempt in count(1):
            _hold(news, name, attempt)
            try:
                submit(name)
            except StoreUnavailableError as error:
                tell(news, type(error).__name__, name, os.getpid(), attempt)
            else:
                tell(news, "submitted", name, os.getpid(), attempt)
                break
    while True:
        signal.pause()


def hold(news: str, name: str) -> int:
    """Tell that it runs, and go on when its gate is opened."""
    _hold(news, name, current_job().fencing_token)
    return os.getpid()


def _hold(news: str, name: str, version: int) -> None:
    gate = _gate(news, name, version)
    os.mkfifo(gate)
    tell(news, "started", name, os.getpid(), version)
    with open(gate, "rb") as file:
        file.read(1)


def hold_in_process(news: str, name: str) -> int:
    """The same, in a process of its own."""
    return hold(news, name)


def spin(end: str) -> int:
    """Keep the interpreter busy until that file is there."""
    while not os.path.exists(end):
        for _ in range(1_000_000):
            pass
    return current_job().fencing_token


def note(ledger: str) -> None:
    """Write down that it has begun: which job, under which version, in which process."""
    job = current_job()
    with open(ledger, "a") as file:
        file.write(f"{job.job_id} {job.fencing_token} {os.getpid()}\n")


def stray(news: str, name: str) -> None:
    """Leave a process behind that holds on to everything this one has, its sign of life too."""
    child = os.fork()
    if child == 0:
        os.setsid()
        while True:
            signal.pause()
    tell(news, "stray", name, child, current_job().fencing_token)
    hold(news, name)


def tell(news: str, what: str, name: object, pid: int, version: int) -> None:
    fd = os.open(news, os.O_WRONLY)
    os.write(fd, f"{what}\t{name}\t{pid}\t{version}\n".encode())
    os.close(fd)


def _gate(news: str, name: str, version: int) -> str:
    return f"{news}-{name}-{version}"


class News:
    """The test's end of the line."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._gates: list[int] = []
        self._rest = b""
        self._unread: list[tuple[str, str, int, int]] = []

    def wait_for(self, what: str, name: str | None = None) -> tuple[int, int]:
        """(pid, version) of the next news of this kind, about this job; others are kept."""
        while True:
            for news in self._unread:
                if news[0] == what and name in (None, news[1]):
                    self._unread.remove(news)
                    return news[2], news[3]
            come = is_readable(self._fd, PATIENCE_SECONDS)
            assert come, f"no news of {what} {name}; there is {self._unread}"
            *lines, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
            for line in lines:
                kind, about, pid, version = line.decode().split("\t")
                self._unread.append((kind, about, int(pid), int(version)))

    def open_gate(self, name: str, version: int) -> None:
        """Let this attempt go on."""
        self._gates.append(os.open(_gate(self.path, name, version), os.O_RDWR))
        os.write(self._gates[-1], b"!")

    def close(self) -> None:
        for fd in (self._fd, *self._gates):
            os.close(fd)
