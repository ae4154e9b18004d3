"""What the processes have in common that use a store until they are killed (see `killing`).

Each line that they tell goes into a pipe in one write, after the store's call returned: a process
that is killed has told either everything about a call, or nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from random import Random

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.records import Submitted, WorkerInfo
from leasehold.env import SYSTEM, Env
from leasehold.stores.sqlite import SQLiteStore


def open_as_worker(path: str, name: str, random: Random) -> SQLiteStore:
    """A store with this process registered as a worker, so that its death can be proved."""
    store = SQLiteStore(path, env=Env(random=random))
    now = SYSTEM.now()
    store.register_worker(
        WorkerInfo(
            id=name, host="h", pid=os.getpid(), queues=("default",), slots=4,
            started_at=now, heartbeat_at=now,
        )
    )  # fmt: skip
    return store


def tell(tell_fd: int, lines: Iterable[str]) -> None:
    if text := "".join(f"{line}\n" for line in lines):
        os.write(tell_fd, text.encode())


def wait_to_be_killed() -> None:
    while True:
        signal.pause()


def race(
    path: str, name: str, seed: int, tell_fd: int, new_job: Callable[[str, Random], Draft]
) -> None:
    """Submit, lease, settle, cancel and sweep, for ever; tells `S id` and `L id version`.

    Leases last an hour, so that only the proof of a holder's death gives its slots back in time.
    """
    random = Random(seed)
    store = open_as_worker(path, name, random)
    held: list[Lease] = []
    number = 0
    while True:
        draw = random.random()
        if draw < 0.1:
            store.recover()
        elif draw < 0.45:
            drafts = []
            for _ in range(random.randint(1, 3)):
                number += 1
                drafts.append(new_job(f"{name}-{number}", random))
            answers = store.submit(drafts, partial=True)
            tell(tell_fd, [f"S {each.id}" for each in answers if isinstance(each, Submitted)])
        elif draw < 0.5 and number:
            store.cancel([f"{name}-{random.randint(1, number)}"], reason="chance", actor=name)
        else:
            random.shuffle(held)
            kept = held[: random.randint(0, len(held) // 2)]
            settlements = [
                Settlement(
                    each.job_id, each.version, Complete() if random.random() < 0.8 else Release()
                )
                for each in held[len(kept) :]
            ]
            request = LeaseRequest(worker=name, limit=random.randint(1, 3), lease_seconds=3600)
            answer = store.exchange(settlements, request)
            held = kept + answer.leases
            tell(tell_fd, [f"L {each.job_id} {each.version}" for each in answer.leases])
