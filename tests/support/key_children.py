"""What the processes do that race for the slots of keys, until they are killed."""

from __future__ import annotations

import os
from random import Random

from leasehold.core import key_limits
from leasehold.core.job import Draft
from leasehold.core.lease import Lease, LeaseRequest, Settlement
from leasehold.core.outcome import Complete, Release
from leasehold.core.records import Submitted, WorkerInfo
from leasehold.env import SYSTEM, Env
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.leasing import parking

TASKS = ("one", "two")
KEYS = ("a", "a", "b", None)


def crowd(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Submit, lease, settle, cancel and sweep, for ever; tells each job submitted and leased."""
    random = Random(seed)
    store = SQLiteStore(path, env=Env(random=random))
    now = SYSTEM.now()
    info = WorkerInfo(
        id=name, host="h", pid=os.getpid(), queues=("default",), slots=4,
        started_at=now, heartbeat_at=now,
    )  # fmt: skip
    store.register_worker(info)
    held: list[Lease] = []
    number = 0
    while True:
        draw = random.random()
        if draw < 0.1:
            store.recover()
        elif draw < 0.4:
            drafts = []
            for _ in range(random.randint(1, 3)):
                number += 1
                task, key = random.choice(TASKS), random.choice(KEYS)
                priority = random.choice([20, 50, 80])
                drafts.append(
                    Draft(
                        id=f"{name}-{number}", task=task, limit_key=key, priority=priority,
                        max_retries=1000,
                    )
                )  # fmt: skip
            answers = store.submit(drafts)
            _tell(tell_fd, [f"S {each.id}" for each in answers if isinstance(each, Submitted)])
        elif draw < 0.45 and number:
            store.cancel([f"{name}-{random.randint(1, number)}"], reason="chance", actor=name)
        else:
            settlements = [
                Settlement(
                    lease.job_id,
                    lease.version,
                    Complete() if random.random() < 0.8 else Release(),
                )
                for lease in held
                if random.random() < 0.7
            ]
            settled = {(each.job_id, each.version) for each in settlements}
            request = LeaseRequest(worker=name, limit=random.randint(1, 3), lease_seconds=3600)
            answer = store.exchange(settlements, request)
            held = [each for each in held if (each.job_id, each.version) not in settled]
            held += answer.leases
            _tell(tell_fd, [f"L {each.job_id} {each.version}" for each in answer.leases])


def crowd_carelessly(path: str, name: str, seed: int, tell_fd: int) -> None:
    """The same on a store that lets one too many run, to see that somebody would notice."""

    def one_too_many(limit: int, running: int) -> int:
        return key_limits.free_slots(limit, running) + 1

    vars(parking)["free_slots"] = one_too_many
    crowd(path, name, seed, tell_fd)


def _tell(tell_fd: int, lines: list[str]) -> None:
    if lines:
        os.write(tell_fd, "".join(f"{line}\n" for line in lines).encode())
