"""Clauses about who did what, and when: queues and their changes, and the audit log over time."""

from __future__ import annotations

from datetime import timedelta

from leasehold.core.contract.store import Store
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import AuditRecord
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import ConformanceBase, draft, submit
from leasehold.testing.conformance.retaining import DAY, FORCE, clean


class SigningClauses(ConformanceBase):
    """QUE-13, RET-15, PGE-6."""

    # -- queues ------------------------------------------------------------------------------

    def test_que_13_a_queue_knows_who_created_it(self, store: Store, clock: ManualClock) -> None:
        config = QueueConfig(max_depth=10)
        created = store.create_queue("mail", config, actor="anna")
        assert signed(created) == (store.now(), "anna", store.now(), "anna")
        clock.advance(10)
        # The same once more is no change.
        assert signed(store.create_queue("mail", config, actor="bert")) == signed(created)
        assert signed(info(store, "mail")) == signed(created)

    def test_que_13_and_who_changed_it_last(self, store: Store, clock: ManualClock) -> None:
        created = store.create_queue("mail", QueueConfig(), actor="anna")
        clock.advance(10)
        changed = store.update_queue("mail", {"max_depth": 5}, actor="bert")
        assert signed(changed) == (created.created_at, "anna", store.now(), "bert")
        clock.advance(10)
        paused = store.set_queue_state("mail", QueueState.PAUSED, actor="carl")
        assert signed(paused) == (created.created_at, "anna", store.now(), "carl")
        assert [signed(each) for each in store.list_queues()] == [signed(paused)]

    def test_que_13_a_queue_that_nobody_created(self, store: Store, clock: ManualClock) -> None:
        began = store.now()
        submit(store, draft(queue="mail"))
        clock.advance(10)
        submit(store, draft("later", queue="mail", task="other"))
        assert signed(info(store, "mail")) == (began, None, None, None)
        paused = store.set_queue_state("mail", QueueState.PAUSED, actor="anna")
        assert signed(paused) == (began, None, store.now(), "anna")

    # -- the audit log -----------------------------------------------------------------------

    def test_ret_15_old_audit_records_go_to_the_archive(
        self, store: Store, clock: ManualClock
    ) -> None:
        policy = RetentionPolicy(audit_seconds=100, audit_archive_seconds=DAY, worth_cleaning=1000)
        store.create_queue("old", QueueConfig(), actor="anna")
        clock.advance(99)
        assert store.prune(policy, actor="me").run is None, "nothing is old enough to be worth it"
        store.create_queue("new", QueueConfig(), actor="anna")
        clock.advance(1)
        reports = clean(store, policy, Scope())
        assert sum(report.audit_archived for report in reports) == 1
        assert store.cleanups()[0].audit_archived == 1
        assert told(store.audit_page().records) == [("new", False), ("old", True)]
        clock.advance(DAY)
        reports = clean(store, policy, Scope())
        assert told(store.audit_page().records) == [("new", True)]
        assert sum(report.audit_dropped for report in reports) == 1
        # With a new record, numbers go on: none is told twice, or before another.
        store.create_queue("newest", QueueConfig(), actor="anna")
        assert told(store.audit_page().records) == [("newest", False), ("new", True)]

    def test_ret_15_in_bounded_writes(self, store: Store, clock: ManualClock) -> None:
        policy = RetentionPolicy(audit_seconds=10, audit_archive_seconds=0, worth_cleaning=0)
        for n in range(7):
            store.create_queue(f"queue-{n}", QueueConfig(), actor="anna")
        clock.advance(11)
        reports = clean(store, policy, FORCE, limit=3)
        assert [each.audit_archived for each in reports if each.audit_archived] == [3, 3, 1]
        assert sum(report.audit_dropped for report in reports) == 7
        assert [record.action for record in store.audit_page().records] == ["prune"]

    def test_ret_15_without_a_limit_they_stay(self, store: Store, clock: ManualClock) -> None:
        store.create_queue("old", QueueConfig(), actor="anna")
        for policy in (
            RetentionPolicy(audit_seconds=None, worth_cleaning=0),
            RetentionPolicy(audit_seconds=0, audit_archive_seconds=None, worth_cleaning=0),
        ):
            clock.advance(1000 * DAY)
            clean(store, policy, Scope())
            assert [name for name, _ in told(store.audit_page().records)] == ["old"]

    def test_pge_6_both_parts_by_date(self, store: Store, clock: ManualClock) -> None:
        began = store.now()
        policy = RetentionPolicy(audit_seconds=2.5 * DAY, worth_cleaning=0)
        for n in range(6):
            store.create_queue(f"day-{n}", QueueConfig(), actor="anna")
            clock.advance(DAY)
        clean(store, policy, Scope())
        days = [f"day-{n}" for n in (5, 4, 3, 2, 1, 0)]
        assert told(store.audit_page().records) == [(name, name < "day-4") for name in days]
        found: list[tuple[str, bool]] = []
        cursor = None
        while True:
            page = store.audit_page(
                since=began + timedelta(days=1),
                before=began + timedelta(days=5),
                limit=2,
                cursor=cursor,
            )
            found += told(page.records)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [(name, name < "day-4") for name in days[1:5]]
        assert store.audit_page(since=store.now()).records == []


def info(store: Store, name: str) -> QueueInfo:
    found = store.queue_info(name)
    assert found is not None
    return found


def signed(queue: QueueInfo) -> tuple[object, ...]:
    return queue.created_at, queue.created_by, queue.changed_at, queue.changed_by


def told(records: list[AuditRecord]) -> list[tuple[str, bool]]:
    return [(record.detail["queue"], record.archived) for record in records]
