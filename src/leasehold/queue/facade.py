"""TaskQueue: the one object an application needs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from leasehold.blobs.place import BlobPlace
from leasehold.codec.signed import check_key
from leasehold.connect import Durability, connect
from leasehold.core.contract.completeness import whole_store
from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import Connection
from leasehold.core.model import checked
from leasehold.core.model.durations import Seconds
from leasehold.core.model.job import DEFAULT_QUEUE, Draft
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import JobError
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.settings import retention_values
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseLostError, StoreError, TransactionError
from leasehold.queue.archive import Archive
from leasehold.queue.arguments import (
    default_queue,
    folder_for_output,
    given,
    given_durations,
    names,
    open_blobs,
    queue_names,
)
from leasehold.queue.autostart import Autostart
from leasehold.queue.codecs import Codecs
from leasehold.queue.consumer import Consuming
from leasehold.queue.deadletters import DeadLetters
from leasehold.queue.drafting import Drafting
from leasehold.queue.elsewhere import no_attribute_of_queue, with_advice
from leasehold.queue.joining import Joining
from leasehold.queue.large import bytes_max
from leasehold.queue.life import QueueLife, ShutPart, begin_anew_in_forks
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.looking import Looking
from leasehold.queue.metrics import Metrics
from leasehold.queue.new_store import is_to_be_made, tell_of_new_store
from leasehold.queue.operations import Operations
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
from leasehold.queue.workermaker import WorkerMaker
from leasehold.queue.workflows import Workflows
from leasehold.worker.hooks import Hooks
from leasehold.worker.task import TaskRegistry

C = TypeVar("C")

WORKER_NAMES: Final = {
    "poll_interval": "poll_interval_seconds",
    "heartbeat_interval": "heartbeat_interval_seconds",
    "sweep_interval": "sweep_interval_seconds",
}
"""The worker's names for the same settings."""
MADE_WHEN_ASKED_FOR: Final = ("dead_letters", "operations", "archive", "settings", "schedules")
"""Parts that are attributes, each made for the store."""
ASK_THE_STORE: Final = ("_looking", "_queues", "_orders", "_metrics", "_retention", "_upkeep")
"""Parts that need nothing but the store."""
INTERNAL: Final = frozenset(
    {
        *("bridge", "codec_for", "registry", "ready"),
        *("submit_call", "asubmit_call", "result_of", "aresult_of"),
        *("lease_request", "try_lease", "hand_back"),
    }
)
"""Attributes of a TaskQueue that only its own faces use."""


