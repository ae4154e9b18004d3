"""QUE: queues as things of their own. Created, changed, paused, drained, purged, deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.budget import BURIED_AT_ONCE
from leasehold.core.outcome import Complete
from leasehold.core.queue_config import QueueConfig, QueueState
from leasehold.core.retry import Delays
from leasehold.core.search import JobFilter
from leasehold.core.status import Event, Status
from leasehold.core.store import Store
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidQueueError,
    QueueClosedError,
    QueueExistsError,
    QueueNotEmptyError,
    QueueNotFoundError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    RETRY_SECONDS,
    ConformanceBase,
    at_once,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.waking import Ears


def pause(store: Store, queue: str = "default") -> None:
    store.set_queue_state(queue, QueueState.PAUSED, actor="me")


def resume(store: Store, queue: str = "default") -> None:
    store.set_queue_state(queue, QueueState.ACTIVE, actor="me")


def drain(store: Store, queue: str = "default") -> None:
    store.set_queue_state(queue, QueueState.DRAINING, actor="me")


class QueueingClauses(ConformanceBase):
    def test_que_1_a_queue_is_created_with_its_rules(self, store: Store) -> None:
        config = QueueConfig(
            max_depth=10, max_concurrency=2, rate_per_second=1.5, client_rate_per_second=1,
            lease_seconds=60, max_retries=7, retry=Delays((1, 2)),
        )  # fmt: skip
        assert store.queue_info("mail") is None
        created = store.create_queue("mail", config, actor="me")
        assert (created.name, created.state, created.config) == ("mail", QueueState.ACTIVE, config)
        assert store.queue_info("mail") == created
        assert "mail" in store.queues()

    def test_que_1_creating_it_again_keeps_its_state(self, store: Store) -> None:
        config = QueueConfig(max_depth=10)
        store.create_queue("mail", config, actor="me")
        pause(store, "mail")
        again = store.create_queue("mail", config, actor="me")
        assert again.state is QueueState.PAUSED
        with pytest.raises(QueueExistsError, match="use update_queue"):
            store.create_queue("mail", QueueConfig(max_depth=11), actor="me")
        assert store.queue_info("mail") == again

    def test_que_1_a_name_that_is_none_is_refused(self, store: Store) -> None:
        for name in ("", "two\nlines", "x" * 256):
            with pytest.raises(InvalidQueueError, match="name"):
                store.create_queue(name, QueueConfig(), actor="me")
        assert store.queues() == []

    def test_que_2_only_what_is_named_changes(self, store: Store) -> None:
        store.create_queue("mail", QueueConfig(max_depth=10, max_retries=1), actor="me")
        changed = store.update_queue("mail", {"max_depth": 20, "max_concurrency": 3}, actor="me")
        assert changed.config == QueueConfig(max_depth=20, max_concurrency=3, max_retries=1)
        changed = store.update_queue("mail", {"max_depth": None}, actor="me")
        assert changed.config == QueueConfig(max_concurrency=3, max_retries=1)

    def test_que_2_changes_at_once_do_not_undo_each_other(self, store: Store) -> None:
        store.create_queue("mail", QueueConfig(), actor="me")
        names = ("max_depth", "max_concurrency", "max_retries", "lease_seconds")
        at_once(4, lambda n: store.update_queue("mail", {names[n]: 5}, actor="me"))
        info = store.queue_info("mail")
        assert info is not None
        expected = QueueConfig(max_depth=5, max_concurrency=5, max_retries=5, lease_seconds=5)
        assert info.config == expected

    def test_que_2_a_bad_change_changes_nothing(self, store: Store) -> None:
        before = store.create_queue("mail", QueueConfig(max_depth=10), actor="me")
        for changes in ({"max_depth": -1}, {"max_concurrency": 0}, {"colour": "red"}):
            with pytest.raises(InvalidQueueError, match=next(iter(changes))):
                store.update_queue("mail", changes, actor="me")
        assert store.queue_info("mail") == before

    def test_que_2_a_queue_that_held_jobs_needs_no_creating(self, store: Store) -> None:
        submit(store, draft())
        assert store.update_queue("default", {"max_depth": 1}, actor="me").pending == 1
        with pytest.raises(QueueNotFoundError, match="typo"):
            store.update_queue("typo", {"max_depth": 1}, actor="me")

    def test_que_3_a_change_counts_at_once_and_harms_nobody(self, store: Store) -> None:
        submit(store, *(draft(f"job-{n}") for n in range(4)))
        held = lease_all(store, limit=3)
        info = store.update_queue("default", {"max_concurrency": 2, "max_depth": 1}, actor="me")
        assert (info.running, info.pending) == (3, 1)
        assert lease_all(store) == []
        settle(store, held[0], Complete())
        assert lease_all(store) == []
        store.update_queue("default", {"max_concurrency": 3}, actor="me")
        assert [lease.job_id for lease in lease_all(store)] == ["job-3"]

    def test_que_4_of_a_paused_queue_nothing_is_leased(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"), draft("other", queue="q2"))
        held = lease_one(store)
        pause(store)
        submit(store, draft("three"))
        leases = lease_all(store, queues=("default", "q2"))
        assert [lease.job_id for lease in leases] == ["other"]
        assert settle(store, held, Complete()).status is Status.COMPLETED
        assert lease_all(store) == []
        resume(store)
        assert [lease.job_id for lease in lease_all(store)] == ["two", "three"]
        assert store.check() == []

    def test_que_5_a_draining_queue_accepts_nothing_and_finishes(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one"), draft("two"))
        drain(store)
        with pytest.raises(QueueClosedError, match="'default' is draining"):
            store.submit([draft("three")])
        (answer,) = store.submit([draft("three")], partial=True)
        assert isinstance(answer, QueueClosedError)
        submit(store, draft("elsewhere", queue="q2"))
        settle(store, lease_one(store), FAILURE)
        settle(store, lease_one(store), Complete())
        clock.advance(RETRY_SECONDS)
        settle(store, lease_one(store), Complete())
        assert [get(store, name).status for name in ("one", "two")] == [Status.COMPLETED] * 2
        resume(store)
        submit(store, draft("three"))

    def test_que_6_resuming_wakes(self, store: Store) -> None:
        submit(store, draft())
        pause(store)
        ears = Ears(store)
        store.subscribe(ears)
        resume(store)
        assert ears.wait_for(lambda: ears.ready > 0)
        with pytest.raises(QueueNotFoundError, match="typo"):
            pause(store, "typo")

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
        with pytest.raises(QueueNotEmptyError, match=r"1 job\(s\) wait and 1 run"):
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
        deleted = [each for each in store.audit_log() if each.action == "delete_queue"]
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

    def test_que_9_every_change_is_audited(self, store: Store, clock: ManualClock) -> None:
        store.create_queue("mail", QueueConfig(max_depth=9), actor="ann")
        clock.advance(1)
        store.update_queue("mail", {"max_retries": 2}, actor="bob")
        pause(store, "mail")
        drain(store, "mail")
        resume(store, "mail")
        submit(store, draft("one", queue="mail"), draft("two", queue="mail", task="resize"))
        store.purge_queue("mail", JobFilter(tasks=("work",)), actor="eve")
        store.delete_queue("mail", force=True, actor="eve")
        log = store.audit_log()[::-1]
        assert [(record.action, record.actor, record.count) for record in log] == [
            ("create_queue", "ann", 1),
            ("update_queue", "bob", 1),
            ("pause_queue", "me", 1),
            ("drain_queue", "me", 1),
            ("resume_queue", "me", 1),
            ("purge_queue", "eve", 1),
            ("delete_queue", "eve", 1),
        ]
        assert all(record.detail["queue"] == "mail" for record in log)
        assert log[0].detail["config"] == {"max_depth": 9}
        assert log[1].detail["changes"] == {"max_retries": 2}
        assert log[5].detail["where"] == {"tasks": ["work"]}
        assert log[1].at == log[0].at + timedelta(seconds=1)
