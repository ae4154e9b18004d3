from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leasehold.core.model.lease import Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.retention import (
    BATCH_START,
    CleanUp,
    CleanUpMode,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreUnavailableError
from leasehold.worker.leases import LeaseManager
from leasehold.worker.pruner import LOOK_SECONDS_MAX, Pruner
from leasehold.worker.worker import Worker
from support.workers import MoodyStore, submit_to

POLICY = RetentionPolicy(completed_seconds=60, worth_cleaning=0)
DAY = 24 * 3600


class PrunedStore(MoodyStore):
    """One that notes how many jobs each write was to take, and says how long it held the lock."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.limits: list[int] = []
        self.lock_seconds = 0.0
        # On a busy machine it might forget by itself what the pruner is about to take.
        self.set_setting("retention_completed_seconds", None, actor="test")

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = Scope(),  # noqa: B008 - it is frozen.
        limit: int = 1000,
        actor: str,
    ) -> PruneReport:
        self._called("prune")
        report = super().prune(policy, run=run, scope=scope, limit=limit, actor=actor)
        if run is not None:
            self.limits.append(limit)
        if not report.taken:
            return report
        return PruneReport(
            run=report.run, more=report.more, taken=report.taken, lock_seconds=self.lock_seconds
        )


@pytest.fixture
def pruned_store(env: Env) -> PrunedStore:
    return PrunedStore(env)


def finish(store: MoodyStore, count: int) -> None:
    for number in range(count):
        submit_to(store, "t", id=f"{store.stats().submitted}-{number}")
    leases = LeaseManager(store, "w").acquire(limit=count)
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])


def advance_until(store: MoodyStore, clock: ManualClock, condition: Callable[[], bool]) -> None:
    while not condition():
        clock.advance(30)
        with store.news:
            store.news.wait(0.01)


def test_it_makes_a_whole_clean_up(pruned_store: PrunedStore, clock: ManualClock, env: Env) -> None:
    finish(pruned_store, 500)
    clock.advance(60)
    pruner = Pruner(pruned_store, policy=POLICY, env=env, actor="me")
    record = pruner.prune_once()
    assert record is not None
    assert (record.pruned, record.actor, record.ended_at) == (500, "me", clock.now())
    # Nothing was known of the machine at first; then it turned out to be quick.
    assert pruned_store.limits == [BATCH_START, 2 * BATCH_START, 4 * BATCH_START]
    assert pruner.prune_once() is None
    forced = pruner.prune_once(Scope(force=True))
    assert forced is not None
    assert forced.mode is CleanUpMode.FORCE
    statistics = pruner.statistics()
    assert (statistics.total_cleanups, statistics.total_pruned) == (2, 500)
    assert statistics.last_cleanup == forced


def test_it_pauses_between_writes_and_takes_less_where_it_is_slow(
    pruned_store: PrunedStore, clock: ManualClock, env: Env
) -> None:
    finish(pruned_store, 300)
    clock.advance(60)
    pruned_store.lock_seconds = 0.2
    pruner = Pruner(pruned_store, policy=POLICY, env=env)
    pruner.start()
    began = clock.monotonic()
    try:
        advance_until(pruned_store, clock, lambda: pruner.statistics().total_cleanups == 1)
    finally:
        pruner.stop()
    assert pruned_store.limits[:2] == [BATCH_START, BATCH_START // 10]
    assert clock.monotonic() - began >= 1.8 * (len(pruned_store.limits) - 1)


def test_it_cleans_once_a_day(pruned_store: PrunedStore, clock: ManualClock, env: Env) -> None:
    pruner = Pruner(pruned_store, policy=POLICY, env=env)
    pruner.start()
    try:
        advance_until(pruned_store, clock, lambda: len(pruned_store.cleanups()) == 1)
        assert pruner.statistics().is_running
        advance_until(pruned_store, clock, lambda: len(pruned_store.cleanups()) == 2)
        last, first = pruned_store.cleanups()
        assert (last.started_at - first.started_at).total_seconds() >= DAY
    finally:
        pruner.stop()
    assert not pruner.statistics().is_running


def test_it_stops_in_the_middle(pruned_store: PrunedStore, clock: ManualClock, env: Env) -> None:
    finish(pruned_store, 1000)
    clock.advance(60)
    pruned_store.lock_seconds = 0.02
    pruner = Pruner(pruned_store, policy=POLICY, env=env)
    pruner.start()
    advance_until(pruned_store, clock, lambda: len(pruned_store.limits) == 2)
    pruner.stop()
    [record] = pruned_store.cleanups()
    assert record.ended_at is None
    left = pruned_store.stats().counts[Status.COMPLETED]
    assert 0 < left == 1000 - record.pruned


def test_a_failure_is_counted_and_it_looks_again(
    pruned_store: PrunedStore, clock: ManualClock, env: Env
) -> None:
    pruned_store.refused.add("prune")
    pruner = Pruner(pruned_store, policy=POLICY, env=env)
    with pytest.raises(StoreUnavailableError):
        pruner.prune_once()
    assert pruner.step() == LOOK_SECONDS_MAX
    statistics = pruner.statistics()
    assert statistics.total_errors == 1
    assert statistics.last_error is not None
    assert "refused" in statistics.last_error.message
    pruned_store.refused.clear()
    assert 0 < pruner.step() <= LOOK_SECONDS_MAX
    assert pruner.statistics().total_cleanups == 1


def test_every_worker_runs_one(
    pruned_store: PrunedStore,
    clock: ManualClock,
    env: Env,
    start_worker: Callable[..., Worker],
) -> None:
    finish(pruned_store, 3)
    clock.advance(60)
    worker = start_worker(store=pruned_store, env=env, retention=POLICY)
    advance_until(pruned_store, clock, lambda: worker.statistics.pruner.total_pruned == 3)
    assert pruned_store.cleanups()[0].actor == worker.id


class SlowStore(PrunedStore):
    """One whose clock moves on by so many seconds with each write of a clean-up."""

    def __init__(self, env: Env, clock: ManualClock, seconds: float) -> None:
        super().__init__(env)
        self._moved, self._seconds = clock, seconds

    def prune(self, *args: Any, run: int | None = None, **options: Any) -> PruneReport:
        if run is not None:
            self._moved.advance(self._seconds)
        return super().prune(*args, run=run, **options)


@pytest.mark.parametrize(("seconds", "warnings"), [(1.0, 0), (61.0, 2)])
def test_a_slow_clean_up_is_worth_a_warning(
    env: Env, clock: ManualClock, caplog: pytest.LogCaptureFixture, seconds: float, warnings: int
) -> None:
    store = SlowStore(env, clock, seconds)
    finish(store, 1)
    clock.advance(120)
    records: list[CleanUp] = []
    pruner = Pruner(store, policy=POLICY, env=env)
    done = pruner.prune_once(Scope(force=True), on_progress=records.append)
    assert done is not None
    assert (done.is_slow, done.pruned) == (bool(warnings), 1)
    assert len(records) > 1
    assert {record.pruned for record in records} == {1}
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(told) == warnings
    for text in told:
        assert "clean-up 1 (force, by pruner): 1 completed, 1 archived, in " in text
    assert [text.endswith("continuing") for text in told] == [True, False][:warnings]
