"""QUE-7, QUE-8, QUE-11, QUE-12: queues are purged and deleted, and dependents are told."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.budget import BURIED_AT_ONCE
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.errors import (
    QueueNotEmptyError,
    QueueNotFoundError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    ConformanceBase,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.queueing import pause


class PurgingClauses(ConformanceBase):
    def test_que_7_what_waits_is_purged(self, store: Store) -> None:
        submit(store, draft("done"), draft("runs"), draft("failed"))
        done, runs, failed = lease_all(store)
        settle(store, done, Complete())
        settle(store, failed, FAILURE)
        submit(
            store,
            draft("pending", idempotency_key="key"),
            draft("later", delay_seconds=60),
            draft("elsewhere", queue="q2"),
        )
        assert store.purge_queue("default", JobFilter(), actor="me").purged == 3
        left = {job.id for job in store.search(JobFilter()).jobs}
        assert left == {"done", "runs", "elsewhere"}
        stats = store.stats("default")
        assert (stats.cancelled, stats.cleaned) == (3, 3)
        assert store.check() == []
        # The key is free again, and an id that comes back gets a new version.
        (again,) = submit(store, draft("pending", idempotency_key="key"))
        assert not again.is_duplicate
        submit(store, draft("failed", priority=90))
        assert lease_one(store).version > failed.version
        settle(store, runs, Complete())

    def test_que_7_a_filter_says_which(self, store: Store) -> None:
        submit(
            store,
            draft("one", task="mail"),
            draft("two", task="mail", priority=90),
            draft("three", task="resize"),
        )
        where = JobFilter(tasks=("mail",))
        assert store.purge_queue("default", where, actor="me", limit=1).purged == 1
        assert store.purge_queue("default", where, actor="me").purged == 1
        assert [job.id for job in store.search(JobFilter()).jobs] == ["three"]
        for nothing in (JobFilter(statuses=(Status.RUNNING,)), JobFilter(queues=("q2",))):
            assert store.purge_queue("default", nothing, actor="me").purged == 0

    def test_que_11_whoever_waits_for_a_purged_job_is_told(self, store: Store) -> None:
        submit(
            store,
            draft("root"),
            draft("with it", depends_on=("root",)),
            draft("cancelled", queue="q2", depends_on=("root",)),
            draft("failed", queue="q2", depends_on=("root",), on_dependency_failure="fail"),
            draft("ignoring", queue="q2", depends_on=("root",), on_dependency_failure="ignore"),
            draft("behind", queue="q3", depends_on=("cancelled",)),
        )
        assert store.purge_queue("default", JobFilter(), actor="eve").purged == 2
        assert (store.get("root"), store.get("with it")) == (None, None)
        told = "dependency root was cancelled: purged by eve"
        left = {job.id: (job.status, job.reason) for job in store.search(JobFilter()).jobs}
        assert left == {
            "cancelled": (Status.CANCELLED, told),
            "failed": (Status.DEAD, told),
            "ignoring": (Status.PENDING, None),
            "behind": (Status.CANCELLED, f"dependency cancelled was cancelled: {told}"),
        }
        assert store.history("ignoring")[-1].message == told
        assert store.check() == []

    def test_que_11_dependents_submitted_before_it_are_told_too(self, store: Store) -> None:
        submit(store, draft("waits", depends_on=("root",)), draft("root", queue="q2"))
        assert store.purge_queue("q2", JobFilter(), actor="eve").purged == 1
        assert get(store, "waits").status is Status.CANCELLED
        assert store.check() == []

    def test_que_12_the_answer_says_whether_there_is_more(self, store: Store) -> None:
        submit(store, draft("a"), draft("b", depends_on=("a",)), draft("c"))
        answers = [store.purge_queue("default", JobFilter(), actor="me", limit=2) for _ in "ab"]
        assert [(each.purged, each.more) for each in answers] == [(2, True), (1, False)]
        assert store.search(JobFilter()).jobs == []

    def test_que_8_a_queue_with_jobs_is_not_deleted(self, store: Store) -> None:
        store.create_queue("mail", QueueConfig(max_concurrency=1), actor="me")
        submit(store, draft("one", queue="mail"), draft("two", queue="mail"))
        lease_one(store, queues=("mail",))
        before = store.queue_info("mail")
        with pytest.raises(QueueNotEmptyError, match="1 waiting job and 1 running job"):
            store.delete_queue("mail", force=False, actor="me")
        assert store.queue_info("mail") == before
        assert get(store, "two").status is Status.PENDING

    def test_que_8_by_force_what_waits_is_dead_and_what_runs_finishes(self, store: Store) -> None:
        store.create_queue("mail", QueueConfig(max_concurrency=2), actor="me")
        names = ("runs", "fails", "waits")
        submit(store, *(draft(name, queue="mail") for name in names))
        submit(store, draft("later", queue="mail", delay_seconds=60), draft("other"))
        runs, fails = lease_all(store, queues=("mail",))
        settle(store, fails, FAILURE)
        assert store.delete_queue("mail", force=True, actor="me") == 3
        for name in ("waits", "later", "fails"):
            job = get(store, name)
            assert job.status is Status.DEAD
            assert job.reason is not None
            assert "'mail' was deleted by me" in job.reason
            assert events(store, name)[-1] is Event.DEAD
        assert settle(store, runs, Complete()).status is Status.COMPLETED
        assert get(store, "other").status is Status.PENDING
        info = store.queue_info("mail")
        assert info is not None
        assert info.config == QueueConfig()
        assert store.check() == []

    def test_que_8_many_become_dead_letters_in_several_writes(self, store: Store) -> None:
        store.create_queue("mail", QueueConfig(key_concurrency=1), actor="me")
        count = BURIED_AT_ONCE + 7
        store.submit([draft(f"job-{n}", queue="mail", limit_key=str(n % 3)) for n in range(count)])
        submit(store, draft("later", queue="mail", delay_seconds=60), draft("other"))
        runs = lease_one(store, queues=("mail",))
        pause(store, "mail")
        assert store.delete_queue("mail", force=True, actor="me") == count
        assert store.stats("mail").counts[Status.DEAD] == count
        deleted = [each for each in store.audit_page().records if each.action == "delete_queue"]
        assert [(each.actor, each.count) for each in deleted] == [("me", count)]
        assert settle(store, runs, Complete()).status is Status.COMPLETED
        submit(store, draft("new", queue="mail"))
        assert lease_one(store, queues=("mail",)).job_id == "new"
        assert store.check() == []

    def test_que_8_an_empty_queue_is_deleted(self, store: Store) -> None:
        store.create_queue("mail", QueueConfig(max_depth=1), actor="me")
        assert store.delete_queue("mail", force=False, actor="me") == 0
        assert store.queue_info("mail") is None
        assert store.queues() == []
        with pytest.raises(QueueNotFoundError, match="mail"):
            store.delete_queue("mail", force=True, actor="me")
        submit(store, draft("done", queue="mail"))
        store.update_queue("mail", {"max_depth": 1}, actor="me")
        settle(store, lease_one(store, queues=("mail",)), FATAL)
        store.delete_queue("mail", force=False, actor="me")
        assert get(store, "done").status is Status.DEAD
        submit(store, draft("one", queue="mail"), draft("two", queue="mail"))
