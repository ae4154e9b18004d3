"""A child process of `ProcessExecutor`: it runs one job after the other until it is killed.

Run as `python -m leasehold.worker.executors.child <socket descriptor> <worker's pid>`. It inherits
the worker's lock and never closes it, so that the lock is free only when no child is left.
"""

from __future__ import annotations

import contextvars
import importlib
import os
import queue
import signal
import socket
import sys
import threading
from functools import partial
from typing import Final, TypeVar

import msgspec

from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import Fail, JobError, Outcome, Release
from leasehold.core.model.reason import UNRUNNABLE
from leasehold.errors import StoreError, StoreUnavailableError
from leasehold.worker.attempt import attempt
from leasehold.worker.context import JobContext
from leasehold.worker.copies import copies_end_here, leave_copy
from leasehold.worker.dependencies import DependencyResult
from leasehold.worker.describe import (
    clean_text,
    describe_error,
    guarded,
    message_of,
    type_name,
)
from leasehold.worker.executors.childbacking import ChildBacking
from leasehold.worker.executors.importable import load
from leasehold.worker.executors.largeviaworker import LargeViaWorker
from leasehold.worker.executors.lasting import LastingChanges
from leasehold.worker.executors.nursery import die_with, kill_group, leave_signals_to_the_worker
from leasehold.worker.executors.parts import Parts, parts_of
from leasehold.worker.executors.role import become_child_process
from leasehold.worker.executors.surroundings import Surroundings
from leasehold.worker.executors.wire import (
    Ask,
    Begin,
    ChildEnd,
    ChildReady,
    ChildSetup,
    CodeEnded,
    DependencyAnswer,
    Favour,
    FavourRequest,
    Keep,
    KeptResult,
    LeaseKey,
    Leave,
    Logged,
    Piece,
    ProgressReport,
    Stop,
)
from leasehold.worker.loglines import name_jobs_without_logging
from leasehold.worker.printed import begin_keeping
from leasehold.worker.task import TaskDefinition

T = TypeVar("T", DependencyAnswer, Leave, KeptResult)

IMPORT_PAUSE_SECONDS: Final = 5.0
"""How long a job waits if its module could not open its store."""

UNTOLD: Final[str | None] = "changes that cannot be told"
"""The lasting changes reported for a task whose process cannot even be inspected."""


class _WireSink:
    """Sends a task's reports to the worker."""

    def __init__(self, worker: ChildEnd) -> None:
        self._worker = worker

    def progress(self, lease: Lease, document: bytes) -> None:
        self._worker.send(ProgressReport(LeaseKey.of(lease), document))

    def log(self, lease: Lease, line: LogLine) -> None:
        self._worker.send(Logged(LeaseKey.of(lease), line))


