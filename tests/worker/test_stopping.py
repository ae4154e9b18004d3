"""`is_running` and `stop(wait, timeout)` of the parts that have a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import pytest

from leasehold.core.model.lease import Renewal, Renewed, SweepReport
from leasehold.env import SYSTEM
from leasehold.errors import LeaseLostError
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.pruner import Pruner
from leasehold.worker.sweep import RecoverySweep
from leasehold.worker.worker import Worker
from support.workers import MoodyStore, Tasks


class Part(Protocol):
    @property
    def is_running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self, wait: bool = True, timeout: float | None = None) -> bool: ...


class SlowStore(MoodyStore):
    """A store whose sweeps and renewals take until they are let go."""

    def __init__(self) -> None:
        super().__init__(SYSTEM)
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def recover(self, *, actor: str | None = None) -> SweepReport:
        self._hold()
        return super().recover(actor=actor)

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        self._hold()
        return super().renew(worker, renewals)

    def _hold(self) -> None:
        self.entered.set()
        assert self.go_on.wait(30)


def heartbeat(store: MoodyStore) -> Part:
    return Heartbeat(
        store, "me", interval_seconds=0.001, on_lost=lambda *_: None, on_cancel=lambda *_: None
    )


@pytest.mark.parametrize(
    "make", [heartbeat, RecoverySweep, Pruner, lambda store: Worker(store, Tasks())]
)
def test_it_runs_from_its_start_to_its_stop(make: Callable[[MoodyStore], Part]) -> None:
    part = make(MoodyStore())
    assert not part.is_running
    assert part.stop(), "what was not started has stopped"
    part = make(MoodyStore())
    part.start()
    assert part.is_running
    assert part.stop()
    assert not part.is_running


@pytest.mark.parametrize("make", [heartbeat, RecoverySweep])
def test_who_does_not_wait_is_told_that_it_goes_on(make: Callable[[MoodyStore], Part]) -> None:
    store = SlowStore()
    part = make(store)
    part.start()
    assert store.entered.wait(30)
    assert not part.stop(wait=False)
    assert not part.stop(timeout=0.001)
    assert part.is_running
    store.go_on.set()
    assert part.stop()
    assert not part.is_running


def test_a_sweep_says_how_many_checkpoints_are_kept() -> None:
    store = MoodyStore()
    assert RecoverySweep(store).checkpoints_max == 100
    store.set_setting("attempt_records_max", 7, actor="me")
    assert RecoverySweep(store).checkpoints_max == 7
