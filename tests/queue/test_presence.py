"""Consumers count as workers."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from leasehold import ReasonKind, TaskQueue
from leasehold.core.model.lease import Consumer, Exchange, LeaseRequest, Settlement
from leasehold.core.model.records import SILENT_SECONDS
from leasehold.env import Env, ManualClock
from leasehold.errors import ForbiddenError, StoreBusyError
from leasehold.interrupts import Interrupted
from leasehold.observe.alerts import no_worker
from leasehold.observe.findings import Level
from leasehold.queue.health import ALERT_SECONDS, figures_of
from leasehold.queue.presence import TELL_SECONDS
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore


class Told(MemoryStore):
    """A store that remembers which exchanges told of a consumer."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.told: list[Consumer | None] = []

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        if request is not None:
            self.told.append(request.consumer)
        return super().exchange(settlements, request)


def test_a_queue_that_a_loop_serves_has_a_worker(still: TaskQueue, clock: ManualClock) -> None:
    assert still.lease(worker="camera", wait=0) is None
    job = still.submit("work")
    clock.advance(100)
    assert still.why(job).kind is ReasonKind.NEXT
    assert still.metrics("default").active_workers == 1
    [info] = still.workers()
    assert (info.id, info.is_consumer, info.queues) == ("camera", True, ("default",))
    assert (info.host, info.pid) == (socket.gethostname(), os.getpid())


def test_no_false_alarm_and_no_missing_one(still: TaskQueue, clock: ManualClock) -> None:
    def level() -> Level:
        lately = still.metrics("default", window_seconds=ALERT_SECONDS)
        figures = figures_of(still.queue_info("default"), len(still.workers()), lately)
        return no_worker(figures).level

    still.submit("work")
    clock.advance(400)
    assert level() is Level.CRITICAL
    lease = still.lease(worker="camera", lease_seconds=3600)
    assert lease is not None
    still.submit("work", job_id="other")
    clock.advance(400)
    assert level() is Level.OK, "it works on a long job, without a word"
    assert still.why("other").kind is ReasonKind.WORKERS_BUSY
    assert still.metrics("default").active_workers == 1
    still.ack(lease)
    assert level() is Level.CRITICAL, "nobody has come back for the next"
    assert still.why("other").kind is ReasonKind.NO_WORKER


def test_all_its_queues_count_while_it_serves_them(still: TaskQueue, clock: ManualClock) -> None:
    for _ in range(4):
        still.lease("mail", worker="camera", wait=0)
        still.lease("default", worker="camera", wait=0)
        clock.advance(TELL_SECONDS)
    assert {*still.workers()[0].queues} == {"mail", "default"}
    for _ in range(6):
        still.lease("mail", worker="camera", wait=0)
        clock.advance(TELL_SECONDS)
    assert still.workers()[0].queues == ("mail",)


def test_it_is_told_now_and_then_and_not_with_every_lease(clock: ManualClock) -> None:
    store = Told(Env(clock))
    queue = TaskQueue(store, num_workers=0, env=Env(clock))
    for _ in range(100):
        queue.lease(worker="camera", wait=0)
        clock.advance(1)
    assert len([each for each in store.told if each is not None]) == 4
    queue.lease("mail", worker="camera", wait=0)
    assert store.told[-1] is not None, "a queue that is new is told at once"
    clock.advance(SILENT_SECONDS + 1)
    assert queue.workers() == []
    queue.lease(worker="camera", wait=0)
    assert [info.id for info in queue.workers()] == ["camera"]
    queue.shutdown()


@pytest.mark.parametrize(
    "error",
    [StoreBusyError("wait"), KeyboardInterrupt(), Interrupted()],
    ids=lambda x: type(x).__name__,
)
def test_it_is_told_again_if_the_request_that_told_it_came_to_nothing(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    store = Told(Env(clock=clock))
    with TaskQueue(store, num_workers=0, env=Env(clock=clock)) as queue:
        exchange = store.exchange

        def fails(*_: object) -> Exchange:
            monkeypatch.setattr(store, "exchange", exchange)
            raise error

        monkeypatch.setattr(store, "exchange", fails)
        # A wait that was interrupted by a handler which returned goes on by itself.
        with nullcontext() if isinstance(error, Interrupted) else pytest.raises(type(error)):
            queue.lease(worker="camera", wait=0)
        queue.lease(worker="camera", wait=0)
        assert [each.id for each in queue.workers()] == ["camera"]
    assert len([each for each in store.told if each is not None]) == 2, "with its farewell"


def test_a_queue_that_the_store_refused_is_not_announced_with_others(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that its token is not for: every later request would be refused, too."""
    store = Told(Env(clock=clock))
    with TaskQueue(store, num_workers=0, env=Env(clock=clock)) as queue:
        exchange = store.exchange

        def only_mail(
            settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
        ) -> Exchange:
            consumer = None if request is None else request.consumer
            if consumer is not None and not {*consumer.queues} <= {"mail"}:
                raise ForbiddenError("this token is for the queue 'mail'")
            return exchange(settlements, request)

        monkeypatch.setattr(store, "exchange", only_mail)
        with pytest.raises(ForbiddenError):
            queue.lease("secret", worker="camera", wait=0)
        assert queue.lease("mail", worker="camera", wait=0) is None
        assert [each.queues for each in queue.workers()] == [("mail",)]


def test_who_is_shut_down_is_no_worker_any_more(clock: ManualClock) -> None:
    store = MemoryStore(Env(clock))
    with TaskQueue(store, num_workers=0, env=Env(clock)) as queue:
        for worker in ("camera-1", "camera-2"):
            queue.lease(worker=worker, wait=0)
        clock.advance(SILENT_SECONDS + 1)
        queue.lease(worker="camera-2", wait=0)
        queue.lease(worker="camera-3", wait=0)
        assert [info.id for info in store.workers()] == ["camera-2", "camera-3"]
    assert store.workers() == []


def test_a_store_that_is_closed_hinders_no_shutdown(clock: ManualClock, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock))
    queue = TaskQueue(store, num_workers=0, env=Env(clock))
    queue.lease(worker="camera", wait=0)
    store.close()
    queue.shutdown()


def test_who_leases_from_no_queue_gets_nothing(still: TaskQueue) -> None:
    still.submit("work")
    assert still.lease([], wait=0) is None


def test_without_a_name_it_has_that_of_its_process(still: TaskQueue) -> None:
    still.submit("work")
    lease = still.lease(wait=0)
    assert lease is not None
    assert lease.worker == f"{socket.gethostname()}-{os.getpid()}"
    assert [info.id for info in still.workers()] == [lease.worker]


def test_what_a_lease_says_of_its_length_wins(still: TaskQueue) -> None:
    still.submit("work")
    still.create_queue("slow", lease_seconds=600)
    still.submit("work", queue="slow")
    for name in ("default", "slow"):
        lease = still.lease(name, lease_seconds=7)
        assert lease is not None
        assert lease.lease_seconds == 7
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="lease_seconds"):
            still.lease(lease_seconds=wrong, wait=0)