class TaskQueue(QueueLife):
    """Submit functions as background jobs, run them, and follow their results.

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
    known. In the process that is the application they start automatically, a second after its first
    task was defined; with `autostart=True` they do so in any process that imports it, and with
    `False` only by `start()` and `with` (see docs/workers.md).

    They serve `queues` ("*" for all of the store), or, if none are given, "default" and the queues
    of its tasks. Jobs go to the first of `queues` unless told otherwise.

    `client` names the submitter, for queues that limit the rate of each client; `actor` is the name
    in audit records. `retention` says how long ended jobs are kept (see
    `leasehold.RetentionPolicy`). Values that are not given (intervals, lease, threshold, retention)
    follow `queue.settings`, which are kept in the store for all processes.

    `blobs` says where payloads and results over 256 KiB are kept: a folder, or `s3://bucket/prefix`;
    by default a folder beside the database. With `blobs=False` they are refused.

    In a process forked from the one that made it, a queue submits, reads and waits as far as its
    store can be used there; the workers remain the parent's, and none are started to replace them.

    Command jobs run only with `allow_commands`; what they print is kept in files under
    `output_dir`, by default a folder beside the database.
    """

    @with_advice
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
        checked.at_least(0, "num_workers", num_workers)
        queue_names(queues)
        if queues is not None and not queues:
            raise ValueError("queues must name at least one queue")
        hooks = {
            "on_submit": on_submit,
            "on_start": on_start,
            "on_success": on_success,
            "on_failure": on_failure,
            "on_dead": on_dead,
            "on_lease_lost": on_lease_lost,
            "on_progress": on_progress,
        }
        for name, hook in hooks.items():
            checked.function_or_none(name, hook)
        if pickle_key is not None:
            check_key(pickle_key)
        self.url = os.fspath(url) if isinstance(url, str | os.PathLike) else None
        """The path or URL it was made with; None if that was a store."""
        self._given_store = None if isinstance(url, str | os.PathLike) else whole_store(url)
        self._durability: Durability | None = durability
        self._blob_place: BlobPlace = blobs
        self._policy = retention
        self._env = env
        self._actor = checked.text("actor", actor)
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
            default_fields={
                "queue": default,
                **given(client=checked.text_or_none("client", client)),
            },
            pickle_key=pickle_key,
            runs_here=num_workers > 0,
        )
        self._autostart = Autostart(self._start_workers, autostart)
        if num_workers and env is SYSTEM:  # With an injected clock, no time passes on its own.
            self._tasks.on_task = self._autostart.begin
        self._submitting = Submitting(self, self._tasks, self.bridge)
        self._tasks.submitting = self._submitting
        self._open()
        begin_anew_in_forks(self)

    def _open(self) -> None:
        """Open the store and create everything that uses it; tasks outlive it."""
        env, actor, lifecycle = self._env, self._actor, self._lifecycle
        store = self._given_store
        if store is None:
            assert self.url is not None
            is_new = is_to_be_made(self.url)
            store = connect(self.url, env=env, durability=self._durability, retention=self._policy)
            self._is_new_untold = is_new and not tell_of_new_store(store)
        self.store = store
        self.blobs = open_blobs(store, self._blob_place, env, close=self._given_store is None)
        """Where large payloads and results are kept; None if they are refused."""
        self.ready = Ready(store, env)
        """Signals when jobs may be available."""
        self._worker = None
        self._embedded_in = None
        self._bridge_made = None
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
            # Only remote stores have one: their token may be limited to some queues.
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
        self._queues = Queues(store, actor, self._looking, lambda: self._worker)
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
        for name in MADE_WHEN_ASKED_FOR:
            vars(self).pop(name, None)
        self._closed = False

    def _replace_parts(self, part: ShutPart) -> None:
        vars(self).update(dict.fromkeys((*MADE_WHEN_ASKED_FOR, *ASK_THE_STORE), part))

    def __dir__(self) -> list[str]:
        """The names for applications; the parts behind them would only clutter a prompt."""
        public = (name for name in super().__dir__() if not name.startswith("_"))
        return [name for name in public if name not in INTERNAL]

    def __repr__(self) -> str:
        state = ", shut down" if self._closed else ""
        return f"TaskQueue({self.store!r}, num_workers={self._num_workers}{state})"

    if not TYPE_CHECKING:  # Type checkers should see only the attributes that exist.

        def __getattr__(self, name):
            no_attribute_of_queue(self, name)

    @overload
    def connect(self, kind: None = None) -> Connection: ...
    @overload
    def connect(self, kind: type[C]) -> C: ...
    def connect(self, kind: type[Any] | None = None) -> Any:
        """A connection to this queue's own database, for your own tables beside the jobs.

        Jobs submitted with `connection=` inside `with connection:` are committed together with the
        rows written there, or not at all. With SQLite it is an `apsw.Connection`, with PostgreSQL a
        `psycopg.Connection`: pass the class as `kind`, and type checkers know all of its methods.
        Close it when you are done, and use it from one thread at a time.
        """
        self._check_open()
        self._ensure_workers()
        connection = local_part(self.store, "connect()").connect()
        if kind is None or isinstance(connection, kind):
            return connection
        connection.close()
        bases = type(connection).__mro__
        driver = next(base for base in bases if not base.__module__.startswith("leasehold."))
        raise TransactionError(
            f"connections to {self.store} are no {kind.__module__}.{kind.__qualname__}, but "
            f"{driver.__module__}.{driver.__qualname__}"
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
        """Summaries of pruned jobs."""
        return Archive(self.store)

    @cached_property
    def settings(self) -> Settings:
        """The settings in the store, for all processes: read, set, unset."""
        return Settings(self.store, self._actor, self._given_settings)

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules of this store: look at them, pause, resume, run now, remove."""
        return Schedules(self, self._actor, self._env)
