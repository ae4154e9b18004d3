"""What the processes do that are killed while they prune (see store_children)."""

from __future__ import annotations

from random import Random

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.stores.sqlite import SQLiteStore
from support.victims import tell

POLICY = RetentionPolicy(history_events_max=20)
EMERGENCY = Scope(emergency=True)


def submit_and_prune(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Submit jobs, complete some, and prune what has ended, for ever. Tells `S id`."""
    random = Random(seed)
    store = SQLiteStore(path)
    for turn in range(10**9):
        drafts = [Draft(id=f"{name}-{turn}-{number}", task="t") for number in range(5)]
        store.submit(drafts)
        tell(tell_fd, [f"S {draft.id}" for draft in drafts])
        request = LeaseRequest(worker=name, limit=random.randint(1, 8))
        leases = store.exchange((), request).leases
        store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
        report = store.prune(POLICY, scope=EMERGENCY, actor=name)
        while report.more:
            limit = random.randint(1, 4)
            report = store.prune(POLICY, run=report.run, scope=EMERGENCY, limit=limit, actor=name)
