"""Operators: people who cancel, replay, discard and reprioritize, and look at what there is."""

from __future__ import annotations

from leasehold.core.model.job import Job
from leasehold.errors import LeaseholdError
from leasehold.testing.simulator.board import Board
from leasehold.testing.simulator.channel import channel
from leasehold.testing.simulator.producers import QUEUES
from leasehold.testing.simulator.world import Process, World
from leasehold.worker.supervisor import Supervisor
from leasehold.worker.sweep import RecoverySweep


def operator(name: str, board: Board) -> Process:
    """A person at a terminal."""

    def start(process: Process, world: World) -> None:
        world.act(process, Operator(world, process, board).step)

    return Process(name, start)


class Operator:
    """Does now this, now that, to jobs it has heard of."""

    def __init__(self, world: World, process: Process, board: Board) -> None:
        self._world = world
        self._name = process.name
        self._board = board
        self._random = world.stream(process.name)
        self._store = channel(world, process)
        self._supervisor = Supervisor(self._store)
        self._sweep = RecoverySweep(self._store, env=world.env)

    def step(self) -> float:
        actions = (
            (self._cancel, 3),
            (self._replay, 4),
            (self._discard, 3),
            (self._reprioritize, 3),
            (self._requeue_stuck, 1),
            (self._look, 3),
            (self._sweep.scan_and_recover, 1),
            (self._store.promote, 1),
        )
        chosen = self._random.choices([a for a, _ in actions], [weight for _, weight in actions])[0]
        try:
            if self._board.ids:
                chosen()
        except LeaseholdError:
            # Refused, or without an answer: a person shrugs and goes on.
            pass
        return self._random.uniform(0.2, 6.0)

    def _cancel(self) -> None:
        ids = self._board.some_ids(self._random)
        self._store.cancel(ids, reason="unwanted", actor=self._name)

    def _replay(self) -> None:
        ids = self._board.some_ids(self._random, most=6)
        reset = self._random.random() < 0.5
        self._store.replay(ids, reset_attempts=reset, actor=self._name)

    def _discard(self) -> None:
        ids = self._board.some_ids(self._random, most=4)
        for answer in self._store.discard(ids, actor=self._name):
            if isinstance(answer, Job):
                self._board.discarded.append(answer.id)

    def _reprioritize(self) -> None:
        [job_id] = self._board.some_ids(self._random, most=1)
        self._store.reprioritize(job_id, self._random.choice((0, 50, 100)), actor=self._name)

    def _requeue_stuck(self) -> None:
        stuck = self._supervisor.find_stuck(self._world.swarm.lease_seconds / 2)
        reset = self._random.random() < 0.5
        self._supervisor.requeue(stuck[:1], reset_attempts=reset)

    def _look(self) -> None:
        if self._random.random() < 0.3:
            self._store.stats(self._random.choice((None, *QUEUES)))
        else:
            self._store.get(self._board.some_ids(self._random, most=1)[0])
