"""What the processes do that are killed while the archive gets new days and loses old ones."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from leasehold.core.model.job import Draft
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.env import Env, ManualClock
from leasehold.stores.postgres import PostgresStore
from support.victims import tell

POLICY = RetentionPolicy(cancelled_seconds=0, archive_seconds=3 * 86400.0, worth_cleaning=0)
FORCE = Scope(force=True)


def archive_by_day(url: str, name: str, seed: int, tell_fd: int) -> None:
    """Submit jobs, cancel them, and clean up, a day later each time, for ever. Tells `S id`."""
    random = Random(seed)
    clock = ManualClock()
    store = PostgresStore(url, env=Env(clock=clock))
    # The clock goes on where the killed ones have left the store's.
    clock.advance((store.now() - clock.now()).total_seconds())
    for turn in range(10**9):
        drafts = [Draft(id=f"{name}-{turn}-{number}", task="t") for number in range(3)]
        store.submit(drafts)
        tell(tell_fd, [f"S {draft.id}" for draft in drafts])
        store.cancel([draft.id for draft in drafts], reason="", actor=name)
        report = store.prune(POLICY, scope=FORCE, actor=name)
        while report.more:
            report = store.prune(POLICY, run=report.run, scope=FORCE, actor=name)
        clock.advance(max(0.0, (store.now() - clock.now()).total_seconds()))
        clock.advance(timedelta(days=random.choice((0, 1))).total_seconds())
