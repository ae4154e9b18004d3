"""What the processes do that race for the slots of keys, until they are killed."""

from __future__ import annotations

from random import Random

from leasehold.core.model import key_limits
from leasehold.core.model.job import Draft
from support.victims import race

TASKS = ("one", "two")
KEYS = ("a", "a", "b", None)


def crowd(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Race with jobs of three kinds of keys and three priorities."""
    race(path, name, seed, tell_fd, _new_job)


def _new_job(job_id: str, random: Random) -> Draft:
    return Draft(
        id=job_id,
        task=random.choice(TASKS),
        limit_key=random.choice(KEYS),
        priority=random.choice([20, 50, 80]),
        max_retries=1000,
    )


def crowd_carelessly(path: str, name: str, seed: int, tell_fd: int) -> None:
    """The same on a store that lets one too many run, to see that somebody would notice."""

    honest = key_limits.free_slots

    def one_too_many(limit: int, running: int) -> int:
        return honest(limit, running) + 1

    vars(key_limits)["free_slots"] = one_too_many
    crowd(path, name, seed, tell_fd)
