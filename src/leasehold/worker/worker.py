"""The worker: leases jobs, runs them, keeps their leases alive, and reports their outcomes."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Literal

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model.job import DEFAULT_QUEUE
from leasehold.core.model.records import WorkerLife
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.settings import RETENTION_NAMES
from leasehold.env import SYSTEM, Env
from leasehold.errors import StoreError, StoreMovedError, StoreVersionError
from leasehold.worker.banner import say_goodbye, say_hello
from leasehold.worker.emptiness import LOOK_SECONDS
from leasehold.worker.entry import entry_of
from leasehold.worker.executors.team import MAKERS, ExecutorMaker, Setup, Team
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.hooks import Hooks
from leasehold.worker.inbox import Inbox, InboxListener
from leasehold.worker.inhand import InHand
from leasehold.worker.joblines import JobLines
from leasehold.worker.leases import LeaseManager
from leasehold.worker.loop import Loop
from leasehold.worker.measured import MeasuredLeases
from leasehold.worker.prefetch import Prefetch
from leasehold.worker.printed import begin_keeping, end_keeping
from leasehold.worker.pruner import Pruner
from leasehold.worker.safelog import safe_logger
from leasehold.worker.signals import SIGNAL_SECONDS, heeded
from leasehold.worker.statistics import WorkerStatistics
from leasehold.worker.stopping import LAST_SECONDS, Stopping, StopReason, end_all
from leasehold.worker.sweep import RecoverySweep
from leasehold.worker.task import ExecutorKind, TaskRegistry
from leasehold.worker.trouble import (
    STORE_IS_GONE,
    STORE_RETRY_SECONDS_FIRST,
    STORE_RETRY_SECONDS_MAX,
)
from leasehold.worker.tuning import Tuning
from leasehold.worker.worker_rules import WorkerRules

logger = safe_logger("leasehold.worker")


class Worker:
    """Runs jobs in up to `slots` slots, in the background (`start`) or the foreground (`run`).

    It is built from `LeaseManager`, `Heartbeat` and `RecoverySweep`, as your own worker may be. A
    worker is started once; make a new one to start again.

    Lease, intervals and threshold that are not given follow the store's settings while it runs
    (`leasehold.worker.tuning`).
    """

    def __init__(
        self,
        store: Store,
        registry: TaskRegistry,
        *,
        env: Env = SYSTEM,
        queues: tuple[str, ...] = (DEFAULT_QUEUE,),
        tasks: tuple[str, ...] | None = None,
        slots: int = 4,
        worker_id: str | None = None,
        lease_seconds: float | Literal["auto"] | None = None,
        heartbeat_interval_seconds: float | None = None,
        heartbeat_failure_threshold: int | None = None,
        sweep_interval_seconds: float | None = None,
        enable_recovery: bool = True,
        retention: RetentionPolicy | None = None,
        poll_interval_seconds: float | None = None,
        grace_seconds: float = 30.0,
        max_jobs: int | None = None,
        max_memory_mb: float | None = None,
        until_empty: bool = False,
        app_version: str | None = None,
        allow_commands: bool = False,
        output_dir: str | None = None,
        executors: Mapping[ExecutorKind, ExecutorMaker] | None = None,
        hooks: Hooks | None = None,
        blobs: Blobs | None = None,
    ) -> None:
        if slots < 1:
            raise ValueError(f"a worker needs at least one slot, not {slots}")
        if allow_commands and output_dir is None:
            raise ValueError("a worker that runs commands needs an output_dir for their output")
        self.id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{env.new_id()[-8:]}"
        self._store = store
        self._registry = registry
        self._env = env
        self._output_dir = output_dir
        self._makers = {**MAKERS, **(executors or {})}
        given = {
            "lease_seconds": None if lease_seconds == "auto" else lease_seconds,
            "heartbeat_interval": heartbeat_interval_seconds,
            "heartbeat_failure_threshold": heartbeat_failure_threshold,
            "sweep_interval": sweep_interval_seconds,
            "poll_interval": poll_interval_seconds,
        }
        self._tuning = tuning = Tuning(
            store,
            {name: value for name, value in given.items() if value is not None},
            self._follow,
            self.id,
            self.request_stop,
        )
        self._until_empty = until_empty
        self._rules = WorkerRules(
            queues=queues,
            tasks=tasks,
            slots=slots,
            poll_interval_seconds=self._poll_seconds(tuning),
            max_jobs=max_jobs,
            max_memory_mb=max_memory_mb,
            allow_commands=allow_commands,
            until_empty=until_empty,
            app_version=app_version,
        )
        self._stopping = Stopping(grace_seconds)
        self._leases = leases = LeaseManager(store, self.id)
        leases.lease_seconds = tuning.lease_seconds_asked
        measured = None
        if lease_seconds == "auto":
            measured = MeasuredLeases()
            leases.lease_seconds_by_task = measured.by_task
        self._in_hand = InHand(Prefetch(slots), measured)
        self._inbox = Inbox(self._in_hand, env)
        self._heartbeat = Heartbeat(
            store,
            self.id,
            env=env,
            interval_seconds=tuning.seconds("heartbeat_interval"),
            failure_threshold=tuning.count("heartbeat_failure_threshold"),
            on_lost=self._inbox.on_lost,
            on_cancel=self._inbox.on_cancel,
            on_beat=tuning.look,
        )
        self._loop = Loop(
            self._rules,
            registry,
            leases,
            self._heartbeat,
            self._inbox,
            self._in_hand,
            self._stopping,
            hooks or Hooks(),
            env,
            tuning.note,
            blobs,
        )
        self._sweep = (
            RecoverySweep(
                store,
                env=env,
                interval_seconds=tuning.seconds("sweep_interval"),
                pause_seconds=tuning.seconds("lease_seconds"),
                hooks=hooks,
            )
            if enable_recovery
            else None
        )
        self._pruner = Pruner(store, policy=retention, env=env, actor=self.id, blobs=blobs)
        self._follows_retention = retention is None
        self._thread: threading.Thread | None = None
        self._pid: int | None = None
        """The process in which it was started: a fork of it has none of the worker's threads."""
        self._ended = threading.Condition()
        self._stop_reason: StopReason | None = None

    @property
    def running(self) -> int:
        """How many jobs it holds now."""
        return len(self._in_hand.held)

    @property
    def slots(self) -> int:
        """How many jobs it runs at once."""
        return self._rules.slots

    @property
    def free_slots(self) -> int:
        """How many slots are neither taken by jobs nor held by code that does not stop."""
        return max(0, self._rules.slots - len(self._in_hand.occupying))

    @property
    def is_running(self) -> bool:
        """Whether it was started here and has not stopped."""
        return self._thread is not None and not self._is_elsewhere and self._stop_reason is None

    @property
    def statistics(self) -> WorkerStatistics:
        settling, in_hand = self._loop.settling, self._in_hand
        return WorkerStatistics(
            running=len(in_hand.held),
            stuck=in_hand.stuck,
            completed=settling.completed,
            failed=settling.failed,
            dead=settling.dead,
            cancelled=settling.cancelled,
            handed_back=settling.handed_back,
            leases_lost=settling.lost,
            exchanges=self._loop.exchanges,
            sweep=None if self._sweep is None else self._sweep.statistics(),
            pruner=self._pruner.statistics(),
        )

    def start(self) -> None:
        """Work in the background of a program; threads that do not stop are replaced by others."""
        self._start(replace_stuck=True)

    def run(
        self, on_ready: Callable[[str], None] | None = None, lines: JobLines | None = None
    ) -> StopReason:
        """Work until stopped by SIGTERM or SIGINT, or until worn; returns why it stopped.

        The first signal lets running jobs finish within the grace; the second hands them back at
        once. `on_ready` is called with its id when it has entered the registry. While the store is
        in trouble, for example locked by another process, it waits and tries again. `lines` logs
        about its jobs, and its hooks were given to the worker.
        """
        with heeded(self._signalled):
            if not self._start_when_possible():
                return StopReason.STOPPED
            self._say_hello()
            if on_ready is not None:
                on_ready(self.id)
            while (reason := self.wait(SIGNAL_SECONDS)) is None:
                if lines is not None:
                    lines.sum_up()
        if lines is not None:
            lines.sum_up(now=True)
        say_goodbye(self.id, reason, self.statistics)
        return reason

    def stop(
        self, wait: bool = True, timeout: float | None = None, *, interrupted: bool = False
    ) -> bool:
        """Stop leasing, finish running jobs within the grace, and hand back the rest.

        `timeout` seconds replace the worker's own grace. Without `wait` it stops in the background.
        True if it has stopped. In a fork of the worker's process there is nothing to stop: it works
        in the parent. A program that was `interrupted` by Ctrl-C is told what it waits for, and
        that it need not.
        """
        self._stopping.is_unexpected_wait = interrupted
        self.request_stop(grace_seconds=timeout)
        if self._thread is None:
            return True
        if not wait:
            return not self.is_running
        if self.wait(timeout) is not None:
            return True
        self.request_stop(now=True)
        return self.wait(LAST_SECONDS) is not None

    def request_stop(self, *, now: bool = False, grace_seconds: float | None = None) -> None:
        """Ask the worker to stop, gracefully or `now`, and return at once."""
        if self._is_elsewhere:
            return  # The locks on the way may be held by threads that are not here.
        if now:
            self._stopping.hurry()
        else:
            self._stopping.ask(StopReason.STOPPED, grace_seconds)
        self._inbox.wake()

    def wait(self, timeout: float | None = None) -> StopReason | None:
        """Wait until it has stopped; None if that took longer than `timeout` seconds."""
        if self._is_elsewhere:
            return StopReason.STOPPED
        clock = self._env.clock
        end = None if timeout is None else clock.monotonic() + timeout
        with self._ended:
            while self._stop_reason is None:
                left = None if end is None else end - clock.monotonic()
                if left is not None and left <= 0:
                    break
                clock.wait(self._ended, left)
            return self._stop_reason

    def _signalled(self, number: signal.Signals) -> None:
        if number == signal.SIGINT:
            self._stopping.is_interrupted = True
        self.request_stop(now=self._stopping.is_wanted)

    def _say_hello(self) -> None:
        rules = self._rules
        say_hello(
            self.id,
            self._store,
            rules.queues,
            rules.slots,
            rules.tasks or [task.name for task in self._registry],
            allow_commands=rules.allow_commands,
        )

    @property
    def _is_elsewhere(self) -> bool:
        return self._pid is not None and os.getpid() != self._pid

    def _start_when_possible(self) -> bool:
        """Start; retry while the store is in trouble; False if it was told to stop first."""
        delay_seconds = STORE_RETRY_SECONDS_FIRST
        while not self._stopping.is_asked:
            try:
                self._start(replace_stuck=False)
            except StoreError as error:
                if isinstance(error, (*STORE_IS_GONE, StoreVersionError)):
                    raise
                if self._until_empty and isinstance(error, StoreMovedError):
                    raise  # A script that waits for an empty store would wait for a person.
                logger.warning(
                    "worker %s cannot start, and tries again in %.1f s: %s",
                    self.id,
                    delay_seconds,
                    error,
                )
                self._rest(delay_seconds)
                delay_seconds = min(2 * delay_seconds, STORE_RETRY_SECONDS_MAX)
            else:
                return True
        return False

    def _rest(self, seconds: float) -> None:
        """Wait in the main thread, which wakes up now and then to handle signals."""
        clock = self._env.clock
        end = clock.monotonic() + seconds
        with self._ended:
            while not self._stopping.is_asked and (left := end - clock.monotonic()) > 0:
                clock.wait(self._ended, min(left, SIGNAL_SECONDS))

    def _start(self, *, replace_stuck: bool) -> None:
        if self._thread is not None:
            raise RuntimeError(f"worker {self.id} was already started: make a new one")
        self._pid = os.getpid()
        self._tuning.look()
        entry = entry_of(self.id, self._rules, self._registry, self._env.now())
        life = self._store.register_worker(entry)
        self._tuning.heeds_stops = True
        begin_keeping()
        setup = Setup(self.id, self._rules.slots, self._env, self._output_dir, life.lock_fd)
        self._thread = threading.Thread(
            target=self._main,
            args=(Team(self._makers, setup), life, replace_stuck),
            name=self.id,
            daemon=True,
        )
        self._thread.start()

    def _follow(self, changed: frozenset[str]) -> None:
        """Apply the settings now in force."""
        tuning = self._tuning
        self._leases.lease_seconds = tuning.lease_seconds_asked
        self._heartbeat.tune(
            interval_seconds=tuning.seconds("heartbeat_interval"),
            failure_threshold=tuning.count("heartbeat_failure_threshold"),
        )
        if self._sweep is not None:
            self._sweep.tune(
                interval_seconds=tuning.seconds("sweep_interval"),
                pause_seconds=tuning.seconds("lease_seconds"),
            )
        if self._follows_retention and changed & RETENTION_NAMES:
            self._pruner.hurry()
        self._loop.poll_interval_seconds = self._poll_seconds(tuning)
        # The event that it waits for may have happened.
        self._inbox.on_ready()

    def _poll_seconds(self, tuning: Tuning) -> float:
        """How long it waits before it looks again; with `until_empty` it looks often."""
        seconds = tuning.seconds("poll_interval")
        return min(seconds, LOOK_SECONDS) if self._until_empty else seconds

    def _main(self, team: Team, life: WorkerLife, replace_stuck: bool) -> None:
        reason = StopReason.STORE_LOST
        unsubscribe: Callable[[], None] | None = None
        try:
            unsubscribe = self._store.subscribe(InboxListener(self._inbox, self._heartbeat))
            self._heartbeat.start()
            if self._sweep is not None:
                self._sweep.start()
            self._pruner.start()
            reason = self._loop.run(team, replace_stuck=replace_stuck)
        except BaseException:
            logger.exception(
                "worker %s stopped after an unexpected error; its jobs are handed back", self.id
            )
        finally:
            # In every case, wake the threads that wait for its end.
            self._shut_down(team, life, unsubscribe)
            end_keeping()
            with self._ended:
                self._stop_reason = reason
                self._ended.notify_all()

    def _shut_down(
        self, team: Team, life: WorkerLife, unsubscribe: Callable[[], None] | None
    ) -> None:
        """End everything in the order in which each still needs the next."""
        steps: tuple[Callable[[], object] | None, ...] = (
            unsubscribe,
            self._pruner.stop,
            None if self._sweep is None else self._sweep.stop,
            self._heartbeat.stop,
            # Children must be gone before the worker's sign of life is.
            team.close,
            life.close,
        )
        end_all(self.id, filter(None, steps))
