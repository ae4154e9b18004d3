"""When a worker looks at the schedules."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.timing import Every
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreUnavailableError
from leasehold.stores.memory import MemoryStore
from leasehold.worker.ticking import LOOK_SECONDS_MAX, TICK_SECONDS_MIN, Ticking

PING = ScheduleDraft(name="ping", timing=Every(10), job=Draft(id="ping", task="work"))


@pytest.fixture
def store(env: Env) -> MemoryStore:
    return MemoryStore(env)


def test_it_looks_at_the_tick_that_it_was_told(
    store: MemoryStore, clock: ManualClock, env: Env
) -> None:
    ticking = Ticking(store, env)
    store.set_schedule(PING, actor="me")
    ticking.note(store.now() + timedelta(seconds=10), store.now(), clock.monotonic())
    assert ticking.look_at == clock.monotonic() + 10
    clock.advance(9)
    ticking.fire_if_due(clock.monotonic())
    assert store.stats().submitted == 0
    clock.advance(1)
    ticking.fire_if_due(clock.monotonic())
    assert store.stats().submitted == 1
    assert ticking.look_at == clock.monotonic() + 10


def test_without_schedules_it_looks_now_and_then(
    store: MemoryStore, clock: ManualClock, env: Env
) -> None:
    ticking = Ticking(store, env)
    assert ticking.look_at == clock.monotonic() + LOOK_SECONDS_MAX
    store.set_schedule(PING, actor="me")
    clock.advance(LOOK_SECONDS_MAX)
    ticking.fire_if_due(clock.monotonic())
    assert store.stats().submitted == 1
    ticking.note(store.now() + timedelta(days=1), store.now(), clock.monotonic())
    assert ticking.look_at == clock.monotonic() + LOOK_SECONDS_MAX


def test_a_tick_that_has_passed_makes_nobody_spin(
    store: MemoryStore, clock: ManualClock, env: Env
) -> None:
    ticking = Ticking(store, env)
    ticking.note(store.now() - timedelta(days=1), store.now(), clock.monotonic())
    assert ticking.look_at == clock.monotonic() + TICK_SECONDS_MIN


def test_a_store_in_trouble_is_left_alone_for_a_while(
    store: MemoryStore, clock: ManualClock, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking = Ticking(store, env)

    def fail() -> None:
        raise StoreUnavailableError("it is locked")

    monkeypatch.setattr(store, "fire_schedules", fail)
    clock.advance(LOOK_SECONDS_MAX)
    with pytest.raises(StoreUnavailableError):
        ticking.fire_if_due(clock.monotonic())
    assert ticking.look_at == clock.monotonic() + LOOK_SECONDS_MAX