class Child:
    """Runs jobs in the main thread, while another thread listens to the worker."""

    def __init__(self, worker: ChildEnd) -> None:
        self._worker = worker
        self._sink = _WireSink(worker)
        self._begun: queue.SimpleQueue[tuple[Begin, JobContext]] = queue.SimpleQueue()
        self._context: JobContext | None = None
        self._tasks: dict[tuple[str, str], TaskDefinition] = {}
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[DependencyAnswer | Leave | KeptResult] = (
            queue.SimpleQueue()
        )
        self._surroundings = Surroundings()

    def serve(self) -> None:
        """Run jobs until the worker ends or the child is killed."""
        threading.Thread(target=self._listen, name="leasehold-listen", daemon=True).start()
        self._worker.send(ChildReady())
        changes = LastingChanges()
        while True:
            begin, context = self._begun.get()
            outcome = contextvars.copy_context().run(self._attempt, begin, context)
            self._context = None
            _flush_output()
            lasting = guarded(changes.found, UNTOLD)
            self._report(begin, outcome, context.settled, lasting)
            # Meanwhile, the worker records the outcome.
            self._surroundings.restore()

    def _listen(self) -> None:
        try:
            self._listen_to_the_end()
        finally:
            # The worker is gone, done with this child, or no longer reachable: the processes that
            # the task has started end with the child.
            kill_group(os.getpgid(0))

    def _listen_to_the_end(self) -> None:
        parts = Parts()
        while (message := self._worker.receive()) is not None:
            if isinstance(message, Piece):
                parts.add(message)
            elif isinstance(message, Begin):
                lease = parts.join_payload(message.lease)
                message = msgspec.structs.replace(message, lease=lease)
                # The context is made here, so that a request to stop that follows at once finds it.
                self._context = self._new_context(message)
                self._begun.put((message, self._context))
            elif isinstance(message, Stop):
                context = self._context
                if context is not None and LeaseKey.of(context.lease) == message.about:
                    context.stop(message.cause, message.reason)
            elif isinstance(message, DependencyAnswer | Leave | KeptResult):
                self._answers.put(message)

    def _new_context(self, begin: Begin) -> JobContext:
        about = LeaseKey.of(begin.lease)
        return JobContext(
            begin.lease,
            self._sink,
            fetch=partial(self._fetch, about),
            large=LargeViaWorker(begin.result_bytes_max, partial(self._keep, about)),
            backing=ChildBacking(begin.store, partial(self._request, about)),
        )

    def _ask(self, question: Ask | FavourRequest | Keep, kind: type[T], ahead: bytes = b"") -> T:
        """Ask the worker, which answers questions one after the other."""
        with self._asking:
            for part in parts_of(question.about, ahead):
                self._worker.send(part)
            self._worker.send(question)
            answer = self._answers.get()
        if not isinstance(answer, kind) or answer.about != question.about:
            raise ConnectionError("the worker's reply does not match the request")
        return answer

    def _fetch(self, about: LeaseKey, job_id: str) -> list[DependencyResult]:
        """The results of the job's dependencies; only the worker can read the store."""
        answer = self._ask(Ask(about), DependencyAnswer)
        if answer.error is not None:
            raise StoreUnavailableError(
                f"the results of the dependencies of job {job_id} could not be read: "
                f"{answer.error.type}: {answer.error.message}"
            )
        return answer.results

    def _request(self, about: LeaseKey, favour: Favour) -> Leave:
        return self._ask(FavourRequest(about, favour), Leave)

    def _keep(self, about: LeaseKey, data: bytes, codec: str) -> KeptResult:
        return self._ask(Keep(about, codec), KeptResult, ahead=data)

    def _attempt(self, begin: Begin, context: JobContext) -> Outcome:
        try:
            with copies_end_here():
                task = self._task(begin)
        except BaseException as error:  # noqa: BLE001 - importing runs code that may raise anything.
            return _not_imported(begin, error)
        self._surroundings.note()
        return attempt(begin.lease, task, context)

    def _task(self, begin: Begin) -> TaskDefinition:
        key = (begin.module, begin.qualname)
        if key not in self._tasks:
            self._tasks[key] = load(
                begin.lease.task, begin.module, begin.qualname, begin.pickle_key
            )
        return self._tasks[key]

    def _report(
        self, begin: Begin, outcome: Outcome, settled: Settled | None, lasting: str | None
    ) -> None:
        about = LeaseKey.of(begin.lease)
        try:
            self._worker.send(CodeEnded(about, outcome, settled, lasting))
        except OSError:
            raise  # The connection is gone, so the child has to end too.
        except Exception as error:  # noqa: BLE001 - too large for a frame, or not to be encoded.
            message = f"it ran, but its result cannot be kept: {message_of(error)}"
            failure = Fail(JobError(type_name(error), clean_text(message)), retryable=False)
            self._worker.send(CodeEnded(about, failure, lasting=lasting))


def _not_imported(begin: Begin, error: BaseException) -> Outcome:
    """The outcome of a job whose code could not be imported here."""
    described = describe_error(error)
    message = (
        f"task {begin.lease.task!r} cannot be imported in a child process, from "
        f"{begin.module}: {described.message}"
    )
    if isinstance(error, StoreError):
        # The module opens an unreachable store: that is not the fault of its jobs, however many
        # come.
        return Release(IMPORT_PAUSE_SECONDS, f"{UNRUNNABLE}{message}")
    failure = JobError(described.type, message, described.traceback)
    # Other failures are bugs or missing packages, but a server may be away for a while.
    return Fail(failure, retryable=isinstance(error, ConnectionError | TimeoutError))


def _flush_output() -> None:
    # A child is ended by a kill, which would lose text that the task has printed.
    for stream in (sys.stdout, sys.stderr):
        guarded(lambda stream=stream: stream.flush(), None)  # type: ignore[misc]


def _prepare(setup: ChildSetup) -> None:
    sys.path[:] = setup.sys_path
    os.environ.pop("PYTHONPATH", None)
    if setup.python_path is not None:
        os.environ["PYTHONPATH"] = setup.python_path
    # An import that fails or exits does so again when the job begins, and is then its failure.
    with copies_end_here():
        guarded(lambda: importlib.import_module(setup.module), None)


def main() -> None:
    """Serve the worker at the other end of the socket."""
    worker_fd, worker_pid = map(int, sys.argv[1:])
    die_with(worker_pid)
    leave_signals_to_the_worker()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    become_child_process()
    os.set_inheritable(worker_fd, False)
    try:
        worker = ChildEnd(socket.socket(fileno=worker_fd))
        setup = worker.receive()
        if isinstance(setup, ChildSetup):
            begin_keeping()
            name_jobs_without_logging(setup.line_style)
            _prepare(setup)
            Child(worker).serve()
    except BaseException as error:  # noqa: BLE001 - the worker hears of it by this child's end.
        # Not by a normal interpreter exit, which would wait for threads that tasks have left
        # behind.
        leave_copy(error)


if __name__ == "__main__":
    main()
