"""RET-6 to RET-9, RET-11: how long keys, results, histories, audit records and figures last."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import Submitted
from leasehold.core.model.retention import (
    CleanUpMode,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import IdempotencyConflictError, UnknownDependencyError
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    draft,
    get,
    kill,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.retaining import DAY, EMERGENCY, archived, clean, complete


class ExpiringClauses(ConformanceBase):
    def test_ret_6_a_key_outlives_its_job(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(idempotency_key="key"))
        settle(store, lease_one(store), Complete())
        clean(store, scope=EMERGENCY)
        assert store.get("job") is None
        [again] = submit(store, draft("again", idempotency_key="key"))
        assert (again.id, again.status, again.is_duplicate) == ("job", Status.COMPLETED, True)
        with pytest.raises(IdempotencyConflictError):
            store.submit([draft("other", idempotency_key="key", payload=b"[7]")])
        # It answers for its own job, even if another job has the id now.
        submit(store, draft("job"))
        [again] = submit(store, draft("again", idempotency_key="key"))
        assert (again.id, again.status, again.is_duplicate) == ("job", Status.COMPLETED, True)
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

    def test_ret_6_a_duplicate_of_a_pruned_job_is_not_who_has_its_id_now(
        self, store: Store
    ) -> None:
        submit(store, draft(idempotency_key="key"))
        settle(store, lease_one(store), Complete())
        clean(store, scope=EMERGENCY)
        submit(store, draft("job", max_retries=0))
        again = draft("again", idempotency_key="key")
        with pytest.raises(UnknownDependencyError, match="pruned"):
            store.submit([again, draft("after", depends_on=("again",))])
        duplicate, refused, linked = store.submit(
            [again, draft("after", depends_on=("again",)), draft("next", depends_on=("job",))],
            partial=True,
        )
        assert duplicate == Submitted("job", Status.COMPLETED, is_duplicate=True)
        assert isinstance(refused, UnknownDependencyError)
        assert linked == Submitted("next", Status.BLOCKED)

    def test_ret_6_nor_a_draft_of_the_same_call(self, store: Store) -> None:
        submit(store, draft(idempotency_key="key"))
        settle(store, lease_one(store), Complete())
        clean(store, scope=EMERGENCY)
        new, duplicate, refused = store.submit(
            [draft("job"), draft("again", idempotency_key="key"),
             draft("after", depends_on=("again",))],
            partial=True,
        )  # fmt: skip
        assert new == Submitted("job", Status.PENDING)
        assert duplicate == Submitted("job", Status.COMPLETED, is_duplicate=True)
        assert isinstance(refused, UnknownDependencyError)

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

    def test_ret_8_the_first_submitted_go_first_whenever_they_ended(self, store: Store) -> None:
        names = ("first", "second", "third")
        submit(store, *map(draft, names))
        leases = {lease.job_id: lease for lease in lease_all(store)}
        for name in reversed(names):
            settle(store, leases[name], Complete())
        policy = RetentionPolicy(history_events_max=3)
        clean(store, policy)
        assert [len(store.history(name)) for name in names] == [0, 0, 3]
        # Dropped jobs count no more: there is room for as many again.
        submit(store, draft("fourth"))
        complete(store, "fourth")
        clean(store, RetentionPolicy(history_events_max=6))
        assert [len(store.history(name)) for name in (*names, "fourth")] == [0, 0, 3, 3]

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
        [audit] = [record for record in store.audit_page().records if record.action == "prune"]
        assert (audit.actor, audit.count, audit.detail["mode"]) == ("me", 0, "emergency")

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
        dropped = [report.archive_dropped for report in reports if report.archive_dropped]
        assert dropped in ([2, 1], [3])  # A store may drop the day as a whole.
        assert {name[0] for name in archived(store)} == {"1", "2"}
        # Old days alone make a clean-up worth it.
        clock.advance(3 * DAY)
        worthy = RetentionPolicy(archive_seconds=2 * DAY, worth_cleaning=1000)
        clean(store, worthy, Scope())
        assert archived(store) == set()
