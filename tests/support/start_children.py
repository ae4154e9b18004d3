"""What the processes do that race for the starts of a queue and its keys, until they are killed."""

from __future__ import annotations

from random import Random

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.start_rate import StartRate
from leasehold.core.model.status import Status
from leasehold.env import to_micros
from support.victims import open_as_worker, tell

KEYS = ("a", "a", "b", None)
WAITING = 20
"""How many jobs a process lets wait: there is always more to do than may start."""


def crowd(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Lease as fast as it goes, and tell `B key moment` of each job that begins, for ever."""
    random = Random(seed)
    store = open_as_worker(path, name, random)
    held: list[Lease] = []
    keys: dict[str, str | None] = {}
    number = 0
    while True:
        if store.stats("default").counts[Status.PENDING] < WAITING:
            drafts = []
            for _ in range(WAITING):
                number += 1
                job_id = f"{name}-{random.choice('ab')}-{number}"
                keys[job_id] = random.choice(KEYS)
                priority = random.choice([20, 50, 80])
                drafts.append(Draft(id=job_id, task="t", limit_key=keys[job_id], priority=priority))
            store.submit(drafts)
        if random.random() < 0.05:
            store.recover()
        settlements = [
            Settlement(
                each.job_id, each.version, Complete() if random.random() < 0.8 else Release()
            )
            for each in held
        ]
        request = LeaseRequest(worker=name, limit=random.randint(1, 8), lease_seconds=3600)
        held = store.exchange(settlements, request).leases
        tell(tell_fd, [f"B {each.job_id} {to_micros(each.acquired_at)}" for each in held])


def crowd_carelessly(path: str, name: str, seed: int, tell_fd: int) -> None:
    """The same on a store that lets one too many start, to see that somebody would notice."""
    honest = StartRate.free

    def one_too_many(rate: StartRate, full_at: int, *, now: int) -> int:
        return honest(rate, full_at, now=now) + 1

    StartRate.free = one_too_many  # type: ignore[method-assign, assignment]
    crowd(path, name, seed, tell_fd)
