"""HIS, and the other questions that can be asked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete, Fail, JobError, Snooze
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import InvalidPageError
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    assert_history_replays,
    draft,
    get,
    kill,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store

FILTERS: list[dict[str, Any]] = [
    {}, {"ids": ("one", "nobody")}, {"ids": ()}, {"queues": ("other",)}, {"tasks": ("play",)},
    {"statuses": (Status.DEAD,)}, {"statuses": (Status.PENDING, Status.DEAD)},
    {"priority_min": 60}, {"priority_max": 60}, {"priority_min": 90, "priority_max": 90},
    {"metadata": {"tenant": "a"}}, {"metadata": {"tenant": "a", "size": 1}},
    {"metadata": {"size": "1"}}, {"metadata": {"none": None}}, {"metadata": {"vip": True}},
    {"metadata": {"odd.key'": "it's"}}, {"idempotency_key": "key"}, {"parent_id": "family"},
    {"error_text": "NO SUCH"}, {"error_text": "valueerror"}, {"error_text": "100%"},
    {"text": "HELLO"}, {"text": "such person"}, {"text": "100%_"}, {"text": "nowhere"},
    {"queues": ("default",), "tasks": ("work",), "text": "hello"},
]  # fmt: skip


class ReadingClauses(ConformanceBase):
    @pytest.fixture
    def varied(self, store: Store) -> Store:
        """A store with jobs that differ in every field of a filter."""
        kill(store, "dead", payload=b'{"args":["bye"]}', idempotency_key="key")
        submit(
            store,
            draft("one", payload=b'{"args":["Hello"]}', metadata={"tenant": "a", "size": 1}),
            draft("two", queue="other", priority=90, metadata={"tenant": "a", "none": None}),
            draft("three", task="play", parent_id="family", metadata={"size": "1", "vip": True}),
            draft("four", delay_seconds=5, priority=60, metadata={"odd.key'": "it's"}),
            draft("five", payload=b'{"args":["100%_"]}', metadata={"vip": 1, "size": 1.0}),
        )
        return store

    @pytest.mark.parametrize(
        ("written", "asked"),
        [("MÜNCHEN", "münchen"), ("münchen", "MÜNCHEN"), ("straße", "STRASSE"), ("ΑΘΗΝΑ", "αθηνα")],
    )
    def test_sea_1_text_is_found_in_any_case(self, store: Store, written: str, asked: str) -> None:
        submit(store, draft("payload", payload=f'{{"city":"{written}"}}'.encode()))
        submit(store, draft("error", priority=100))
        submit(store, draft("bytes", payload=b"\xff\x00 " + written.encode(), codec="pickle"))
        error = Fail(JobError("CityError", f"no way to {written}"), retryable=False)
        settle(store, lease_one(store), error)
        found = {job.id for job in store.search(JobFilter(text=asked)).jobs}
        assert found == {"payload", "bytes", "error"}
        found = {job.id for job in store.search(JobFilter(error_text=asked)).jobs}
        assert found == {"error"}
        assert store.search(JobFilter(text=asked + "x")).jobs == []

    def test_pos_1_how_many_are_served_before(self, store: Store) -> None:
        submit(
            store,
            draft("a", priority=10),
            draft("b", task="play"),
            draft("c"),
            draft("d", priority=90),
            draft("e", queue="other"),
            draft("f", delay_seconds=60),
        )
        assert [store.position(name) for name in "abcdef"] == [3, 1, 2, 0, 0, None]
        assert lease_one(store).job_id == "d"
        assert [store.position(name) for name in "abcd"] == [2, 0, 1, None]
        assert store.position("nobody") is None

    def test_pos_2_what_would_be_leased_next(self, store: Store, clock: ManualClock) -> None:
        rules = QueueConfig(max_concurrency=1, key_concurrency=1)
        store.create_queue("limited", rules, actor="me")
        clock.advance(1)
        submit(
            store,
            draft("a", priority=10),
            draft("b", task="play"),
            draft("c"),
            draft("d", priority=90),
            draft("e", queue="limited", limit_key="k"),
            draft("parked", queue="limited", limit_key="k"),
            draft("late", deadline=store.now() + timedelta(seconds=30)),
            draft("f", delay_seconds=60),
        )
        assert [job.id for job in store.peek("default")] == ["d"]
        assert [job.id for job in store.peek("default", limit=9)] == ["d", "late", "b", "c", "a"]
        assert store.peek("default")[0] == get(store, "d")
        assert [job.id for job in store.peek("limited", limit=9)] == ["e"]
        clock.advance(25)
        in_order = [job.id for job in store.peek("default", limit=3)]
        assert [lease_one(store).job_id for _ in range(3)] == in_order
        store.set_queue_state("default", QueueState.PAUSED, actor="me")
        assert len(store.peek("default", limit=9)) == 2
        assert store.peek("nobody's") == []
        with pytest.raises(InvalidPageError):
            store.peek("default", limit=0)

    def test_fid_1_ids_that_begin_alike(self, store: Store) -> None:
        names = ["0190-b", "0190-a", "0191", "zebra", "zebra é", "zebra 漢", "ZEBRA", "%_", "*"]
        store.submit([draft(name) for name in names])
        assert store.find_ids("0190") == ["0190-a", "0190-b"]
        assert store.find_ids("zebra") == ["zebra", "zebra é", "zebra 漢"]
        assert store.find_ids("zebra", limit=1) == ["zebra"]
        assert store.find_ids("0191") == ["0191"]
        assert store.find_ids("01911") == store.find_ids("_") == store.find_ids("z*") == []
        assert store.find_ids("", limit=100) == store.find_ids("", limit=10**18) == sorted(names)
        assert store.find_ids("", limit=0) == store.find_ids("", limit=-1) == []

    def test_his_1_no_gaps(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(delay_seconds=1))
        clock.advance(1)
        settle(store, lease_one(store, worker="first"), Snooze(1, "busy"))
        clock.advance(1)
        settle(store, lease_one(store, worker="second"), FAILURE)
        history = store.history("job")
        assert [event.sequence for event in history] == list(range(1, len(history) + 1))
        assert [event.before for event in history] == [None, *(each.after for each in history[:-1])]
        assert [event.event for event in history] == [
            Event.CREATED, Event.PROMOTED, Event.LEASED, Event.SNOOZED, Event.PROMOTED,
            Event.LEASED, Event.FAILED,
        ]  # fmt: skip
        assert [event.worker for event in history if event.event is Event.LEASED] == [
            "first", "second",
        ]  # fmt: skip
        assert [event.at for event in history] == sorted(event.at for event in history)
        assert history[3].message == "busy"
        assert {event.job_id for event in history} == {"job"}

    def test_his_2_replaying_gives_the_job(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(max_retries=1))
        for reset in (False, True):
            while get(store).status is not Status.DEAD:
                assert_history_replays(store, get(store))
                settle(store, lease_one(store), FAILURE)
                clock.advance(RETRY_SECONDS)
            store.replay(["job"], reset_attempts=reset, actor="me")
        assert_history_replays(store, get(store))
        settle(store, lease_one(store), Complete())
        assert_history_replays(store, get(store))

    def test_his_2_a_history_is_of_one_job(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"))
        assert store.history("nobody") == []
        assert len(store.history("one")) == 1

    def test_snapshots_are_frozen(self, store: Store) -> None:
        submit(store, draft(metadata={"tenant": "a"}))
        job = get(store)
        with pytest.raises(AttributeError):
            job.priority = 1  # type: ignore[misc]
        assert job.metadata is not None
        job.metadata["tenant"] = "b"
        assert get(store).metadata == {"tenant": "a"}
        assert store.get("nobody") is None

    @on_one_store("where", FILTERS)
    def test_search_says_what_the_filter_says(self, varied: Store, where: dict[str, Any]) -> None:
        names = ["five", "four", "three", "two", "one", "dead"]
        search = JobFilter(**where)
        expected = [name for name in names if search.matches(get(varied, name))]
        assert [job.id for job in varied.search(search).jobs] == expected

    def test_search_by_time(self, store: Store, clock: ManualClock) -> None:
        start = store.now()
        for name in ("one", "two", "three"):
            submit(store, draft(name))
            clock.advance(10)
        second, third = start + timedelta(seconds=10), start + timedelta(seconds=20)
        found = store.search(JobFilter(created_from=second, created_before=third)).jobs
        assert [job.id for job in found] == ["two"]

    def test_search_by_the_time_of_the_end(self, store: Store, clock: ManualClock) -> None:
        start = store.now()
        for name in ("one", "two", "three", "waits"):
            submit(store, draft(name))
        for lease in lease_all(store, limit=3):
            settle(store, lease, Complete())
            clock.advance(10)
        second, third = start + timedelta(seconds=10), start + timedelta(seconds=20)
        found = store.search(JobFilter(finished_from=second, finished_before=third)).jobs
        assert [job.id for job in found] == ["two"]
        assert store.count(JobFilter(finished_before=third)).jobs == 2

    def test_search_page_by_page(self, store: Store) -> None:
        store.submit([draft(f"job-{number}", priority=number) for number in range(7)])
        found: list[str] = []
        cursor: str | None = None
        sizes = []
        while True:
            page = store.search(JobFilter(priority_min=1), limit=2, cursor=cursor)
            sizes.append(len(page.jobs))
            found += [job.id for job in page.jobs]
            cursor = page.next_cursor
            if cursor is None:
                break
            # A job that comes in between does not disturb the reader.
            submit(store, draft(f"new-{cursor}"))
        assert found == [f"job-{number}" for number in range(6, 0, -1)]
        assert sizes == [2, 2, 2]

    def test_stats_count_and_total(self, store: Store) -> None:
        kill(store, "dead")
        submit(store, draft("done"), draft("waiting"), draft("far", queue="other"))
        settle(store, lease_one(store), Complete())
        stats = store.stats()
        assert {status: n for status, n in stats.counts.items() if n} == {
            Status.DEAD: 1, Status.COMPLETED: 1, Status.PENDING: 2,
        }  # fmt: skip
        assert (stats.submitted, stats.completed, stats.failed, stats.dead) == (4, 1, 1, 1)
        other = store.stats("other")
        assert (other.submitted, other.counts[Status.PENDING]) == (1, 1)
        assert store.stats("nowhere").as_mapping() == dict.fromkeys(stats.as_mapping(), 0)

    def test_queues_that_ever_held_a_job(self, store: Store) -> None:
        assert store.queues() == []
        kill(store)
        submit(store, draft("far", queue="other"))
        store.discard(["job"], actor="me")
        assert sorted(store.queues()) == ["default", "other"]

    def test_audit_says_who_did_what(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"))
        store.reprioritize("one", 80, actor="ann")
        store.cancel(["one", "two", "nobody"], reason="no need", actor="bob")
        store.replay(["one"], reset_attempts=True, actor="cid")
        store.cancel(["one"], reason="no need", actor="bob")
        store.discard(["one", "two"], actor="dan")
        audit = store.audit_page().records
        assert [(record.actor, record.action, record.count) for record in audit] == [
            ("dan", "discard", 2), ("bob", "cancel", 1), ("cid", "replay", 1),
            ("bob", "cancel", 2), ("ann", "reprioritize", 1),
        ]  # fmt: skip
        assert len(store.audit_page(limit=2).records) == 2
