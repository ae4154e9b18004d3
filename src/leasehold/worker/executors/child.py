"""A child process of `ProcessExecutor`: it runs one job after the other until it is killed.

Run as `python -m leasehold.worker.executors.child <socket descriptor> <worker's pid>`. It inherits
the worker's lock and never closes it, so that the lock is free only when no child is left.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import os
import queue
import signal
import socket
import sys
import threading

import msgspec

from leasehold.core.joblog import LogLine
from leasehold.core.lease import Lease, Settled
from leasehold.core.outcome import Fail, JobError, Outcome
from leasehold.errors import PayloadTooLargeError, StoreUnavailableError
from leasehold.worker.attempt import attempt, describe_error
from leasehold.worker.context import JobContext
from leasehold.worker.dependencies import DependencyResult
from leasehold.worker.executors.childbacking import ChildBacking
from leasehold.worker.executors.importable import load
from leasehold.worker.executors.largeviaworker import LargeViaWorker
from leasehold.worker.executors.nursery import die_with, kill_group, leave_signals_to_the_worker
from leasehold.worker.executors.parts import Parts, parts_of
from leasehold.worker.executors.role import become_child_process
from leasehold.worker.executors.wire import (
    Answer,
    Ask,
    Begin,
    ChildEnd,
    Ended,
    Favour,
    Keep,
    Kept,
    Leave,
    Log,
    Part,
    Progress,
    Ready,
    Request,
    Setup,
    Stop,
)
from leasehold.worker.task import TaskDefinition


class _WireSink:
    """Sends what a task reports to the worker."""

    def __init__(self, worker: ChildEnd) -> None:
        self._worker = worker

    def progress(self, _lease: Lease, document: bytes) -> None:
        self._worker.send(Progress(document))

    def log(self, _lease: Lease, line: LogLine) -> None:
        self._worker.send(Log(line))


class Child:
    """Runs jobs in the main thread, while another one listens to the worker."""

    def __init__(self, worker: ChildEnd) -> None:
        self._worker = worker
        self._sink = _WireSink(worker)
        self._begun: queue.SimpleQueue[tuple[Begin, JobContext]] = queue.SimpleQueue()
        self._context: JobContext | None = None
        self._tasks: dict[tuple[str, str], TaskDefinition] = {}
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._leaves: queue.SimpleQueue[Leave] = queue.SimpleQueue()
        self._kept: queue.SimpleQueue[Kept] = queue.SimpleQueue()

    def serve(self) -> None:
        """Run jobs for ever: only the worker's end, or a kill, ends it."""
        threading.Thread(target=self._listen, name="leasehold-listen", daemon=True).start()
        self._worker.send(Ready())
        while True:
            begin, context = self._begun.get()
            outcome = contextvars.copy_context().run(self._attempt, begin, context)
            self._context = None
            _flush_output()
            self._report(begin, outcome, context.settled)

    def _listen(self) -> None:
        parts = Parts()
        while (message := self._worker.receive()) is not None:
            if isinstance(message, Part):
                parts.add(message)
            elif isinstance(message, Begin):
                lease = parts.join_payload(message.lease)
                message = msgspec.structs.replace(message, lease=lease)
                large = LargeViaWorker(message.result_bytes_max, self._keep)
                # The context is made here, so that a request to stop right after it finds one.
                backing = ChildBacking(message.store, self._request)
                self._context = JobContext(
                    lease, self._sink, fetch=self._ask, large=large, backing=backing
                )
                self._begun.put((message, self._context))
            elif isinstance(message, Stop) and (context := self._context) is not None:
                context.stop(message.cause, message.reason)
            elif isinstance(message, Answer):
                self._answers.put(message)
            elif isinstance(message, Leave):
                self._leaves.put(message)
            elif isinstance(message, Kept):
                self._kept.put(message)
        # The worker is gone, or done with this child: what the task has started goes with it.
        kill_group(os.getpgid(0))

    def _ask(self, job_id: str) -> list[DependencyResult]:
        """What the job's dependencies returned; only the worker can read the store."""
        with self._asking:
            self._worker.send(Ask())
            answer = self._answers.get()
        if answer.error is not None:
            raise StoreUnavailableError(
                f"the results of the dependencies of job {job_id} could not be read: "
                f"{answer.error.type}: {answer.error.message}"
            )
        return answer.results

    def _request(self, favour: Favour) -> Leave:
        with self._asking:
            self._worker.send(Request(favour))
            return self._leaves.get()

    def _keep(self, data: bytes, codec: str) -> Kept:
        with self._asking:
            for part in parts_of(data):
                self._worker.send(part)
            self._worker.send(Keep(codec))
            return self._kept.get()

    def _attempt(self, begin: Begin, context: JobContext) -> Outcome:
        try:
            task = self._task(begin)
        except BaseException as error:  # noqa: BLE001 - importing runs code that may raise anything.
            described = describe_error(error)
            return Fail(
                JobError(
                    described.type,
                    f"task {begin.lease.task!r} cannot be imported in a child process, from "
                    f"{begin.module}: {described.message}",
                    described.traceback,
                ),
                retryable=False,
            )
        return attempt(begin.lease, task, context)

    def _task(self, begin: Begin) -> TaskDefinition:
        key = (begin.module, begin.qualname)
        if key not in self._tasks:
            self._tasks[key] = load(
                begin.lease.task, begin.module, begin.qualname, begin.pickle_key
            )
        return self._tasks[key]

    def _report(self, begin: Begin, outcome: Outcome, settled: Settled | None) -> None:
        try:
            self._worker.send(Ended(outcome, settled))
        except PayloadTooLargeError as error:
            message = f"job {begin.lease.job_id} ran, but its result cannot be kept: {error}"
            error_text = JobError(type(error).__name__, message)
            self._worker.send(Ended(Fail(error_text, retryable=False)))


def _flush_output() -> None:
    # A child is ended by a kill, which would take along whatever the task has printed.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _prepare(setup: Setup) -> None:
    sys.path[:] = setup.sys_path
    os.environ.pop("PYTHONPATH", None)
    if setup.python_path is not None:
        os.environ["PYTHONPATH"] = setup.python_path
    # An import that fails here fails again when the job begins, and is reported as its failure.
    with contextlib.suppress(Exception):
        importlib.import_module(setup.module)


def main() -> None:
    """Serve the worker at the other end of the socket."""
    worker_fd, worker_pid = map(int, sys.argv[1:])
    die_with(worker_pid)
    leave_signals_to_the_worker()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    become_child_process()
    os.set_inheritable(worker_fd, False)
    worker = ChildEnd(socket.socket(fileno=worker_fd))
    setup = worker.receive()
    if isinstance(setup, Setup):
        _prepare(setup)
        Child(worker).serve()


if __name__ == "__main__":
    main()
