# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""TaskQueue: the one object an application needs."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, overload

from leasehold.blobs.place import BlobPlace
from leasehold.codec.signed import check_key
from leasehold.connect import Durability, connect
from leasehold.core.contract.completeness import whole_store
from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.durations import Seconds, given_seconds
from leasehold.core.model.job import DEFAULT_QUEUE, Draft, Job
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import JobError
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.settings import retention_values
from leasehold.core.model.status import Status
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseLostError, QueueClosedError, StoreError, TransactionError
from leasehold.interrupts import import_whole
from leasehold.queue.archive import Archive
from leasehold.queue.arguments import (
    default_queue,
    folder_for_output,
    given,
    given_durations,
    names,
    open_blobs,
)
from leasehold.queue.autostart import Autostart
from leasehold.queue.calls import QueueCalls
from leasehold.queue.codecs import Codecs
from leasehold.queue.consumer import Consuming
from leasehold.queue.deadletters import DeadLetters
from leasehold.queue.drafting import Drafting
from leasehold.queue.elsewhere import no_attribute_of_queue
from leasehold.queue.joining import Joining
from leasehold.queue.large import bytes_max
from leasehold.queue.leftovers import tell_of_leftovers
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.looking import Looking
from leasehold.queue.metrics import Metrics
from leasehold.queue.operations import Operations
from leasehold.queue.options import JobRef
from leasehold.queue.orders import Orders
from leasehold.queue.queues import Queues
from leasehold.queue.ready import Ready
from leasehold.queue.results import Results
from leasehold.queue.retention import Retention
from leasehold.queue.schedules import Schedules
from leasehold.queue.scheduling import Scheduling
from leasehold.queue.settings import Settings
from leasehold.queue.storing import Storing
from leasehold.queue.submitting import Submitting
from leasehold.queue.tasks import Tasks
from leasehold.queue.upkeep import Upkeep
from leasehold.queue.waiters import Waiters
from leasehold.queue.within import own_lease, refuse_shutdown
from leasehold.queue.workermaker import WorkerMaker
from leasehold.queue.workflows import Workflows
from leasehold.worker.executors.role import is_child_process
from leasehold.worker.hooks import Hooks
from leasehold.worker.joblines import JobLines
from leasehold.worker.loglines import shown_on_stderr
from leasehold.worker.task import TaskRegistry

if TYPE_CHECKING:
    from leasehold.queue.awaiting import Bridge
    from leasehold.worker.stopping import StopReason
    from leasehold.worker.worker import Worker

C = TypeVar("C")

SHUTDOWN_SECONDS: Final = 30.0
WORKER_NAMES: Final = {
    "poll_interval": "poll_interval_seconds",
    "heartbeat_interval": "heartbeat_interval_seconds",
    "sweep_interval": "sweep_interval_seconds",
}
"""What a worker calls the settings of the same meaning."""
INTERNAL: Final = frozenset(
    {
        *("bridge", "codec_for", "registry", "ready"),
        *("submit_call", "asubmit_call", "result_of", "aresult_of", "lease_request", "try_lease"),
    }
)
"""What stands on a TaskQueue for its own faces only."""


