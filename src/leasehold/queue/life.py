# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""The life of a TaskQueue: opening, running workers, shutting down, and forks of its process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, NoReturn, Self

from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.durations import Seconds, given_seconds
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.env import Env
from leasehold.errors import LeaseholdError, QueueClosedError
from leasehold.forking import at_fork, is_uwsgi_master, when_uwsgi_serves
from leasehold.interrupts import import_whole
from leasehold.queue.arguments import (
    folder_for_output,
    given,
    given_durations,
    names,
    queue_names,
)
from leasehold.queue.autostart import Autostart
from leasehold.queue.calls import QueueCalls
from leasehold.queue.leftovers import tell_of_leftovers
from leasehold.queue.new_store import tell_of_new_store
from leasehold.queue.options import JobRef
from leasehold.queue.ready import Ready
from leasehold.queue.waiters import Waiters
from leasehold.queue.within import own_lease, refuse_shutdown, refuse_shutdown_in_child
from leasehold.queue.workermaker import WorkerMaker
from leasehold.worker.executors.role import is_child_process
from leasehold.worker.hooks import Hooks
from leasehold.worker.joblines import JobLines
from leasehold.worker.loglines import shown_on_stderr
from leasehold.worker.safelog import safe_logger
from leasehold.worker.task import TaskRegistry

if TYPE_CHECKING:
    from leasehold.queue.awaiting import Bridge
    from leasehold.worker.stopping import StopReason
    from leasehold.worker.worker import Worker

logger = safe_logger("leasehold.worker")

SHUTDOWN_SECONDS: Final = 30.0


SHUT: Final = "this TaskQueue was shut down: queue.start() opens it again"


class ShutPart:
    """Stands in for the parts that only ask the store, once that is closed with its queue."""

    def _refuse(self, *_: object) -> NoReturn:
        raise QueueClosedError(SHUT)

    # Some of the parts are iterated over and counted.
    __getattr__ = __iter__ = __len__ = _refuse


