"""The world: a virtual clock, processes that can die or stand still, and who acts next.

One thread runs everything. An actor's step does a little work and answers how long to wait until
the next. While a call is on its way, the world goes on: other actors take their steps inside the
delayed one's call, which is how requests overtake each other. Each actor is in at most one step, so
this nests no deeper than there are actors.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from leasehold.core.contract.store import Store
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError
from leasehold.testing.simulator.calllog import Applied, CallLog, LoggedCall
from leasehold.testing.simulator.faults import Fault, Strike, Swarm

STEP_SECONDS_MIN = 0.001


class ProcessCrashedError(BaseException):
    """Unwinds the work of a crashed process. No code of a dead process may catch it."""


@dataclass(slots=True, eq=False)
class Process:
    """What crashes and stands still as a whole; it forgets everything when it dies."""

    name: str
    start: Callable[[Process, World], None]
    """Makes its actors, at first and again whenever it is restarted."""
    may_crash: bool = True
    incarnation: int = 0
    alive: bool = False
    paused_until: float = 0.0

    @property
    def worker_name(self) -> str:
        """Under what name this incarnation leases."""
        return f"{self.name}.{self.incarnation}"


@dataclass(slots=True, eq=False)
class Actor:
    """One thread of a process."""

    process: Process
    step: Callable[[], float]
    incarnation: int
    due: float = 0.0
    busy: bool = False
    woken: bool = False

    @property
    def lives(self) -> bool:
        return self.process.alive and self.process.incarnation == self.incarnation


@dataclass(slots=True)
class Omitted:
    """The omissions of a shrinking run."""

    faults: frozenset[Fault] = frozenset()
    processes: frozenset[str] = frozenset()
    strikes: frozenset[Strike] = frozenset()


@dataclass(slots=True)
class World:
    """Everything that one run shares."""

    seed: int
    store: Store
    env: Env
    clock: ManualClock
    swarm: Swarm
    omitted: Omitted
    steps_max: int
    random: Random = field(init=False)
    log: CallLog = field(default_factory=CallLog)
    steps: int = 0
    fired: Counter[Fault] = field(default_factory=Counter)
    strikes: list[Strike] = field(default_factory=list)
    quiet: bool = False
    """Faults have stopped, and no actor asks for anything new."""
    processes: list[Process] = field(default_factory=list)
    on_applied: list[Callable[[Applied], None]] = field(default_factory=list)
    _events: list[tuple[float, float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _streams: dict[str, Random] = field(default_factory=dict)
    _drawn: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = self.stream("world")

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def stream(self, name: str) -> Random:
        """A generator of its own, so that leaving one actor out does not change the others."""
        if name not in self._streams:
            self._streams[name] = Random(f"{self.seed}/{name}")
        return self._streams[name]

    # -- faults ------------------------------------------------------------------------------

    def draw(self, fault: Fault, where: str) -> Strike | None:
        """Whether this fault would strike at this opportunity; it has only if it is `noted`."""
        stream = f"{where}/{fault}"
        self._drawn[stream] += 1
        strike = (stream, self._drawn[stream])
        chance = 0.0 if self.quiet else self.swarm.chances.get(fault, 0.0)
        if self.stream(stream).random() >= chance:
            return None
        if fault in self.omitted.faults or strike in self.omitted.strikes:
            return None
        return strike

    def note(self, fault: Fault, strike: Strike) -> None:
        self.fired[fault] += 1
        self.strikes.append(strike)

    def strikes_now(self, fault: Fault, where: str) -> bool:
        """Whether this fault strikes at this opportunity."""
        strike = self.draw(fault, where)
        if strike is not None:
            self.note(fault, strike)
        return strike is not None

    def crash(self, process: Process) -> None:
        """Let a process die. It is restarted later, unless the run becomes quiet first."""
        process.alive = False
        self.at(self.now + self.random.uniform(0.1, 30.0), lambda: self.start(process))

    def pause(self, process: Process) -> None:
        """Let a process stand still for a while."""
        seconds = self.random.uniform(0.1, self.swarm.pause_seconds_max)
        process.paused_until = max(process.paused_until, on_the_clock(self.now + seconds))

    def wait_while_paused(self, process: Process) -> None:
        """Let the others go on until a process that stands still comes back."""
        while process.paused_until > self.now:
            self.run_until(process.paused_until)

    def check_alive(self, process: Process, incarnation: int) -> None:
        """Said by code of a process when the world comes back to it."""
        if not process.alive or process.incarnation != incarnation:
            raise ProcessCrashedError

    # -- processes and actors ----------------------------------------------------------------

    def add(self, process: Process) -> None:
        if process.name not in self.omitted.processes:
            self.processes.append(process)
            self.start(process)

    def start(self, process: Process) -> None:
        if not process.alive and not self.quiet:
            process.alive = True
            process.incarnation += 1
            process.start(process, self)

    def act(self, process: Process, step: Callable[[], float]) -> Actor:
        """Let a new thread of a process take its first step soon."""
        actor = Actor(process, step, process.incarnation)
        self._schedule(actor, self.random.uniform(0.0, 1.0))
        return actor

    def wake(self, actor: Actor) -> None:
        """Let an actor take its next step now, or as soon as it ends the one it is in."""
        if actor.busy:
            actor.woken = True
        elif actor.lives:
            self._schedule(actor, 0.0)

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        when = on_the_clock(when)
        heapq.heappush(self._events, (when, self.random.random(), next(self._numbers), action))

    def for_process(self, process: Process, seconds: float, action: Callable[[], None]) -> None:
        """Do something inside a process in so many seconds, unless it died; when it is awake."""
        incarnation = process.incarnation

        def act() -> None:
            if process.alive and process.incarnation == incarnation:
                if process.paused_until > self.now:
                    self.at(process.paused_until, act)
                else:
                    action()

        self.at(self.now + seconds, act)

    def _schedule(self, actor: Actor, seconds: float) -> None:
        due = actor.due = on_the_clock(self.now + max(seconds, STEP_SECONDS_MIN))
        self.at(due, lambda: self._run(actor, due))

    def _run(self, actor: Actor, due: float) -> None:
        # An actor that was woken meanwhile has another time to act.
        if not actor.lives or actor.busy or actor.due != due:
            return
        process = actor.process
        if process.paused_until > self.now:
            self._schedule(actor, process.paused_until - self.now)
            return
        self.steps += 1
        if process.may_crash and self.strikes_now(Fault.CRASH_IDLE, f"{process.name}/steps"):
            self.crash(process)
            return
        actor.busy = True
        try:
            seconds = actor.step()
        except ProcessCrashedError:
            return
        finally:
            actor.busy = False
        if actor.lives:
            self._schedule(actor, 0.0 if actor.woken else seconds)
            actor.woken = False

    # -- time --------------------------------------------------------------------------------

    def run_until(self, when: float) -> None:
        """Let everything happen that happens until then."""
        when = on_the_clock(when)
        while self._events and self._events[0][0] <= when and self.steps < self.steps_max:
            due, _, _, action = heapq.heappop(self._events)
            self._pass_time(due)
            action()
        self._pass_time(when)

    def run_steps(self) -> None:
        """Let everything happen until the steps are used up."""
        while self._events and self.steps < self.steps_max:
            due, _, _, action = heapq.heappop(self._events)
            self._pass_time(due)
            action()

    def _pass_time(self, until: float) -> None:
        if until > self.now:
            self.clock.advance(until - self.now)

    # -- the store ---------------------------------------------------------------------------

    def apply(self, call: LoggedCall) -> Applied:
        """Let the store carry out a call, here and now."""
        try:
            answer = getattr(self.store, call.method)(**call.arguments)
        except LeaseholdError as error:
            answer = error
        applied = Applied(
            len(self.log.applied),
            call.number,
            self.steps,
            call.process,
            call.method,
            call.arguments,
            self.clock.reading(),
            self.store.now(),
            answer,
            {(held.job_id, held.lease_version): held for held in self.store.stuck(0.0)},
        )
        self.log.applied.append(applied)
        for listener in self.on_applied:
            listener(applied)
        return applied


def on_the_clock(moment: float) -> float:
    """The same moment in whole microseconds, so that the clock can show it exactly."""
    return round(moment, 6)
