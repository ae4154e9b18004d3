"""Clauses about the change feed."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest

from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.changes import CHANGES_KEPT, FOLLOWED_SECONDS, Change
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.refusals import PAGE_MAX
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.status import Event, Status
from leasehold.core.model.timing import Every
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidCursorError,
    InvalidPageError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    NO_CURSORS,
    RETRY_SECONDS,
    ConformanceBase,
    draft,
    kill,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.transacting import undone


def told(store: Store, cursor: str) -> list[Change]:
    """Everything since the cursor."""
    answer = store.changes(cursor)
    assert not answer.gap
    return answer.changes


def named(store: Store, cursor: str) -> set[tuple[str, str]]:
    return {(each.kind, each.name) for each in told(store, cursor)}


class FollowingClauses(ConformanceBase):
    """CHG."""

    @pytest.fixture
    def start(self, store: Store) -> str:
        """The cursor of somebody who begins to follow an empty store."""
        return store.changes().cursor

    def test_chg_1_every_event_of_a_job_is_told_in_order(
        self, store: Store, clock: ManualClock, start: str
    ) -> None:
        submit(store, draft())
        settle(store, lease_one(store), FAILURE)
        clock.advance(RETRY_SECONDS)
        store.promote()
        store.reprioritize("job", 90, actor="ann")
        lease = lease_one(store)
        store.cancel(["job"], reason="enough", actor="ann")
        settle(store, lease, Complete())
        history = store.history("job")
        assert [(each.status, each.event, each.sequence) for each in told(store, start)] == [
            (event.after, event.event, event.sequence) for event in history
        ]

    def test_chg_1_jobs_of_one_write_are_told_as_they_were_written(
        self, store: Store, start: str
    ) -> None:
        submit(store, *(draft(f"job-{number}") for number in range(3)))
        created = [f"job-{number}" for number in range(3)]
        assert [each.name for each in told(store, start)] == created

    def test_chg_1_deleted_jobs_are_told(self, store: Store, start: str) -> None:
        kill(store)
        seen = store.changes(start).cursor
        store.discard(["job"], actor="ann")
        assert told(store, seen) == [Change(kind="job", name="job")]

    def test_chg_1_a_stale_holder_is_an_event(self, store: Store, start: str) -> None:
        submit(store, draft())
        lease = lease_one(store)
        settle(store, lease, Complete())
        seen = store.changes(start).cursor
        with pytest.raises(Exception, match="job"):
            store.report_progress("job", lease.version, b"{}")
        (change,) = told(store, seen)
        assert (change.status, change.event) == (Status.COMPLETED, Event.VERSION_MISMATCH)

    def test_chg_1_queues_schedules_settings_and_workers_are_told(self, store: Store) -> None:
        def after(action: Any) -> set[tuple[str, str]]:
            cursor = store.changes().cursor
            action()
            return named(store, cursor)

        create = lambda: store.create_queue("mail", QueueConfig(max_depth=5), actor="ann")  # noqa: E731
        assert after(create) == {("queue", "mail")}
        pause = lambda: store.set_queue_state("mail", QueueState.PAUSED, actor="ann")  # noqa: E731
        assert after(pause) == {("queue", "mail")}
        nightly = ScheduleDraft(name="nightly", timing=Every(3600), job=draft("nightly"))
        assert after(lambda: store.set_schedule(nightly, actor="ann")) == {("schedule", "nightly")}
        assert after(lambda: store.remove_schedule("nightly", actor="ann")) == {
            ("schedule", "nightly")
        }
        change = lambda: store.set_setting("max_retries", 7, actor="ann")  # noqa: E731
        assert after(change) == {("setting", "max_retries")}
        unset = lambda: store.unset_setting("max_retries", actor="ann")  # noqa: E731
        assert after(unset) == {("setting", "max_retries")}
        now = store.now()
        worker = WorkerInfo(
            id="w", host="h", pid=1, queues=("mail",), slots=1, started_at=now, heartbeat_at=now
        )
        life: list[Any] = []
        assert after(lambda: life.append(store.register_worker(worker))) == {("worker", "w")}
        assert after(life[0].close) == {("worker", "w")}

    def test_chg_1_what_was_rolled_back_is_not_told(
        self, store: Store, connection: Connection, start: str
    ) -> None:
        with undone(connection):
            local_part(store, "a transaction").submit_within(connection, [draft("never")])
        submit(store, draft("kept"))
        assert [each.name for each in told(store, start)] == ["kept"]

    def test_chg_2_pages_follow_each_other(self, store: Store, start: str) -> None:
        submit(store, *(draft(f"job-{number}") for number in range(5)))
        cursor, found = start, []
        for _ in range(3):
            page = store.changes(cursor, limit=2)
            assert len(page.changes) <= 2
            found += [each.name for each in page.changes]
            cursor = page.cursor
        assert found == [f"job-{number}" for number in range(5)]
        assert store.changes(cursor).changes == []
        submit(store, draft("late"))
        assert [each.name for each in told(store, cursor)] == ["late"]

    def test_chg_2_an_empty_page_is_the_last(self, store: Store, start: str) -> None:
        """Steps of a deleted job may be left out: a follower that reads on misses nothing."""
        submit(store, draft("gone"))
        store.cancel(["gone"], reason="", actor="me")
        store.discard(["gone"], actor="me")
        submit(store, draft("stays"))
        cursor, found = start, []
        while (page := store.changes(cursor, limit=1)).changes:
            found += [(each.name, each.status) for each in page.changes]
            cursor = page.cursor
        assert found[-2:] == [("gone", None), ("stays", Status.PENDING)]

    def test_chg_2_what_is_no_cursor_is_refused(self, store: Store) -> None:
        for cursor in NO_CURSORS:
            with pytest.raises(InvalidCursorError, match="cursor"):
                store.changes(cursor)
        for limit in (0, PAGE_MAX + 1):
            with pytest.raises(InvalidPageError, match="limit"):
                store.changes(limit=limit)

    @pytest.fixture
    def changes_kept(self) -> int:
        """How many changes the store keeps; one that can be made to keep fewer says so here."""
        return CHANGES_KEPT

    def test_chg_3_whoever_is_too_far_behind_is_told_of_a_gap(
        self, changes_kept: int, store: Store, start: str
    ) -> None:
        submit(store, draft("early"))
        each = 1000
        times = ceil(changes_kept / (2 * each))
        for number in range(times):
            submit(store, *(draft(f"{number}-{n}", run_at=None) for n in range(each)))
            store.cancel([f"{number}-{n}" for n in range(each)], reason="", actor="ann")
        submit(store, *(draft(f"last-{n}") for n in range(2 * each)))
        behind = store.changes(start)
        assert behind.gap
        assert behind.changes == []
        assert not store.changes(behind.cursor).gap
        assert len(store.changes(str(int(behind.cursor) - 5)).changes) == 5

    def test_chg_3_a_cursor_from_the_future_is_a_gap(self, store: Store, start: str) -> None:
        submit(store, draft())
        assert store.changes(str(int(start) + 1000)).gap

    def test_chg_4_without_followers_nothing_is_kept(
        self, store: Store, clock: ManualClock, start: str
    ) -> None:
        submit(store, draft("seen"))
        clock.advance(FOLLOWED_SECONDS / 2)
        store.recover()
        assert [each.name for each in told(store, start)] == ["seen"]
        clock.advance(FOLLOWED_SECONDS + 1)
        store.recover()
        submit(store, draft("unseen"))
        again = store.changes(start)
        assert again.gap
        submit(store, draft("late"))
        assert [each.name for each in told(store, again.cursor)] == ["late"]

    def test_chg_4_a_cursor_from_before_a_pause_is_a_gap(
        self, store: Store, clock: ManualClock, start: str
    ) -> None:
        """Also if nothing was told before it, and others follow again."""
        clock.advance(FOLLOWED_SECONDS + 1)
        store.recover()
        submit(store, draft("unseen"))
        other = store.changes()
        assert not other.gap
        assert store.changes(start).gap
