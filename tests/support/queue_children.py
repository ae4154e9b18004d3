"""What the processes do that race for the places of one limited queue, until they are killed."""

from __future__ import annotations

from random import Random

from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.rules import queue_limits
from leasehold.core.rules.gate import Gate
from support.victims import race

TASKS = ("one", "two")


def crowd(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Race with jobs of two tasks."""
    race(path, name, seed, tell_fd, _new_job)


def _new_job(job_id: str, random: Random) -> Draft:
    return Draft(id=job_id, task=random.choice(TASKS))


def crowd_carelessly(path: str, name: str, seed: int, tell_fd: int) -> None:
    """The same on a store that lets one too many in, to see that somebody would notice."""
    honest_slots, honest_admit = queue_limits.free_slots, Gate.admit

    def one_too_many(state: QueueState, config: QueueConfig, running: int) -> int:
        return honest_slots(state, config, running) + 1

    def now_and_then(gate: Gate, draft: Draft) -> Draft:
        if int(draft.id.rpartition("-")[2]) % 5 == 0:
            return draft
        return honest_admit(gate, draft)

    vars(queue_limits)["free_slots"] = one_too_many
    Gate.admit = now_and_then  # type: ignore[method-assign, assignment]
    crowd(path, name, seed, tell_fd)