class QueueLife(QueueCalls, ABC):
    """The workers of a TaskQueue, and the bridge for its awaitable calls."""

    store: Store
    ready: Ready
    registry: TaskRegistry
    _env: Env
    _hooks: Hooks
    _num_workers: int
    _given_store: Store | None
    _output_dir: str | os.PathLike[str] | None
    _autostart: Autostart
    _lock: threading.Lock
    _closed: bool
    _workers: WorkerMaker
    _worker: Worker | None
    _embedded_in: int | None
    """The process in which its own workers run; a fork of it has none."""
    _is_new_untold: bool = False
    """Whether its store was created before any logging was set up that would have reported it."""
    _bridge_made: Bridge | None
    _waiters: Waiters

    @abstractmethod
    def _open(self) -> None:
        """Open the store and create everything that uses it."""

    @abstractmethod
    def _replace_parts(self, part: ShutPart) -> None:
        """Put this in the place of the parts that ask the store and nothing else."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # If this is interrupted, the block is never entered, and nothing else would close it.
            self.shutdown()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shut_down(interrupted=kind is KeyboardInterrupt)

    def start(self) -> None:
        """Start the workers now; the first use of the queue does it anyway.

        A queue that was shut down is opened again; one in memory is then empty.
        """
        with self._lock:
            if self._closed:
                self._open()
        self._start_workers()

    def run_worker(
        self,
        *,
        slots: int | None = None,
        queues: str | Sequence[str] | None = None,
        max_jobs: int | None = None,
        max_memory_mb: float | None = None,
        grace_seconds: Seconds | None = None,
        tasks: str | Sequence[str] | None = None,
        executor: Literal["thread", "process"] | None = None,
        until_empty: bool = False,
        on_ready: Callable[[str], None] | None = None,
        lease_seconds: Seconds | Literal["auto"] | None = None,
        allow_commands: bool | None = None,
        app_version: str | None = None,
        log_level: int | str = "INFO",
        log_format: str | None = None,
    ) -> StopReason:
        """Run jobs in the foreground until SIGTERM or SIGINT: the main loop of a worker process.

        The first signal lets running jobs finish within the grace (30 s); a second one hands them
        back at once. After `max_jobs` jobs, or above `max_memory_mb`, it finishes its jobs and
        returns too. The result says why, so that a supervisor can restart the process.

        It serves `queues`, or those given to the TaskQueue, or otherwise "default" and the queues
        of its tasks; `"*"` means all. With `tasks` it runs only jobs of those tasks.
        `lease_seconds` and `allow_commands` are those of the TaskQueue unless given here.
        `executor="process"` runs plain functions in child processes, unless their task says
        otherwise. With `until_empty` it returns when no job of its queues is pending, running or to
        be retried; the result is "unrunnable" if jobs are left that it cannot run. `on_ready` is
        called with its id when it begins, which may have to wait for a store that is locked by
        another process. `app_version` is the version of the application: the dashboard shows it
        with the worker, and its first worker marks the deploy.

        It logs what it serves, a line when a job starts and one when it ends, and failures with
        their traceback. If the program has not set up `logging`, the lines go to standard error, at
        `log_level` and in `log_format`; if it has, its own handlers and levels apply.
        """
        slots = checked.whole_or_none("slots", slots)
        if slots is not None and slots < 1:
            raise ValueError(f"slots must be 1 or more, not {slots}")
        queues = queue_names(queues)
        checked.function_or_none("on_ready", on_ready)
        limits = given(
            max_jobs=checked.whole_or_none("max_jobs", max_jobs),
            max_memory_mb=checked.number_or_none("max_memory_mb", max_memory_mb),
            tasks=None if tasks is None else names(checked.texts("tasks", tasks)),
            until_empty=checked.flag("until_empty", until_empty),
            **given_durations(grace_seconds=grace_seconds, lease_seconds=lease_seconds),
            allow_commands=checked.flag_or_none("allow_commands", allow_commands),
            app_version=checked.text_or_none("app_version", app_version),
            output_dir=folder_for_output(self.store, self._output_dir) if allow_commands else None,
        )
        if executor is not None:
            self.registry.run_functions_in(executor)
        lines = JobLines(self._env)
        with shown_on_stderr(log_level, log_format):
            if self._is_new_untold:
                self._is_new_untold = not tell_of_new_store(self.store)
            with self._lock:
                self._check_open()
                embedded = self._worker
                # From here on it is this process's only worker: a task that submits must not start
                # another.
                self._worker = worker = self._workers.new(
                    slots or self._num_workers or 4,
                    lines.before(self._hooks),
                    queues=queues,
                    limits=limits,
                )
            if embedded is not None:
                embedded.stop()
            self._scheduling.mark_orphans()
            if app_version:
                self._mark_version(app_version)
            self._workers.warn_of_gaps(queues, tasks, allow_commands=allow_commands)
            return worker.run(on_ready, lines)

    def _mark_version(self, version: str) -> None:
        """Mark the deploy of the application's version once; a failure is harmless."""
        try:
            self.mark_deploy(version)
        except LeaseholdError as error:
            logger.warning("the deploy of %s was not marked: %s", version, error)

    def shutdown(self, wait: bool = True, timeout: Seconds = SHUTDOWN_SECONDS) -> None:
        """Stop leasing, let running jobs finish within `timeout`, hand back the rest, and close.

        Without `wait`, running jobs are handed back at once, with no attempt spent. Jobs that were
        not started stay in the store. Shutting down twice is harmless. A task cannot shut down the
        queue whose worker runs it: UnsupportedError. Ctrl-C during the wait ends it as `wait=False`
        would have, and is raised when the queue is closed.
        """
        self._shut_down(given_seconds("timeout", timeout) if wait else 0)

    def _shut_down_at_exit(self) -> None:
        interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
        # The program is ending: there is nothing left for a second Ctrl-C to interrupt.
        with suppress(KeyboardInterrupt):
            self._shut_down(interrupted=interrupted)

    def _shut_down(
        self, grace_seconds: float = SHUTDOWN_SECONDS, *, interrupted: bool = False
    ) -> None:
        with self._lock:
            if self._closed:
                return
            worker = self._worker
            if worker is not None:
                refuse_shutdown(own_lease(), worker.id)
            refuse_shutdown_in_child(own_lease(), self.store)
            self._closed = True
        self._autostart.cancel()
        atexit.unregister(self._shut_down_at_exit)
        try:
            if worker is not None:
                self._stop(worker, grace_seconds, interrupted)
        finally:
            self._close()

    def _stop(self, worker: Worker, grace_seconds: float, interrupted: bool) -> None:
        try:
            worker.stop(timeout=grace_seconds, interrupted=interrupted)
        except KeyboardInterrupt:
            worker.stop(timeout=0)
            raise
        finally:
            if self._embedded_in == os.getpid():
                tell_of_leftovers(
                    self.store, self._workers.queues_served(None), self._workers.next_run
                )

    def _close(self) -> None:
        self._consuming.close()
        # Awaitable calls from now on fail because the queue was shut down.
        bridge, self._bridge_made = self._bridge_made, None
        if bridge is not None:
            bridge.close()
        self.ready.close()
        self._waiters.close()
        if self._given_store is None:
            self.store.close()
            self._replace_parts(ShutPart())

    def _check_open(self) -> None:
        if self._closed:
            raise QueueClosedError(SHUT)

    def _ensure_workers(self) -> None:
        """Start the workers of this process, unless only `start()` may."""
        if not self._autostart.is_off:
            self._start_workers()

    def _start_workers(self) -> None:
        """Start the workers of this process, if it should have any and has none yet."""
        # A task in a child process may submit jobs, but its worker is the one that runs them.
        if self._worker or not self._num_workers or self._closed or is_child_process():
            return
        if is_uwsgi_master():  # Its threads would not exist in the processes that serve requests.
            self._autostart.put_off()
            return
        with self._lock:
            if self._worker is not None or self._closed:
                return
            worker = self._workers.new(self._num_workers, self._hooks)
            worker.start()
            self._worker = worker
            self._embedded_in = os.getpid()
            # A program that forgets to shut down still lets its running jobs finish.
            atexit.register(self._shut_down_at_exit)
        self._scheduling.mark_orphans()

    def _begin_in_fork(self) -> None:
        """Called in a fork of the process that made this, where none of its threads exist.

        The parent's workers remain the parent's, and none are started to replace them. The parts
        keep their references: `Ready` is reset here, and `Waiters` resets itself.
        """
        self._lock = threading.Lock()
        self._bridge_made = None
        self.ready.begin_anew_in_fork()
        self._consuming.begin_anew_in_fork()

    # -- awaiting ----------------------------------------------------------------------------

    async def aget(self, job: JobRef) -> Job:
        """`get`, to be awaited."""
        return await self.bridge().call(self.get, job)

    async def aget_status(self, job: JobRef) -> Status:
        """`get_status`, to be awaited."""
        return await self.bridge().call(self.get_status, job)

    async def acancel(self, job: JobRef, reason: str = "") -> Job:
        """`cancel`, to be awaited."""
        return await self.bridge().call(self.cancel, job, reason)

    async def ashutdown(self, wait: bool = True, timeout: Seconds = SHUTDOWN_SECONDS) -> None:
        """`shutdown`, to be awaited."""
        import asyncio

        await asyncio.to_thread(self.shutdown, wait, timeout)

    def bridge(self) -> Bridge:
        """The bridge that carries awaitable calls; made for the first of them."""
        bridge = self._bridge_made  # A shutdown on another thread may remove it.
        if bridge is None:
            import_whole("leasehold.queue.awaiting")
            from leasehold.queue.awaiting import Bridge

            with self._lock:
                self._check_open()
                bridge = self._bridge_made = self._bridge_made or Bridge(self.store)
        return bridge


_queues_here: Final[weakref.WeakSet[QueueLife]] = weakref.WeakSet()


def begin_anew_in_forks(queue: QueueLife) -> None:
    """Notify a queue from now on when its process was forked."""
    _queues_here.add(queue)


def _begin_in_fork() -> None:
    for queue in list(_queues_here):
        queue._begin_in_fork()  # noqa: SLF001 - it is this class's own business.


def _begin_in_uwsgi() -> None:
    for queue in list(_queues_here):
        queue._autostart.begin_what_was_put_off()  # noqa: SLF001 - likewise.


at_fork(after_in_child=_begin_in_fork)
when_uwsgi_serves(_begin_in_uwsgi)
