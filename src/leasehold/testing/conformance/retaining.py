"""RET: retention, clean-ups, the archive, results with a time to live."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.job import Job
from leasehold.core.lease import Settlement
from leasehold.core.outcome import Complete, JobError
from leasehold.core.retention import (
    ABANDONED_SECONDS,
    BATCH_MAX,
    CleanUpMode,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.search import JobFilter
from leasehold.core.status import Status
from leasehold.core.store import Store
from leasehold.env import ManualClock
from leasehold.errors import IdempotencyConflictError, InvalidJobError, InvalidRetentionError
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
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
    """Lease everything and complete what has these names."""
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

    def test_ret_6_a_key_outlives_its_job(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(idempotency_key="key"))
        settle(store, lease_one(store), Complete())
        clean(store, scope=EMERGENCY)
        assert store.get("job") is None
        [again] = submit(store, draft("again", idempotency_key="key"))
        assert (again.id, again.status, again.is_duplicate) == ("job", Status.COMPLETED, True)
        with pytest.raises(IdempotencyConflictError):
            store.submit([draft("other", idempotency_key="key", payload=b"[7]")])
        clock.advance(DAY)
        clean(store)
        [new] = submit(store, draft("new", idempotency_key="key"))
        assert (new.id, new.is_duplicate) == ("new", False)
        # The old job's key is not the new one's.
        clock.advance(10)
        clean(store)
        [new] = submit(store, draft("newer", idempotency_key="key"))
        assert (new.id, new.is_duplicate) == ("new", True)

    def test_ret_7_a_result_has_its_time(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("short", result_ttl_seconds=10), draft("long"))
        complete(store, "short", "long", result=b"[1]")
        clock.advance(9.999999)
        assert (get(store, "short").result, get(store, "short").result_expired) == ([1], False)
        clock.advance(0.000001)
        for _ in ("not dropped yet", "dropped"):
            [listed] = store.search(JobFilter(ids=("short",))).jobs
            for job in (get(store, "short"), listed):
                assert (job.status, job.result_data) == (Status.COMPLETED, None)
                assert job.result_expired
            reports = clean(store)
        assert get(store, "long").result == [1]
        assert not get(store, "long").result_expired
        assert sum(report.results_dropped for report in reports) == 0
        assert sum(record.results_dropped for record in store.cleanups()) == 1

    def test_ret_7_no_result_is_no_expired_result(self, store: Store, clock: ManualClock) -> None:
        kill(store, "dead", result_ttl_seconds=10)
        submit(store, draft("done"), draft("waits", result_ttl_seconds=10, delay_seconds=500))
        settle(store, lease_one(store), Complete())
        clock.advance(20)
        for name in ("dead", "done", "waits"):
            assert not get(store, name).result_expired

    def test_ret_8_histories_go_as_a_whole(self, store: Store) -> None:
        kept = kill(store, "dead")
        for number in range(6):
            submit(store, draft(f"job-{number}"))
            complete(store, f"job-{number}")
        policy = RetentionPolicy(history_events_max=10)
        jobs = [get(store, f"job-{number}") for number in range(6)]
        reports = clean(store, policy, limit=2)
        assert sum(report.histories_dropped for report in reports) == 3
        for job in jobs[:3]:
            assert get(store, job.id) == job
            assert (store.history(job.id), store.attempts(job.id)) == ([], [])
        for job in (*jobs[3:], kept):
            assert len(store.history(job.id)) == 3
            assert len(store.attempts(job.id)) == 1
        assert store.check() == []
        assert sum(report.histories_dropped for report in clean(store, policy)) == 0

    def test_ret_8_a_refused_settlement_does_not_bring_it_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        settle(store, lease_one(store), FAILURE)
        clock.advance(RETRY_SECONDS)
        lease = lease_one(store)
        settle(store, lease, Complete())
        assert get(store).error is not None
        clean(store, RetentionPolicy(history_events_max=0))
        assert get(store).error is None
        store.exchange([Settlement("job", lease.version, Complete())])
        assert store.history("job") == []
        assert get(store).status is Status.COMPLETED
        assert store.check() == []

    def test_ret_9_every_clean_up_leaves_a_record(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"), draft("two"))
        complete(store, "one", "two")
        clock.advance(60)
        began = store.now()
        clean(store, scope=Scope())
        clock.advance(5)
        clean(store, scope=EMERGENCY)
        last, first = store.cleanups()
        assert (first.mode, last.mode) == (CleanUpMode.DAILY, CleanUpMode.EMERGENCY)
        assert (first.actor, first.started_at, first.ended_at) == ("me", began, began)
        assert (first.completed, first.archived, first.pruned, last.pruned) == (2, 2, 2, 0)
        assert (first.duration_seconds, first.writes > 0) == (0, True)
        assert store.cleanups(limit=1) == [last]
        [audit] = [record for record in store.audit_log() if record.action == "prune"]
        assert (audit.actor, audit.count, audit.detail["mode"]) == ("me", 0, "emergency")

    def test_ret_9_old_audit_records_go(self, store: Store, clock: ManualClock) -> None:
        kill(store, "dead")
        store.discard(["dead"], actor="me")
        policy = RetentionPolicy(audit_seconds=100, worth_cleaning=0)
        clock.advance(99)
        clean(store, policy, Scope())
        assert len(store.audit_log()) == 1
        clock.advance(DAY)
        clean(store, policy, Scope())
        assert store.audit_log() == []

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
        assert (first.ended_at, first.pruned, last.pruned) == (None, 2, 3)
        # One that is over has nothing more to say.
        assert store.prune(SHORT, run=last.run, actor="me") == PruneReport(run=last.run)

    def test_ret_11_old_days_are_dropped(self, store: Store, clock: ManualClock) -> None:
        policy = RetentionPolicy(archive_seconds=2 * DAY, worth_cleaning=0)
        for day in range(3):
            names = [f"{day}-{number}" for number in range(3)]
            submit(store, *map(draft, names))
            complete(store, *names)
            clean(store, policy, EMERGENCY)
            clock.advance(DAY)
        assert len(archived(store)) == 9
        reports = clean(store, policy, limit=2)
        assert [report.archive_dropped for report in reports if report.archive_dropped] == [2, 1]
        assert {name[0] for name in archived(store)} == {"1", "2"}
        # Old days alone make a clean-up worth it.
        clock.advance(3 * DAY)
        worthy = RetentionPolicy(archive_seconds=2 * DAY, worth_cleaning=1000)
        clean(store, worthy, Scope())
        assert archived(store) == set()

    def test_ret_12_what_is_remembered(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(metadata={"tenant": "acme"}, parent_id="parent", queue="mail"))
        settle(store, lease_one(store, queues=("mail",)), FAILURE)
        clock.advance(10)
        lease = lease_one(store, queues=("mail",))
        clock.advance(2)
        result = '"' + "é" * 300 + '"'
        settle(store, lease, Complete(result.encode()))
        job = get(store)
        clean(store, scope=EMERGENCY)
        old = store.archived("job")
        assert old is not None
        assert (old.id, old.queue, old.task, old.status) == ("job", "mail", "work", job.status)
        assert (old.created_at, old.started_at) == (job.created_at, job.started_at)
        assert (old.completed_at, old.archived_at) == (job.completed_at, store.now())
        assert (old.attempts, old.retries, old.run_seconds) == (2, 1, 2.0)
        assert old.error == JobError("OSError", "the line is dead")
        assert old.result_summary == result[:200]
        assert (old.metadata, old.parent_id) == ({"tenant": "acme"}, "parent")
        assert store.archived("nobody") is None

    def test_ret_12_without_result_or_start(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("stopped"), draft("secret", result_ttl_seconds=1), draft("pickled"))
        store.cancel(["stopped"], reason="no need", actor="me")
        leases = lease_all(store)
        secret = Settlement("secret", leases[0].version, Complete(b'"secret"'))
        pickled = Settlement("pickled", leases[1].version, Complete(b"abc", codec="pickle"))
        store.exchange([secret, pickled])
        clock.advance(1)
        clean(store, scope=EMERGENCY)
        found = {job.id: job for job in store.search_archive(JobFilter()).jobs}
        assert (found["stopped"].reason, found["stopped"].run_seconds) == ("no need", None)
        assert [job.result_summary for job in found.values()] == [None, None, None]

    def test_ret_12_the_latest_of_an_id(self, store: Store) -> None:
        for result in (b"1", b"2"):
            submit(store, draft())
            settle(store, lease_one(store), Complete(result))
            clean(store, scope=EMERGENCY)
        old = store.archived("job")
        assert old is not None
        assert old.result_summary == "2"
        assert len(store.search_archive(JobFilter(ids=("job",))).jobs) == 2

    def test_ret_13_the_archive_is_searched(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("a", queue="x", metadata={"n": 1}), draft("b", parent_id="p"))
        lease_and_complete_all(store, ("x", "default"))
        kill(store, "c", task="other")
        first = clock.now()
        clean(store, scope=Scope(emergency=True, dead=True))
        clock.advance(DAY)
        submit(store, draft("d"))
        complete(store, "d")
        clean(store, scope=EMERGENCY)
        for where, names in [
            (JobFilter(), ["d", "c", "b", "a"]),
            (JobFilter(ids=("a", "d")), ["d", "a"]),
            (JobFilter(queues=("x",)), ["a"]),
            (JobFilter(tasks=("other",)), ["c"]),
            (JobFilter(statuses=(Status.DEAD,)), ["c"]),
            (JobFilter(metadata={"n": 1}), ["a"]),
            (JobFilter(metadata={"n": 2}), []),
            (JobFilter(parent_id="p"), ["b"]),
            (JobFilter(error_text="NO SUCH"), ["c"]),
            (JobFilter(created_from=first + timedelta(1)), ["d"]),
            (JobFilter(created_before=first + timedelta(1)), ["c", "b", "a"]),
        ]:
            assert [job.id for job in store.search_archive(where).jobs] == names, where
        today, yesterday = clock.now().date(), first.date()
        assert [job.id for job in store.search_archive(JobFilter(), first_day=today).jobs] == ["d"]
        page = store.search_archive(JobFilter(), last_day=yesterday, limit=2)
        assert [job.id for job in page.jobs] == ["c", "b"]
        page = store.search_archive(
            JobFilter(), last_day=yesterday, limit=2, cursor=page.next_cursor
        )
        assert ([job.id for job in page.jobs], page.next_cursor) == (["a"], None)

    def test_ret_13_not_for_what_it_does_not_keep(self, store: Store) -> None:
        for where in (
            JobFilter(text="x"),
            JobFilter(priority_min=1),
            JobFilter(idempotency_key="key"),
        ):
            with pytest.raises(InvalidJobError, match="the archive keeps no"):
                store.search_archive(where)
        with pytest.raises(InvalidJobError, match="cursor"):
            store.search_archive(JobFilter(), cursor="nonsense")
        with pytest.raises(InvalidJobError, match="limit"):
            store.search_archive(JobFilter(), limit=0)


def lease_and_complete_all(store: Store, queues: tuple[str, ...]) -> list[Job]:
    """Complete whatever is there; answers with the jobs."""
    leases = lease_all(store, queues=queues)
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
    return [get(store, lease.job_id) for lease in leases]