class TaskQueue(QueueCalls):
    """Submit functions as background jobs, run them, and see what became of them.

    >>> queue = TaskQueue("memory://")
    >>> @queue.task(name="add", priority="high")
    ... def add(one: int, two: int) -> int:
    ...     return one + two
    >>> job = add.submit(1, two=2)
    >>> job.result(timeout=10)
    3
    >>> queue.shutdown()

    `url` is a path or a URL (see `leasehold.connect`), or a store. `num_workers` jobs run at a time
    in this process; 0 means that it only submits. The workers start with the first use of the queue
    (a submit, a look at a job, a wait, or `with`), not when it is made: by then its tasks are
    known. In the process that is the application they start by themselves, a second after its first
    task was defined; with `autostart=True` they do so in any process that imports it, and with
    `False` only by `start()` and `with` (see docs/workers.md).

    They serve `queues` ("*" for all of the store), or, if none are given, "default" and the queues
    of its tasks. Jobs go to the first of `queues` unless told otherwise.

    `client` names who submits, for queues that limit the rate of each client; `actor` names who
    gives orders, in audit records.
    `retention` says how long ended jobs are kept (see `leasehold.RetentionPolicy`).
    What is not given (intervals, lease, threshold, retention) follows `queue.settings`, which are
    kept in the store for all processes.

    `blobs` says where payloads and results over 256 KiB are kept: a folder, or `s3://bucket/prefix`;
    by default a folder beside the database. With `blobs=False` they are refused.

    In a process forked from the one that made it, a queue submits, looks and waits as far as its
    store can be used there; the workers stay the parent's, and none are started in their place.

    Command jobs run only with `allow_commands`; what they print is kept in files under
    `output_dir`, by default a folder beside the database.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | Store,
        *,
        num_workers: int = 4,
        autostart: bool | None = None,
        queues: str | Sequence[str] | None = None,
        poll_interval: Seconds | None = None,
        lease_seconds: Seconds | Literal["auto"] | None = None,
        heartbeat_interval: Seconds | None = None,
        heartbeat_failure_threshold: int | None = None,
        sweep_interval: Seconds | None = None,
        enable_recovery: bool = True,
        durability: Durability | None = None,
        retention: RetentionPolicy | None = None,
        blobs: BlobPlace = None,
        import_tasks: Iterable[str] = (),
        allow_commands: bool = False,
        output_dir: str | os.PathLike[str] | None = None,
        pickle_key: bytes | None = None,
        actor: str = "python",
        client: str | None = None,
        env: Env = SYSTEM,
        on_submit: Callable[[Draft], None] | None = None,
        on_start: Callable[[Lease], None] | None = None,
        on_success: Callable[[Lease, Settled], None] | None = None,
        on_failure: Callable[[Lease, Settled, JobError], None] | None = None,
        on_dead: Callable[[Lease, Settled, JobError], None] | None = None,
        on_lease_lost: Callable[[Lease, LeaseLostError | StoreError], None] | None = None,
        on_progress: Callable[[Lease, dict[str, Any]], None] | None = None,
    ) -> None:
        if num_workers < 0:
            raise ValueError(f"num_workers must be 0 or more, not {num_workers}")
        if queues is not None and not queues:
            raise ValueError("queues must name at least one queue")
        if pickle_key is not None:
            check_key(pickle_key)
        self.url = os.fspath(url) if isinstance(url, str | os.PathLike) else None
        """The path or URL it was made with; None if that was a store."""
        self._given_store = None if isinstance(url, str | os.PathLike) else whole_store(url)
        self._durability: Durability | None = durability
        self._blob_place: BlobPlace = blobs
        self._policy = retention
        self._env = env
        self._actor = actor
        self._hooks = Hooks(
            on_submit, on_start, on_success, on_failure, on_dead, on_lease_lost, on_progress
        )
        self._num_workers = num_workers
        self._queue_names = None if queues is None else names(queues)
        durations = given_durations(
            poll_interval=poll_interval,
            lease_seconds=lease_seconds,
            heartbeat_interval=heartbeat_interval,
            sweep_interval=sweep_interval,
        )
        threshold = given(heartbeat_failure_threshold=heartbeat_failure_threshold)
        self._given_settings = {
            **{name: value for name, value in durations.items() if value != "auto"},
            **threshold,
            **({} if retention is None else retention_values(retention)),
        }
        self._worker_options = {
            **{WORKER_NAMES.get(name, name): value for name, value in durations.items()},
            **threshold,
            **given(enable_recovery=enable_recovery, retention=retention),
        }
        self._allow_commands = allow_commands
        self._output_dir = output_dir
        self._lock = threading.Lock()
        self._lifecycle = Lifecycle(self._check_open, self._ensure_workers, self.bridge)
        self.registry = TaskRegistry(allow_import=names(import_tasks), pickle_key=pickle_key)
        self._codecs = Codecs(self.registry, pickle_key)
        default = default_queue(self._queue_names or (DEFAULT_QUEUE,))
        self._tasks = Tasks(
            self.registry,
            self._codecs,
            default_fields={"queue": default, **given(client=client)},
            pickle_key=pickle_key,
            runs_here=num_workers > 0,
        )
        self._autostart = Autostart(self._ensure_workers, autostart)
        if num_workers and env is SYSTEM:  # No time passes by itself for an injected clock.
            self._tasks.on_task = self._autostart.begin
        self._submitting = Submitting(self, self._tasks, self.bridge)
        self._tasks.submitting = self._submitting
        self._open()
        _queues_here.add(self)

    def _open(self) -> None:
        """Open the store and make everything that works on it; tasks outlive it."""
        env, actor, lifecycle = self._env, self._actor, self._lifecycle
        store = self._given_store
        if store is None:
            assert self.url is not None
            store = connect(self.url, env=env, durability=self._durability, retention=self._policy)
        self.store = store
        self.blobs = open_blobs(store, self._blob_place, env, close=self._given_store is None)
        """Where large payloads and results are kept; None if they are refused."""
        self.ready = Ready(store, env)
        """Tells when jobs may be available."""
        self._worker: Worker | None = None
        self._embedded_in: int | None = None
        """The process in which its own workers run: one forked from it has none."""
        self._bridge_made: Bridge | None = None
        self._waiters = Waiters(store, env)
        commands = {
            "allow_commands": True, "output_dir": folder_for_output(store, self._output_dir)
        } if self._allow_commands else {}  # fmt: skip
        self._workers = WorkerMaker(
            store,
            self.registry,
            self._tasks,
            env=env,
            blobs=self.blobs,
            queues=self._queue_names,
            options={**self._worker_options, **commands},
        )
        self._drafting = Drafting(
            self._tasks,
            env,
            bytes_max(self.blobs),
            # A remote store's: its token may be good for some queues only.
            getattr(store, "id_prefix", None),
        )
        self._storing = Storing(
            store, env, self.blobs, self.ready, lifecycle, self._hooks.on_submit
        )
        self._submitting.work_with(self._drafting, self._storing)
        self._scheduling = Scheduling(
            store, actor, self.blobs, self._tasks, self._drafting, lifecycle
        )
        self._workflows = Workflows(self, store, env, actor, self._submitting, lifecycle)
        self._looking = Looking(store, self.blobs, self._ensure_workers)
        self._queues = Queues(store, actor, self._looking)
        self._results = Results(
            self._looking,
            self._waiters,
            self._codecs,
            self.blobs,
            lifecycle,
            self._queues.why,
        )
        self._joining = Joining(
            store, env, lifecycle, lambda: self._results, lambda: self._workers.queues_served(None)
        )
        self._orders = Orders(store, actor, self.blobs)
        served = self._queue_names or (DEFAULT_QUEUE,)
        self._consuming = Consuming(
            store,
            env=env,
            registry=self.registry,
            codecs=self._codecs,
            blobs=self.blobs,
            bytes_max=bytes_max(self.blobs),
            orders=self._orders,
            ready=self.ready,
            lifecycle=lifecycle,
            queues=(default_queue(served),) if ALL_QUEUES in served else served,
            lease_seconds=self._given_settings.get("lease_seconds"),
            enable_recovery=self._worker_options["enable_recovery"],
            given_settings=self._given_settings,
        )
        self._metrics = Metrics(store, self._looking)
        self._retention = Retention(store, env, actor, self.blobs, self._policy)
        self._upkeep = Upkeep(store, actor)
        for name in ("dead_letters", "operations", "archive", "settings", "schedules"):
            self.__dict__.pop(name, None)  # Each is made for the store, when it is first asked for.
        self._closed = False

    def __dir__(self) -> list[str]:
        """What an application may use; the parts behind it only clutter a prompt."""
        public = (name for name in super().__dir__() if not name.startswith("_"))
        return [name for name in public if name not in INTERNAL]

    def __repr__(self) -> str:
        state = ", shut down" if self._closed else ""
        return f"TaskQueue({self.store!r}, num_workers={self._num_workers}{state})"

    if not TYPE_CHECKING:  # For a type checker there are no others than those that are there.

        def __getattr__(self, name):
            no_attribute_of_queue(self, name)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # Interrupted here, nobody comes to the end of the block to close it.
            self.shutdown()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    # -- workers -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers now; the first use of the queue does it anyway.

        A queue that was shut down is opened again. One in memory is empty then.
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
        log_level: int | str = "INFO",
        log_format: str | None = None,
    ) -> StopReason:
        """Run jobs in the foreground until SIGTERM or SIGINT: the main loop of a worker process.

        The first signal lets what runs finish within the grace (30 s); a second one hands it back
        at once. After `max_jobs` jobs, or above `max_memory_mb`, it finishes what it has and
        returns too; the answer says why, so that whoever started the process can start it anew.

        It serves `queues`, or those that the TaskQueue was given, or else "default" and the queues
        of its tasks; `"*"` means all. With `tasks` it runs jobs of these only. `lease_seconds` and
        `allow_commands` are those of the TaskQueue unless given here. `executor="process"` runs
        plain functions in child processes, unless their task says otherwise. With `until_empty` it
        returns when no job of its queues is pending, running or to be retried; the answer is
        "unrunnable" if jobs are left that it cannot run. `on_ready` is told its id when it begins,
        which may have to wait for a store that is locked by another process.

        It logs what it serves, a line when a job starts and one when it ends, and failures with
        their traceback. If the program has not set up `logging`, the lines go to standard error, at
        `log_level` and in `log_format`; if it has, its own handlers and levels count.
        """
        if slots is not None and slots < 1:
            raise ValueError(f"slots must be 1 or more, not {slots}")
        limits = given(
            max_jobs=max_jobs,
            max_memory_mb=max_memory_mb,
            tasks=None if tasks is None else names(tasks),
            until_empty=until_empty,
            **given_durations(grace_seconds=grace_seconds, lease_seconds=lease_seconds),
            allow_commands=allow_commands,
            output_dir=folder_for_output(self.store, self._output_dir) if allow_commands else None,
        )
        if executor is not None:
            self.registry.run_functions_in(executor)
        lines = JobLines(self._env)
        with shown_on_stderr(log_level, log_format):
            with self._lock:
                self._check_open()
                embedded = self._worker
                # From here on it is this process's only worker: a task that submits starts no
                # other.
                self._worker = worker = self._workers.new(
                    slots or self._num_workers or 4,
                    lines.before(self._hooks),
                    queues=queues,
                    limits=limits,
                )
            if embedded is not None:
                embedded.stop()
            self._scheduling.mark_orphans()
            self._workers.warn_of_gaps(queues, tasks, allow_commands=allow_commands)
            return worker.run(on_ready, lines)

    def shutdown(self, wait: bool = True, timeout: Seconds = SHUTDOWN_SECONDS) -> None:
        """Take nothing more, let what runs finish within `timeout`, hand back the rest, and close.

        Without `wait`, what runs is handed back at once, with no attempt spent. Jobs that were not
        started stay in the store. Shutting down twice is harmless. A task cannot shut down the
        queue whose worker runs it: UnsupportedError.
        """
        with self._lock:
            if self._closed:
                return
            worker = self._worker
            if worker is not None:
                refuse_shutdown(own_lease(), worker.id)
            self._closed = True
        self._autostart.cancel()
        atexit.unregister(self.shutdown)
        if worker is not None:
            worker.stop(timeout=given_seconds("timeout", timeout) if wait else 0)
            if self._embedded_in == os.getpid():
                tell_of_leftovers(self.store, self._workers.queues_served(None))
        self._consuming.close()
        if self._bridge_made is not None:
            self._bridge_made.close()
        self.ready.close()
        self._waiters.close()
        if self._given_store is None:
            self.store.close()

    def _check_open(self) -> None:
        if self._closed:
            raise QueueClosedError("this TaskQueue was shut down: queue.start() opens it again")

    def _ensure_workers(self) -> None:
        """Start the workers of this process, unless only `start()` may."""
        if not self._autostart.is_off:
            self._start_workers()

    def _start_workers(self) -> None:
        """Start the workers of this process, if it should have any and has none yet."""
        # A task in a child process may submit jobs, but its worker is the one that runs them.
        if self._worker or not self._num_workers or self._closed or is_child_process():
            return
        with self._lock:
            if self._worker is not None or self._closed:
                return
            worker = self._workers.new(self._num_workers, self._hooks)
            worker.start()
            self._worker = worker
            self._embedded_in = os.getpid()
            # A program that forgets to shut down still lets its running jobs finish.
            atexit.register(self.shutdown)
        self._scheduling.mark_orphans()

    def _begin_in_fork(self) -> None:
        """Said in a process forked from the one that made this: none of its threads are here.

        The parent's workers stay the parent's, and no others are started in their place. The
        parts keep what they were given: `Ready` begins anew here, `Waiters` do so by themselves.
        """
        self._lock = threading.Lock()
        self._bridge_made = None
        self.ready.begin_anew_in_fork()
        self._consuming.begin_anew_in_fork()

    @overload
    def connect(self, kind: None = None) -> Connection: ...
    @overload
    def connect(self, kind: type[C]) -> C: ...
    def connect(self, kind: type[Any] | None = None) -> Any:
        """A connection to this queue's own database, for tables of yours beside the jobs.

        What is submitted with `connection=` inside `with connection:` is committed together with
        what is written there, or not at all. With SQLite it is an `apsw.Connection`, with
        PostgreSQL a `psycopg.Connection`: name the class as `kind`, and type checkers know all that
        it can do. Close it when you are done, and let one thread at a time use it.
        """
        self._check_open()
        self._ensure_workers()
        connection = local_part(self.store, "a connection of your own").connect()
        if kind is None or isinstance(connection, kind):
            return connection
        connection.close()
        raise TransactionError(
            f"connections to {self.store} are no {kind.__module__}.{kind.__qualname__}, but "
            f"{type(connection).__mro__[1].__module__}.{type(connection).__mro__[1].__qualname__}"
        )

    # -- parts with a name of their own ----------------------------------------------------------

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """The jobs that will not run again unless you say so."""
        return DeadLetters(self.store, self._actor, self.blobs)

    @cached_property
    def operations(self) -> Operations:
        """Orders to many jobs: plan them, carry them out, watch, stop and undo them."""
        return Operations(self.store, self._actor, self._env, self.blobs)

    @cached_property
    def archive(self) -> Archive:
        """What is remembered of jobs that were pruned."""
        return Archive(self.store)

    @cached_property
    def settings(self) -> Settings:
        """What is set in the store for all processes: look at it, set, unset."""
        return Settings(self.store, self._actor, self._given_settings)

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules of this store: look at them, pause, resume, run now, remove."""
        return Schedules(self, self._actor, self._env)

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
        """What carries the awaitable calls; made when the first of them comes."""
        if self._bridge_made is None:
            import_whole("leasehold.queue.awaiting")
            from leasehold.queue.awaiting import Bridge

            with self._lock:
                self._check_open()
                self._bridge_made = self._bridge_made or Bridge(self.store)
        return self._bridge_made


_queues_here: Final[weakref.WeakSet[TaskQueue]] = weakref.WeakSet()


def _begin_in_fork() -> None:
    for queue in list(_queues_here):
        queue._begin_in_fork()  # noqa: SLF001 - it is this class's own business.


os.register_at_fork(after_in_child=_begin_in_fork)
