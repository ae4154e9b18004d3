"""Schedules in each store's own way: seeks, refusals, and a row that this machine cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.budget import SCHEDULED_JOBS_AT_ONCE
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.schedule import REFUSED_AGAIN_SECONDS, ScheduleDraft
from leasehold.core.model.timing import Every
from leasehold.env import Env, ManualClock
from leasehold.errors import InvalidScheduleError, StoreFullError
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.files import StoreFiles
from leasehold.stores.sqlite.rules.schedules import DUE
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import schedules

PING = ScheduleDraft(name="ping", timing=Every(60), job=Draft(id="ping", task="work"))
PONG = ScheduleDraft(name="pong", timing=Every(60), job=Draft(id="pong", task="work"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "jobs.db", env=Env(clock))
    yield opened
    opened.close()


def lease_ids(store: Store) -> set[str]:
    request = LeaseRequest(worker="me", limit=10)
    return {lease.job_id for lease in store.exchange(request=request).leases}


def assert_tried_again(store: Store, clock: ManualClock) -> None:
    """The refused tick is still due, is not tried at every look, and is fired in the end."""
    refused = store.get_schedule("ping")
    assert refused is not None
    assert refused.fired == 0
    assert refused.error is not None
    assert refused.due_at == store.now() + timedelta(seconds=REFUSED_AGAIN_SECONDS)
    assert refused.next_at == store.now()
    assert store.fire_schedules().next_tick_at == refused.due_at


def test_a_full_memory_store_refuses_a_tick_until_there_is_room(clock: ManualClock) -> None:
    store = MemoryStore(Env(clock), capacity=1)
    store.submit([Draft(id="first", task="work")])
    store.set_schedule(PING, actor="me")
    clock.advance(60)
    assert lease_ids(store) == {"first"}
    assert_tried_again(store, clock)
    store.cancel(["first"], reason="room", actor="me")
    store.recover_one("first", 1, reset_attempts=False, reason="room")
    clock.advance(REFUSED_AGAIN_SECONDS)
    assert lease_ids(store) == {"ping@2030-01-01T00:01:00Z"}


def test_a_full_disk_refuses_ticks_and_lets_the_rest_go_on(
    store: SQLiteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.submit([Draft(id="first", task="work")])
    store.set_schedule(PING, actor="me")
    clock.advance(60)
    with monkeypatch.context() as patch:
        patch.setattr(StoreFiles, "free_bytes", lambda _: 1024)
        assert lease_ids(store) == {"first"}
        assert_tried_again(store, clock)
        with pytest.raises(StoreFullError):
            store.set_schedule(PONG, actor="me")
        with pytest.raises(StoreFullError):
            store.run_schedule("ping", job_id="now", actor="me")
    assert store.get_schedule("pong") is None
    clock.advance(REFUSED_AGAIN_SECONDS)
    assert lease_ids(store) == {"ping@2030-01-01T00:01:00Z"}


def test_a_schedule_that_makes_no_sense_here_hinders_nobody(
    store: SQLiteStore, clock: ManualClock
) -> None:
    """Another machine may know a time zone that this one does not."""
    store.set_schedule(PING, actor="me")
    store.set_schedule(PONG, actor="me")

    def spoil(step: Step) -> None:
        step.execute(
            "UPDATE schedule SET draft = json_replace(draft, '$.timing', json(?)) WHERE name = ?",
            ('{"type": "cron", "expression": "* * * * *", "zone": "Mars/Olympus"}', "ping"),
        )

    store._database.write(spoil)
    clock.advance(60)
    assert lease_ids(store) == {"pong@2030-01-01T00:01:00Z"}
    with pytest.raises(InvalidScheduleError, match=r"'ping'.*Mars"):
        store.get_schedule("ping")
    assert store.fire_schedules().next_tick_at == store.now() + timedelta(0, REFUSED_AGAIN_SECONDS)
    mended = store.set_schedule(PING, actor="me")
    assert (mended.error, mended.next_at) == (None, store.now() + timedelta(minutes=1))


def test_many_due_ticks_are_fired_in_several_writes(store: SQLiteStore, clock: ManualClock) -> None:
    many = 5
    for number in range(many):
        name = f"s{number}"
        store.set_schedule(
            ScheduleDraft(
                name=name,
                timing=Every(1),
                job=Draft(id=name, task="work"),
                misfire="catch_up",
                catch_up_max=1000,
            ),
            actor="me",
        )
    clock.advance(1000)
    first = store.fire_schedules()
    assert first.jobs == SCHEDULED_JOBS_AT_ONCE
    assert first.next_tick_at is not None
    assert first.next_tick_at <= store.now()
    writes = 1000 * many // SCHEDULED_JOBS_AT_ONCE
    assert [store.fire_schedules().jobs for _ in range(writes)] == [
        *[SCHEDULED_JOBS_AT_ONCE] * (writes - 1),
        0,
    ]
    assert all(each.fired == 1000 and each.missed == 0 for each in store.schedules())


def test_looking_for_due_schedules_is_a_seek(store: SQLiteStore) -> None:
    def plan(step: Step) -> str:
        steps = []
        for query, values in ((schedules.NEXT_LOOK, ()), (DUE, (1, 1))):
            steps += [str(row[3]) for row in step.execute(f"EXPLAIN QUERY PLAN {query}", values)]
        return "; ".join(steps)

    described = store._database.write(plan)
    assert described.count("USING") == 2
    assert described.count("schedule_by_due") == 2
    assert "TEMP B-TREE" not in described


def test_a_store_without_schedules_is_asked_with_one_statement(
    store: SQLiteStore,
) -> None:
    asked: list[str] = []

    def listen(step: Step) -> None:
        step.db.trace_v2(1, lambda event: asked.append(str(event["sql"])))

    store._database.write(listen)
    lease_ids(store)
    assert [sql for sql in asked if "schedule" in sql] == [schedules.NEXT_LOOK]


def test_schedules_are_there_when_the_store_is_opened_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "kept.db"
    first = SQLiteStore(path, env=Env(clock))
    kept = first.set_schedule(PING, actor="me")
    first.close()
    clock.advance(180)
    again = SQLiteStore(path, env=Env(clock))
    assert again.set_schedule(PING, actor="me") == kept
    assert lease_ids(again) == {"ping@2030-01-01T00:03:00Z"}
    again.close()
