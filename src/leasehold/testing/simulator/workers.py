"""Workers: the production loop, heartbeat and sweep, with an executor whose code takes no time.

The loop's own thread, the heartbeat's and the sweep's are three actors of one process, so that they
overtake each other wherever they talk to the store.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from leasehold.codec import CallCodec
from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Cancel, Outcome
from leasehold.errors import LeaseLostError, StoreError
from leasehold.testing.simulator.channel import channel
from leasehold.testing.simulator.outcomes import draw_outcome
from leasehold.testing.simulator.producers import QUEUES
from leasehold.testing.simulator.world import Actor, Process, World
from leasehold.worker.executors.team import Setup, Team
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.hooks import Hooks
from leasehold.worker.inbox import Inbox
from leasehold.worker.inhand import InHand
from leasehold.worker.leases import LeaseManager
from leasehold.worker.loop import Loop
from leasehold.worker.prefetch import Prefetch
from leasehold.worker.run import Run
from leasehold.worker.stopping import Stopping
from leasehold.worker.sweep import RecoverySweep
from leasehold.worker.task import ExecutorKind, TaskDefinition, TaskRegistry
from leasehold.worker.worker_rules import WorkerRules

POLL_SECONDS = 2.0
STOP_SECONDS_MAX = 3.0
"""How long simulated code takes to end when it is told to."""


def worker(
    name: str, *, may_crash: bool, knows_all: bool, workers: list[SimulatedWorker]
) -> Process:
    """A process that works; `workers` is where it enters each incarnation."""

    def start(process: Process, world: World) -> None:
        workers.append(SimulatedWorker(world, process, knows_all=knows_all))

    return Process(name, start, may_crash=may_crash)


class SimulatedWorker:
    """One incarnation of a worker process, put together as `leasehold.worker.worker` does it."""

    def __init__(self, world: World, process: Process, *, knows_all: bool) -> None:
        self._world = world
        self.process = process
        random = world.stream(process.name)
        store, env, swarm = channel(world, process), world.env, world.swarm
        name, slots = process.worker_name, random.randint(1, 4)
        self._registry = TaskRegistry()
        for task in ("work", "kill", "rare") if knows_all else ("work", "kill"):
            self._registry.register(_definition(task))
        in_hand = InHand(Prefetch(slots))
        self.inbox = Inbox(in_hand, env)
        self._heartbeat_seconds = swarm.lease_seconds / 5
        self._heartbeat = Heartbeat(
            store,
            name,
            env=env,
            interval_seconds=self._heartbeat_seconds,
            on_lost=self._on_lost,
            on_cancel=self._on_cancel,
        )
        self._loop = Loop(
            WorkerRules(
                queues=QUEUES,
                tasks=None,
                slots=slots,
                poll_interval_seconds=POLL_SECONDS,
                max_jobs=None,
                max_memory_mb=None,
                allow_commands=False,
            ),
            self._registry,
            LeaseManager(store, name, lease_seconds=swarm.lease_seconds),
            self._heartbeat,
            self.inbox,
            in_hand,
            Stopping(grace_seconds=5.0),
            Hooks(),
            env,
        )
        executor = SimulatedExecutor(world, process, random, self.wake)
        makers: dict[ExecutorKind, Callable[[Setup], SimulatedExecutor]] = {
            "thread": lambda _: executor,
            "process": lambda _: executor,
        }
        self._loop.begin(Team(makers, Setup(name, slots, env)), replace_stuck=True)
        self._sweep = RecoverySweep(
            store, env=env, interval_seconds=swarm.sweep_seconds, pause_seconds=swarm.lease_seconds
        )
        self._hurry: set[str] = set()
        self._actors: dict[str, Actor] = {
            "loop": world.act(process, self._tick),
            "heartbeat": world.act(process, self._beat),
            "sweep": world.act(process, self._sweep.step),
        }

    def learn_all(self) -> None:
        """A new version is deployed that knows every task."""
        self._registry.register(_definition("rare"))

    def wake(self) -> None:
        self._world.wake(self._actors["loop"])

    def hear_ready(self) -> None:
        """The store's hint that there may be jobs."""
        self.inbox.on_ready()
        self.wake()

    def hear_cancel(self, job_ids: list[str]) -> None:
        """The store's hint that somebody wants to stop these."""
        self._hurry.update(job_ids)
        self._world.wake(self._actors["heartbeat"])

    def _tick(self) -> float:
        try:
            return self._loop.tick()
        except StoreError:
            # As `Loop.run` does with a tick that broke; other errors are ours to see.
            return POLL_SECONDS

    def _beat(self) -> float:
        hurry, self._hurry = self._hurry, set()
        self._heartbeat.beat(self._heartbeat_seconds / 2, hurry)
        return self._heartbeat_seconds

    def _on_lost(self, lease: Lease, error: LeaseLostError | StoreError) -> None:
        self.inbox.on_lost(lease, error)
        self.wake()

    def _on_cancel(self, lease: Lease, reason: str) -> None:
        self.inbox.on_cancel(lease, reason)
        self.wake()


class SimulatedExecutor:
    """Runs nothing: the outcome of each run is drawn, and comes after a drawn time."""

    def __init__(
        self, world: World, process: Process, random: Random, wake: Callable[[], None]
    ) -> None:
        self._world = world
        self._process = process
        self._random = random
        self._wake = wake
        self._waiting: list[Run] = []

    def start(self, run: Run) -> None:
        self._waiting.append(run)
        self._later(self._random.choice((0.0, 0.05, 0.3)), lambda: self._begin(run))

    def stop(self, run: Run) -> None:
        outcome: Outcome = Cancel("stopped")
        if run in self._waiting:
            self._waiting.remove(run)
        self._later(self._random.uniform(0.0, STOP_SECONDS_MAX), lambda: self._finish(run, outcome))

    def take_back(self) -> list[Run]:
        taken, self._waiting = self._waiting, []
        return taken

    def close(self) -> None:
        """There is nothing to free."""

    def _begin(self, run: Run) -> None:
        if run not in self._waiting:
            return
        self._waiting.remove(run)
        if (refusal := run.refusal()) is not None:
            self._finish(run, refusal)
            return
        run.started = self._world.now
        if self._random.random() < 0.3:
            run.context.progress(1.0, message="begun")
            run.context.log("begun")
        seconds = self._random.uniform(0.0, self._world.swarm.run_seconds_max)
        outcome = draw_outcome(self._random, quiet=self._world.quiet)
        self._later(seconds, lambda: self._finish(run, outcome))
        self._wake()

    def _finish(self, run: Run, outcome: Outcome) -> None:
        if not run.ended:
            run.finished = self._world.now
            run.finish(outcome)
            self._wake()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._world.for_process(self._process, seconds, action)


def _nothing() -> None:
    """The code of every simulated task."""


def _definition(name: str) -> TaskDefinition:
    kind: ExecutorKind = "process" if name == "kill" else "thread"
    return TaskDefinition(name, _nothing, CallCodec(_nothing), kind)
