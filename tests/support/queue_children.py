"""What the processes do that race for the places of one limited queue, until they are killed."""

from __future__ import annotations

import os
from random import Random

from leasehold.core.gate import Gate
from leasehold.core.job import Draft
from leasehold.core.lease import Lease, LeaseRequest, Settlement
from leasehold.core.outcome import Complete, Release
from leasehold.core.records import Submitted, WorkerInfo
from leasehold.env import SYSTEM, Env
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.leasing import slots
from leasehold.stores.sqlite.writing.step import Step

TASKS = ("one", "two")


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
        elif draw < 0.5:
            drafts = []
            for _ in range(random.randint(1, 3)):
                number += 1
                drafts.append(Draft(id=f"{name}-{number}", task=random.choice(TASKS)))
            answers = store.submit(drafts, partial=True)
            _tell(tell_fd, [f"S {each.id}" for each in answers if isinstance(each, Submitted)])
        elif draw < 0.55 and number:
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
    """The same on a store that lets one too many in, to see that somebody would notice."""
    honest_slots, honest_admit = slots.free_slots, Gate.admit

    def one_too_many(step: Step, queues: tuple[str, ...]) -> dict[str, int]:
        return {queue: free + 1 for queue, free in honest_slots(step, queues).items()}

    def now_and_then(gate: Gate, draft: Draft) -> Draft:
        if int(draft.id.rpartition("-")[2]) % 5 == 0:
            return draft
        return honest_admit(gate, draft)

    vars(leasing)["free_slots"] = one_too_many
    Gate.admit = now_and_then  # type: ignore[method-assign, assignment]
    crowd(path, name, seed, tell_fd)


def _tell(tell_fd: int, lines: list[str]) -> None:
    if lines:
        os.write(tell_fd, "".join(f"{line}\n" for line in lines).encode())
