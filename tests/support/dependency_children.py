"""Processes that submit dependents, and others that end what these wait for, until they are killed.

So few dependents are dealt with in one write that nearly every end is cut in pieces.
"""

from __future__ import annotations

from random import Random

from leasehold.core.model.job import DependencyPolicy, Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome
from leasehold.core.model.status import Status
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.tables.step import TableStep
from support.victims import open_as_worker, tell, wait_to_be_killed

AT_ONCE = 3
FAN_OUT_MAX = 10
ENOUGH_PENDING = 60
POLICIES: list[DependencyPolicy] = ["cancel", "fail", "ignore"]
OUTCOMES: list[Outcome] = [
    Complete(),
    Complete(),
    Fail(JobError("ValueError", "a bug"), retryable=False),
    Cancel("enough"),
]


def _open(path: str, name: str, random: Random) -> SQLiteStore:
    TableStep.dependents_left = AT_ONCE
    return open_as_worker(path, name, random)


def submit_dependents(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Submit a job, then jobs that depend on it, while others run it. Tells `S id`."""
    random = Random(seed)
    store = _open(path, name, random)
    number = 0
    while True:
        if store.stats().counts[Status.PENDING] > ENOUGH_PENDING:
            store.recover()
            continue
        root = f"{name}-{number}"
        store.submit([Draft(id=root, task="t")])
        ids = [root]
        for place in range(random.randint(1, FAN_OUT_MAX)):
            ids.append(f"{root}-{place}")
            needs = tuple({root, random.choice(ids[:-1])})
            policy = random.choice(POLICIES)
            store.submit(
                [Draft(id=ids[-1], task="t", depends_on=needs, on_dependency_failure=policy)]
            )
        tell(tell_fd, [f"S {job_id}" for job_id in ids])
        number += 1


def settle_at_random(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Lease and settle, with or without leasing more. Tells `L id version`."""
    random = Random(seed)
    store = _open(path, name, random)
    held: list[Settlement] = []
    while True:
        if random.random() < 0.1:
            store.recover()
        limit = random.randint(0, 4)
        request = LeaseRequest(worker=name, limit=limit, lease_seconds=3600) if limit else None
        leases = store.exchange(held, request).leases
        held = [
            Settlement(lease.job_id, lease.version, random.choice(OUTCOMES)) for lease in leases
        ]
        tell(tell_fd, [f"L {lease.job_id} {lease.version}" for lease in leases])


def end_and_stop_half_way(path: str, job_id: str, tell_fd: int) -> None:
    """End a job that many wait for, and be killed after the first of the writes that it takes."""
    store = SQLiteStore(path)

    def tell_and_wait() -> None:
        tell(tell_fd, [f"S {job_id}"])
        wait_to_be_killed()

    store._database._resolve_the_rest = tell_and_wait  # type: ignore[method-assign]
    store.cancel([job_id], reason="enough", actor="me")
