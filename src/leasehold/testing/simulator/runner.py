"""One seed, one run: chaos, then quiet, then judgement."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from leasehold.core.contract.store import Store
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.testing.simulator.board import Board
from leasehold.testing.simulator.calllog import Applied, CallLog
from leasehold.testing.simulator.checker import Checker
from leasehold.testing.simulator.faults import Fault, Strike, Swarm
from leasehold.testing.simulator.holders import holder
from leasehold.testing.simulator.model import ViolationError
from leasehold.testing.simulator.operators import operator
from leasehold.testing.simulator.producers import PACED_QUEUE, producer
from leasehold.testing.simulator.workers import SimulatedWorker, worker
from leasehold.testing.simulator.world import Omitted, World

MakeStore = Callable[[Env], Store]

STEPS_DEFAULT = 500
QUIET_STEPS_MAX = 50_000
BACKOFF_SECONDS_MAX = 20.0
DELAY_SECONDS_MAX = 60.0
UNRUNNABLE_SECONDS_MAX = 300.0


@dataclass(slots=True)
class RunReport:
    """The result of one run."""

    seed: int
    steps: int
    log: CallLog
    fired: Counter[Fault]
    strikes: list[Strike]
    seen: Counter[str]
    """The events that the checker saw."""
    processes: list[str]
    violation: ViolationError | None = None

    @property
    def arguments(self) -> str:
        """How to run it again from the shell; the omissions of a shrunk run are not in here."""
        return f"--seed {self.seed} --steps {self.steps}"

    def explain(self) -> str:
        """A failure in words: the promise, the seed to replay it, and the job's last events."""
        if self.violation is None:
            return f"seed {self.seed}: all promises kept in {len(self.log.applied)} calls"
        violation = self.violation
        at = len(self.log.applied) - 1 if violation.at is None else violation.at
        lines = [
            f"seed {self.seed}, {self.steps} steps: {violation}",
            f"replay: python -m leasehold.testing.simulator {self.arguments}",
            *(f"  {applied}" for applied in self.log.tail(violation.job_id, at)),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to run."""

    seed: int
    steps: int = STEPS_DEFAULT
    faults: bool = True
    omitted: Omitted = field(default_factory=Omitted)


def simulate(scenario: Scenario, make_store: MakeStore) -> RunReport:
    """Run a scenario on a new store, and judge it."""
    clock = ManualClock()
    env = Env(clock=clock, random=Random(f"{scenario.seed}/env"))
    store = make_store(Env(clock=clock, random=Random(f"{scenario.seed}/store")))
    swarm = Swarm.draw(Random(f"{scenario.seed}/swarm"))
    if not scenario.faults:
        swarm.chances.clear()
    world = World(scenario.seed, store, env, clock, swarm, scenario.omitted, scenario.steps)
    try:
        checker = Checker(world.log, store)
        pace = (swarm.starts_per_second, swarm.key_starts_per_second)
        if any(pace):
            rules = QueueConfig(starts_per_second=pace[0], key_starts_per_second=pace[1])
            store.create_queue(PACED_QUEUE, rules, actor="simulator")
            checker.model.paces = {PACED_QUEUE: pace}
        with _silence():
            workers = _populate(world)
            world.run_steps()
            # Two sweeps, after the pause that a jump of the clock may have begun.
            pause = timedelta(seconds=swarm.lease_seconds + 2 * swarm.sweep_seconds)
            checker.quiet_from_now(pause)
            quiet_in_time = _come_to_rest(world, workers)
        report = RunReport(
            scenario.seed,
            scenario.steps,
            world.log,
            world.fired,
            world.strikes,
            checker.model.seen,
            [process.name for process in world.processes],
        )
        try:
            checker.check()
        except ViolationError as violation:
            report.violation = violation
        if report.violation is None and not quiet_in_time:
            report.violation = ViolationError("L1", "faults have stopped, but it did not rest")
        return report
    finally:
        store.close()


def _populate(world: World) -> list[SimulatedWorker]:
    swarm, board, workers = world.swarm, Board(), list[SimulatedWorker]()
    for number in range(swarm.producers):
        world.add(producer(f"producer-{number}", board))
    for number in range(swarm.holders):
        world.add(holder(f"holder-{number}"))
    for number in range(swarm.operators):
        world.add(operator(f"operator-{number}", board))
    for number in range(swarm.workers):
        # One worker never dies: recovery must need no restart of anything (L2).
        is_last = number == swarm.workers - 1
        world.add(
            worker(f"worker-{number}", may_crash=not is_last, knows_all=is_last, workers=workers)
        )
    world.on_applied.append(lambda applied: _give_hints(world, workers, applied))
    _turn_the_clock(world)
    return workers


def _give_hints(world: World, workers: list[SimulatedWorker], applied: Applied) -> None:
    """Wake workers as a store would, if the hint is not lost."""
    if applied.method not in ("submit", "exchange", "replay", "recover", "cancel"):
        return
    for each in workers:
        process = each.process
        if not process.alive or world.strikes_now(Fault.HINT_LOST, process.name):
            continue
        if applied.method == "cancel":
            job_ids = list(applied.arguments["job_ids"])
            world.for_process(process, 0.01, lambda w=each, ids=job_ids: w.hear_cancel(ids))  # type: ignore[misc]
        elif applied.method != "exchange" or applied.arguments["settlements"]:
            world.for_process(process, 0.01, each.hear_ready)


def _turn_the_clock(world: World) -> None:
    """Now and then, somebody sets the wall clock, or the machine sleeps."""
    seconds = world.swarm.step_seconds_max

    def turn() -> None:
        if world.quiet:
            return
        # A step like any other, so that a world without actors comes to its end too.
        world.steps += 1
        if world.strikes_now(Fault.CLOCK_FORWARD, "clock"):
            world.clock.step_wall_clock(world.random.uniform(0.0, seconds))
        elif world.strikes_now(Fault.CLOCK_BACK, "clock"):
            world.clock.step_wall_clock(-world.random.uniform(0.0, min(seconds, 60.0)))
        elif world.strikes_now(Fault.ASLEEP, "clock"):
            world.clock.suspend(world.random.uniform(0.0, seconds))
        world.at(world.now + world.random.uniform(0.5, 5.0), turn)

    world.at(world.now, turn)


# -- the quiet end -----------------------------------------------------------------------------


def _come_to_rest(world: World, workers: list[SimulatedWorker]) -> bool:
    """Stop all faults; only the workers that live go on, until nothing is left to do."""
    world.quiet = True
    world.steps_max = world.steps + QUIET_STEPS_MAX
    alive = [each for each in workers if each.process.alive]
    for process in world.processes:
        process.paused_until = 0.0
        if all(each.process is not process for each in alive):
            process.alive = False
    for each in alive:
        each.learn_all()
    limit = world.now + rest_seconds(world)
    while world.now < limit and world.steps < world.steps_max:
        world.run_until(world.now + 5.0)
        if _is_at_rest(world.store):
            return True
    return False


def rest_seconds(world: World) -> float:
    """Within how many seconds everything must have ended once faults have stopped.

    Every lease expires and is swept, and then the one worker that is left may have to run every
    job's every attempt, one after the other. While the wall clock is behind the store's, that goes
    at half its pace.
    """
    swarm = world.swarm
    counts = world.store.stats().counts
    live = sum(counts.get(status, 0) for status in Status if not status.is_terminal)
    expiry = 2 * swarm.lease_seconds + 2 * swarm.sweep_seconds
    attempt = swarm.run_seconds_max + BACKOFF_SECONDS_MAX + expiry
    return 2 * (DELAY_SECONDS_MAX + UNRUNNABLE_SECONDS_MAX + (4 * live + 1) * attempt)


def _is_at_rest(store: Store) -> bool:
    counts = store.stats().counts
    return not any(counts.get(status, 0) for status in Status if not status.is_terminal)


@contextmanager
def _silence() -> Iterator[None]:
    """A simulated disaster fills no log."""
    logger = logging.getLogger("leasehold")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
