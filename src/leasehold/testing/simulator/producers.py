"""Producers: submit jobs, and try again until they know that each was taken."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import msgspec

from leasehold.core.model.job import Draft
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear, RetryPolicy
from leasehold.errors import LeaseholdError, StoreError
from leasehold.testing.simulator.board import Board
from leasehold.testing.simulator.channel import channel
from leasehold.testing.simulator.world import Process, World

QUEUES = ("default", "bulk")
PACED_QUEUE = "bulk"
"""The queue that has start rates, in runs that draw some."""
TASKS = ("work", "kill", "rare")
"""A task for threads, one for processes, and one that not every worker knows."""


def producer(name: str, board: Board) -> Process:
    """A process that submits jobs."""

    def start(process: Process, world: World) -> None:
        actor = Producer(world, process, board)
        world.act(process, actor.step)

    return Process(name, start)


class Producer:
    """Submits single jobs and batches. What had no answer is submitted again."""

    def __init__(self, world: World, process: Process, board: Board) -> None:
        self._world = world
        self._board = board
        self._store = channel(world, process)
        self._random = world.stream(process.name)
        self._unanswered: Draft | None = None

    def step(self) -> float:
        random = self._random
        try:
            if self._unanswered is not None:
                self._try_again(self._unanswered)
            elif random.random() < 0.25:
                self._submit_batch()
            else:
                self._submit_one(self._draft())
        except StoreError:
            return random.uniform(0.1, 3.0)
        except LeaseholdError:
            # Refused: the id was taken (by an earlier try of ours), or the key by another job.
            self._unanswered = None
        return random.expovariate(self._world.swarm.jobs_per_minute / 60)

    def _try_again(self, draft: Draft) -> None:
        if draft.idempotency_key is not None and self._random.random() < 0.5:
            # A caller that has no id of its own draws a new one; the key makes it one job.
            draft = msgspec.structs.replace(draft, id=self._board.new_id())
        self._submit_one(draft)

    def _submit_one(self, draft: Draft) -> None:
        self._unanswered = draft
        self._store.submit([draft])
        self._unanswered = None

    def _submit_batch(self) -> None:
        drafts = [self._draft() for _ in range(self._random.randint(2, 4))]
        if self._random.random() < 0.3:
            drafts.append(msgspec.structs.replace(drafts[0], priority=40))  # its id is taken then
        if self._random.random() < 0.3:
            drafts.insert(0, Draft(id=self._board.new_id(), task="work", priority=101))
        self._store.submit(drafts, partial=self._random.random() < 0.6)

    def _draft(self) -> Draft:
        random, board = self._random, self._board
        if board.keyed and random.random() < 0.1:
            return self._with_known_key(random.choice(board.keyed))
        reused = board.discarded and random.random() < 0.3
        draft = Draft(
            id=random.choice(board.discarded) if reused else board.new_id(),
            task=random.choices(TASKS, (6, 2, 1))[0],
            payload=b'{"args":[%d],"kwargs":{}}' % random.randint(0, 9),
            queue=random.choices(QUEUES, (3, 1))[0],
            priority=random.choice((10, 50, 50, 50, 75)),
            max_retries=random.choice((0, 1, 3)),
            retry=_policy(random),
            lease_seconds=random.choice((None, None, round(self._world.swarm.lease_seconds * 0.7))),
            timeout_seconds=random.choice((None, None, 8.0)),
            start_within_seconds=random.choice((None,) * 6 + (20.0,)),
            parent_id=random.choice((None, None, "group")),
            idempotency_key=board.new_key() if random.random() < 0.3 else None,
        )
        if random.random() < 0.2:
            draft = msgspec.structs.replace(draft, delay_seconds=random.uniform(0.0, 60.0))
        elif random.random() < 0.2:
            run_at = self._world.clock.now() + timedelta(seconds=random.uniform(-5.0, 60.0))
            draft = msgspec.structs.replace(draft, run_at=run_at)
        if draft.queue == PACED_QUEUE:
            draft = msgspec.structs.replace(draft, limit_key=random.choice((None, "a", "b")))
        if draft.idempotency_key is not None:
            board.keyed.append(draft)
        return draft

    def _with_known_key(self, known: Draft) -> Draft:
        """The same job once more, or a different one under its key."""
        payload = known.payload if self._random.random() < 0.7 else b'{"args":[-1],"kwargs":{}}'
        return msgspec.structs.replace(known, id=self._board.new_id(), payload=payload)


def _policy(random: Random) -> RetryPolicy | None:
    return random.choice(
        (
            None,
            Constant(random.uniform(0.0, 10.0)),
            Linear(1.0, 3.0, 8.0),
            Delays((0.0, 5.0)),
            Exponential(0.5, 3.0, 0.5, 20.0),
        )
    )
