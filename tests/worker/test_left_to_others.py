"""Which tasks a worker leaves to others, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.core.model.lease import Lease, LeaseRequest
from leasehold.core.model.records import SILENT_SECONDS, WorkerInfo
from leasehold.env import ManualClock
from leasehold.errors import StoreBusyError
from leasehold.worker.left_to_others import LOOK_SECONDS, LeftToOthers
from support.workers import MoodyStore, submit_to

LANE = ("default", "shop:pay")


@pytest.fixture
def store(timed_store: MoodyStore) -> MoodyStore:
    return timed_store


@pytest.fixture
def lease(store: MoodyStore) -> Lease:
    submit_to(store, LANE[1])
    [lease] = store.exchange([], LeaseRequest(worker="me")).leases
    return lease


def enter(store: MoodyStore, name: str, *tasks: str, queues: tuple[str, ...] = ("default",)) -> Any:
    now = store.now()
    return store.register_worker(
        WorkerInfo(id=name, queues=queues, slots=1, started_at=now, heartbeat_at=now, tasks=tasks)
    )


def left_by(store: MoodyStore, clock: ManualClock, *, may_import: bool = False) -> LeftToOthers:
    return LeftToOthers(store, "me", lambda _: may_import, clock)


@pytest.mark.parametrize(
    ("tasks", "queues", "is_left"),
    [
        (("shop:pay",), ("default",), True),
        (("shop:*",), ("default",), True),
        (("shop:pay",), ("*",), True),
        (("shop:pay",), ("mail",), False),
        (("shop:buy", "shopping:*"), ("default",), False),
        ((), ("default",), False),
    ],
)
def test_a_job_is_left_to_who_knows_its_task_and_serves_its_queue(
    store: MoodyStore,
    clock: ManualClock,
    lease: Lease,
    tasks: tuple[str, ...],
    queues: tuple[str, ...],
    is_left: bool,
) -> None:
    enter(store, "me", "shop:pay")
    enter(store, "other", *tasks, queues=queues)
    others = left_by(store, clock)
    release = others.release(lease, "no such task")
    assert (release is not None) is is_left
    assert others.lanes() == ((LANE,) if is_left else ())
    if release is not None:
        assert release.delay_seconds == 0


def test_two_that_may_import_a_module_do_not_leave_its_tasks_to_each_other(
    store: MoodyStore, clock: ManualClock, lease: Lease
) -> None:
    enter(store, "other", "shop:*")
    assert left_by(store, clock, may_import=True).release(lease, "no such function") is None
    enter(store, "third", "shop:pay")
    assert left_by(store, clock, may_import=True).release(lease, "no such function") is not None


def test_it_takes_them_again_when_the_others_are_gone(
    store: MoodyStore, clock: ManualClock, lease: Lease
) -> None:
    life = enter(store, "other", "shop:pay")
    others = left_by(store, clock)
    assert others.release(lease, "no such task")
    clock.advance(LOOK_SECONDS)
    assert others.lanes() == (LANE,)
    life.close()
    clock.advance(LOOK_SECONDS)
    assert others.lanes() == ()
    assert others.release(lease, "no such task") is None


def test_it_takes_them_again_when_the_others_are_silent(
    store: MoodyStore, clock: ManualClock, lease: Lease
) -> None:
    enter(store, "other", "shop:pay")
    others = left_by(store, clock)
    assert others.release(lease, "no such task")
    clock.advance(SILENT_SECONDS + 1)
    assert others.lanes() == ()


def test_a_store_in_trouble_changes_nothing(
    store: MoodyStore, clock: ManualClock, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> list[WorkerInfo]:
        raise StoreBusyError("locked")

    enter(store, "other", "shop:pay")
    others = left_by(store, clock)
    assert others.release(lease, "no such task")
    monkeypatch.setattr(store, "workers", broken)
    clock.advance(LOOK_SECONDS)
    assert others.lanes() == (LANE,)
