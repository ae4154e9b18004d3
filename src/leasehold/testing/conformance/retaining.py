"""RET-1 to RET-5, RET-10: clean-ups. Which jobs go, when, and how many per write."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.retention import (
    ABANDONED_SECONDS,
    BATCH_MAX,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import InvalidRetentionError
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    at_once,
    draft,
    get,
    kill,
    lease_all,
    lease_one,
    settle,
    submit,
)

DAY = 24 * 3600
# Short enough for a store that forgets by itself after half an hour not to be faster.
SHORT = RetentionPolicy(completed_seconds=60, cancelled_seconds=30, worth_cleaning=0)
FORCE = Scope(force=True)
EMERGENCY = Scope(emergency=True)


def complete(store: Store, *names: str, result: bytes | None = b"1") -> None:
    """Lease everything and complete the jobs of these names."""
    leases = [lease for lease in lease_all(store) if lease.job_id in names]
    assert len(leases) == len(names)
    store.exchange([Settlement(each.job_id, each.version, Complete(result)) for each in leases])


def clean(
    store: Store,
    policy: RetentionPolicy | None = SHORT,
    scope: Scope = FORCE,
    limit: int = BATCH_MAX,
) -> list[PruneReport]:
    """One whole clean-up, which must begin; what each write of it said."""
    report = store.prune(policy, scope=scope, actor="me")
    assert report.run is not None, report
    reports = []
    while report.more:
        report = store.prune(policy, run=report.run, scope=scope, limit=limit, actor="me")
        reports.append(report)
    return reports


def stored(store: Store) -> set[str]:
    return {job.id for job in store.search(JobFilter()).jobs}


def archived(store: Store) -> set[str]:
    return {job.id for job in store.search_archive(JobFilter()).jobs}


class RetainingClauses(ConformanceBase):
    def test_ret_1_what_is_old_is_archived_and_deleted(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("waits", delay_seconds=5000), draft("old"), draft("runs"))
        complete(store, "old")
        submit(store, draft("stopped"))
        store.cancel(["stopped"], reason="no need", actor="me")
        clock.advance(40)
        submit(store, draft("young"))
        complete(store, "young")
        assert sum(report.pruned for report in clean(store)) == 1
        assert (stored(store), archived(store)) == ({"waits", "old", "runs", "young"}, {"stopped"})
        clock.advance(20)
        clean(store)
        assert (stored(store), archived(store)) == ({"waits", "runs", "young"}, {"stopped", "old"})
        assert (store.history("old"), store.attempts("old"), store.log("old").lines) == ([], [], [])
        assert store.check() == []
        stats = store.stats()
        assert (stats.cleaned, stats.counts[Status.COMPLETED], stats.completed) == (2, 1, 2)

    def test_ret_1_a_job_that_ended_late_is_not_old(self, store: Store, clock: ManualClock) -> None:
        submit(store, *(draft(f"job-{number}") for number in range(5)))
        leases = {lease.job_id: lease for lease in lease_all(store)}
        settle(store, leases["job-4"], Complete())
        clock.advance(59)
        settle(store, leases["job-0"], Complete())
        clock.advance(1)
        clean(store)
        assert archived(store) == {"job-4"}
        clock.advance(59)
        clean(store)
        assert archived(store) == {"job-4", "job-0"}
        assert stored(store) == {"job-1", "job-2", "job-3"}

    def test_ret_1_a_bounded_number_per_write(self, store: Store, clock: ManualClock) -> None:
        names = [f"job-{number}" for number in range(25)]
        submit(store, *map(draft, names))
        complete(store, *names)
        clock.advance(60)
        reports = clean(store, limit=10)
        assert [report.pruned for report in reports if report.pruned] == [10, 10, 5]
        for limit in (0, BATCH_MAX + 1):
            with pytest.raises(InvalidRetentionError, match="1 to 1000"):
                store.prune(SHORT, run=1, limit=limit, actor="me")

    def test_ret_1_a_replayed_job_is_not_taken(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        store.cancel(["job"], reason="", actor="me")
        clock.advance(60)
        run = store.prune(SHORT, scope=FORCE, actor="me").run
        store.replay(["job"], reset_attempts=False, actor="me")
        while store.prune(SHORT, run=run, scope=FORCE, actor="me").more:
            pass
        assert get(store).status is Status.PENDING

    def test_ret_1_none_keeps_for_ever_and_no_archive_is_a_choice(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("done"))
        complete(store, "done")
        clock.advance(1000)
        keep = RetentionPolicy(completed_seconds=None, cancelled_seconds=None)
        assert sum(report.pruned for report in clean(store, keep)) == 0
        assert stored(store) == {"done"}
        clean(store, RetentionPolicy(completed_seconds=0, archive_seconds=0))
        assert (stored(store), archived(store)) == (set(), set())

    def test_ret_1_what_unfinished_jobs_depend_on_is_spared(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("needed"), draft("free"))
        complete(store, "needed", "free")
        submit(store, draft("waits", depends_on=("needed",), delay_seconds=90))
        clock.advance(61)
        clean(store)
        assert stored(store) == {"needed", "waits"}
        clock.advance(30)
        complete(store, "waits")
        clean(store)
        assert stored(store) == {"waits"}
        assert store.check() == []

    def test_ret_2_dead_letters_wait_for_a_person(self, store: Store, clock: ManualClock) -> None:
        dead = kill(store, "dead")
        clock.advance(1000)
        for scope in (FORCE, EMERGENCY):
            clean(store, scope=scope)
        assert get(store, "dead") == dead
        clean(store, RetentionPolicy(dead_seconds=2000))
        assert get(store, "dead") == dead
        clean(store, RetentionPolicy(dead_seconds=1000))
        assert (stored(store), archived(store)) == (set(), {"dead"})
        kill(store, "another")
        assert clean(store, scope=Scope(emergency=True, dead=True))[0].dead == 1
        assert (stored(store), archived(store)) == (set(), {"dead", "another"})

    def test_ret_3_it_waits_for_its_time(self, store: Store, clock: ManualClock) -> None:
        begun = store.now()
        assert clean(store, scope=Scope())[-1].next_due_at == begun + timedelta(days=1)
        clock.advance(DAY - 1)
        report = store.prune(SHORT, actor="me")
        assert (report.run, report.more) == (None, False)
        assert report.next_due_at == begun + timedelta(days=1)
        clock.advance(1)
        assert store.prune(SHORT, actor="me").run is not None

    def test_ret_3_one_at_a_time(self, store: Store, clock: ManualClock) -> None:
        reports = at_once(8, lambda _: store.prune(SHORT, actor="me"))
        assert len([report for report in reports if report.run is not None]) == 1
        assert len(store.cleanups()) == 1
        clock.advance(ABANDONED_SECONDS - 1)
        assert store.prune(SHORT, actor="other").run is None
        # Forced ones do not wait for their turn.
        assert store.prune(SHORT, scope=FORCE, actor="other").run is not None

    def test_ret_3_it_must_be_worth_it(self, store: Store, clock: ManualClock) -> None:
        policy = RetentionPolicy(completed_seconds=60, worth_cleaning=3)
        submit(store, draft("one"), draft("two"))
        complete(store, "one", "two")
        kill(store, "dead")
        clock.advance(60)
        assert store.prune(policy, actor="me").run is None
        assert store.cleanups() == []
        submit(store, draft("three"))
        complete(store, "three")
        clean(store, policy, Scope())
        assert stored(store) == {"dead", "three"}

    def test_ret_3_or_never_by_itself(self, store: Store) -> None:
        policy = RetentionPolicy(interval_seconds=None, worth_cleaning=0)
        assert store.prune(policy, actor="me") == PruneReport()
        clean(store, policy)

    def test_ret_4_an_emergency_takes_all_that_is_done(self, store: Store) -> None:
        dead = kill(store, "dead")
        submit(store, draft("done"), draft("runs"), draft("stopped"), draft("waits"))
        store.cancel(["stopped"], reason="", actor="me")
        settle(store, lease_one(store), Complete())
        lease_one(store)
        policy = RetentionPolicy(completed_seconds=None, cancelled_seconds=None)
        reports = clean(store, policy, EMERGENCY)
        assert sum(report.completed for report in reports) == 1
        assert sum(report.cancelled for report in reports) == 1
        assert stored(store) == {"dead", "runs", "waits"}
        assert get(store, "dead") == dead
        with pytest.raises(InvalidRetentionError, match="emergency=True"):
            Scope(dead=True)

    def test_ret_5_a_version_is_never_granted_again(self, store: Store) -> None:
        submit(store, draft(max_retries=0))
        settle(store, lease_one(store), FAILURE)
        store.replay(["job"], reset_attempts=False, actor="me")
        lease = lease_one(store)
        settle(store, lease, Complete())
        clean(store, scope=EMERGENCY)
        submit(store, draft())
        assert lease_one(store).version > lease.version

    def test_ret_10_what_was_given_up_is_done_by_the_next(
        self, store: Store, clock: ManualClock
    ) -> None:
        names = [f"job-{number}" for number in range(5)]
        submit(store, *map(draft, names))
        complete(store, *names)
        clock.advance(60)
        run = store.prune(SHORT, actor="gone").run
        store.prune(SHORT, run=run, limit=2, actor="gone")
        assert len(stored(store)) == 3
        assert stored(store) | archived(store) == set(names)
        assert store.check() == []
        clock.advance(ABANDONED_SECONDS)
        clean(store, scope=Scope())
        assert archived(store) == set(names)
        last, first = store.cleanups()
        asked = (1, 0, -1, 10**18)
        assert [store.cleanups(limit) for limit in asked] == [[last], [], [], [last, first]]
        assert (first.ended_at, first.pruned, last.pruned) == (None, 2, 3)
        # A clean-up that is over has nothing more to say.
        assert store.prune(SHORT, run=last.run, actor="me") == PruneReport(run=last.run)
