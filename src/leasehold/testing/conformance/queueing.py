"""QUE-1 to QUE-6, QUE-9, QUE-10: queues are created, changed, paused, drained and listed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.retry import Delays
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidQueueError,
    QueueClosedError,
    QueueExistsError,
    QueueNotFoundError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    at_once,
    draft,
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
        with pytest.raises(QueueExistsError, match="use update_queue") as refused:
            store.create_queue("mail", QueueConfig(max_depth=11), actor="me")
        assert "max_depth is 10, not 11 (last changed by me at " in str(refused.value)
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
        log = store.audit_page().records[::-1]
        assert [(record.action, record.actor, record.count) for record in log] == [
            ("create_queue", "ann", 0),
            ("update_queue", "bob", 0),
            ("pause_queue", "me", 0),
            ("drain_queue", "me", 0),
            ("resume_queue", "me", 0),
            ("purge_queue", "eve", 1),
            ("delete_queue", "eve", 1),
        ]
        assert all(record.detail["queue"] == "mail" for record in log)
        assert log[0].detail["config"] == {"max_depth": 9}
        assert log[1].detail["changes"] == {"max_retries": 2}
        assert log[5].detail["where"] == {"tasks": ["work"]}
        assert log[1].at == log[0].at + timedelta(seconds=1)

    def test_que_14_a_deleted_queue_is_told_as_deleted(self, store: Store) -> None:
        store.create_queue("mail", QueueConfig(max_depth=9), actor="me")
        submit(store, draft("one", queue="mail"), draft("other"))
        store.delete_queue("mail", force=True, actor="me")
        _, mail = store.list_queues()
        assert mail == store.queue_info("mail")
        assert (mail.state, mail.config) == (QueueState.DELETED, QueueConfig())
        assert mail.counts[Status.DEAD] == 1
        # Its jobs are like any others; a new one makes it a queue like any other.
        store.replay(["one"], reset_attempts=True, actor="me")
        settle(store, lease_one(store, queues=("mail",)), Complete())
        assert [info.state for info in store.list_queues()][1] is QueueState.DELETED
        submit(store, draft("two", queue="mail"))
        assert [info.state for info in store.list_queues()] == [QueueState.ACTIVE] * 2
        store.cancel(["two"], reason="no", actor="me")
        store.delete_queue("mail", force=False, actor="me")
        assert [info.state for info in store.list_queues()][1] is QueueState.DELETED
        store.create_queue("mail", QueueConfig(max_depth=5), actor="me")
        assert [info.state for info in store.list_queues()] == [QueueState.ACTIVE] * 2

    def test_que_14_nothing_is_told_when_no_job_is_left(self, store: Store) -> None:
        store.create_queue("never used", QueueConfig(), actor="me")
        store.delete_queue("never used", force=False, actor="me")
        assert store.list_queues() == []
        submit(store, draft("one", queue="mail"))
        store.cancel(["one"], reason="no", actor="me")
        store.delete_queue("mail", force=False, actor="me")
        assert [info.name for info in store.list_queues()] == ["mail"]
        store.discard(["one"], actor="me")
        assert (store.list_queues(), store.queue_info("mail")) == ([], None)
        submit(store, draft("one", queue="mail", task="another"))
        assert [info.state for info in store.list_queues()] == [QueueState.ACTIVE]

    def test_que_10_every_queue_with_its_figures(self, store: Store) -> None:
        assert store.list_queues() == []
        store.create_queue("mail", QueueConfig(max_depth=9), actor="me")
        store.set_queue_state("mail", QueueState.PAUSED, actor="me")
        submit(store, draft("one"), draft("two", task="resize"), draft("later", delay_seconds=60))
        settle(store, lease_one(store), Complete())
        default, mail = store.list_queues()
        assert [default, mail] == [store.queue_info("default"), store.queue_info("mail")]
        assert (default.name, default.pending, default.running) == ("default", 1, 0)
        assert default.counts == store.stats("default").counts
        expected = {Status.COMPLETED: 1, Status.PENDING: 1, Status.SCHEDULED: 1}
        assert {status: count for status, count in default.counts.items() if count} == expected
        assert (mail.state, mail.config) == (QueueState.PAUSED, QueueConfig(max_depth=9))
        assert mail.counts == dict.fromkeys(Status, 0)
