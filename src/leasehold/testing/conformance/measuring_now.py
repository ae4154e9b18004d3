"""MET-3, MET-5 to MET-8, MET-26, MET-27: how long jobs wait and run, and how a queue stands now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.histogram import Durations
from leasehold.core.model.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import SILENT_SECONDS, WorkerInfo
from leasehold.core.model.span import BANDS
from leasehold.env import Env, ManualClock
from leasehold.errors import InvalidWindowError
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    RETRY_SECONDS,
    ConformanceBase,
    draft,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.measuring import MINUTE, assert_adds_up, counts, live


class MeasuringNowClauses(ConformanceBase):
    def test_met_3_waits_and_runs(self, store: Store, clock: ManualClock) -> None:
        for number in range(99):
            live(store, clock, f"job-{number}", wait=1, run=0.02)
        live(store, clock, "slow", wait=50, run=20)
        figures = store.metrics()
        assert figures.wait.count == figures.run.count == 100
        assert figures.wait.mean_seconds == pytest.approx((99 * 1 + 50) / 100)
        assert figures.run.mean_seconds == pytest.approx((99 * 0.02 + 20) / 100)
        assert figures.wait.p50_seconds == pytest.approx(1, rel=0.1)
        assert figures.wait.p99_seconds == pytest.approx(1, rel=0.1)
        assert figures.run.p50_seconds == figures.run.p95_seconds == pytest.approx(0.02, rel=0.1)
        live(store, clock, "slower", wait=50, run=20)
        assert store.metrics().wait.p99_seconds == pytest.approx(50, rel=0.1)
        assert store.metrics().run.p99_seconds == pytest.approx(20, rel=0.1)

    def test_met_3_a_wait_begins_when_a_job_is_available(
        self, store: Store, clock: ManualClock
    ) -> None:
        past = clock.now() - timedelta(hours=5)
        submit(store, draft("delayed", delay_seconds=30), draft("overdue", run_at=past))
        clock.advance(40)
        lease = lease_all(store)[0]
        assert store.metrics().wait.mean_seconds == pytest.approx((10 + 40) / 2)
        settle(store, lease, FAILURE)
        clock.advance(RETRY_SECONDS + 1)
        lease_one(store)
        assert store.metrics().wait.mean_seconds == pytest.approx((10 + 40 + 1) / 3)

    def test_met_3_what_counts_as_a_run(self, store: Store, clock: ManualClock) -> None:
        submit(store, *(draft(f"job-{number}") for number in range(7)))
        leases = lease_all(store, lease_seconds=30)
        store.cancel([leases[5].job_id], reason="", actor="me")
        clock.advance(8)
        outcomes: list[Outcome] = [
            Complete(),
            FAILURE,
            Release(),
            Snooze(60),
            Cancel("enough"),
            FAILURE,
        ]
        for lease, outcome in zip(leases, outcomes, strict=False):
            settle(store, lease, outcome)
        clock.advance(30)
        assert store.recover().recovered == 1
        figures = store.metrics()
        assert (figures.wait.count, figures.run.count) == (7, 2)
        assert figures.run.mean_seconds == pytest.approx(8)
        assert (figures.completed, figures.failed, figures.error_rate) == (1, 1, 0.5)
        assert_adds_up(store, "default")

    def test_met_3_a_minute_has_percentiles_of_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        live(store, clock, "fast", run=1)
        clock.advance(MINUTE)
        live(store, clock, "slow", run=16)
        fast, slow = store.series(minutes=2)
        assert fast.run.p95_seconds == pytest.approx(1, rel=0.1)
        assert slow.run.p95_seconds == pytest.approx(16, rel=0.1)
        assert store.daily(days=1)[0].run.p50_seconds == pytest.approx(1, rel=0.1)
        assert store.daily(days=1)[0].run.mean_seconds == pytest.approx(8.5)

    def test_met_5_counts_totals_and_the_window(self, store: Store, clock: ManualClock) -> None:
        live(store, clock, "old", run=1)
        clock.advance(2 * 3600)
        for number in range(6):
            live(store, clock, f"job-{number}", run=1)
        submit(store, draft("bad"))
        settle(store, lease_one(store), FATAL)
        submit(store, draft("left"))
        figures = store.metrics(window_seconds=1800)
        assert figures.counts == store.stats().counts
        assert figures.totals["submitted"] == store.stats().submitted == 9
        assert counts(figures, "queue", "submitted", "completed", "dead", "pending", "deepest") == (
            None, 8, 6, 1, 1, 1,
        )  # fmt: skip
        assert figures.error_rate == pytest.approx(1 / 7)
        assert figures.at == store.now()
        assert timedelta(seconds=1800) <= figures.at - figures.since < timedelta(seconds=1860)
        assert figures.since.second == figures.since.microsecond == 0
        seconds = (figures.at - figures.since).total_seconds()
        assert figures.throughput_per_second == pytest.approx(6 / seconds)

    def test_met_5_how_deep_a_queue_was_when_the_window_began(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, *(draft(f"early-{number}") for number in range(3)))
        clock.advance(20 * MINUTE)
        submit(store, *(draft(f"late-{number}") for number in range(4)), draft("x", queue="other"))
        by_queue = store.metrics_by_queue(window_seconds=300)
        figures = [store.metrics("default", window_seconds=300)]
        figures += [each for each in by_queue if each.queue == "default"]
        assert [(each.pending_before, each.pending) for each in figures] == [(3, 7)] * 2
        whole = store.metrics(window_seconds=300)
        assert (whole.pending_before, whole.pending) == (3, 8)
        clock.advance(20 * MINUTE)
        idle = store.metrics("default", window_seconds=300)
        assert (idle.pending_before, idle.pending) == (7, 7)

    def test_met_6_pending_jobs_by_band(self, store: Store, clock: ManualClock) -> None:
        levels = (0, 49, 50, 74, 75, 99, 100)
        drafts = [draft(f"job-{level}", priority=level) for level in levels]
        submit(store, *drafts, draft("later", priority=100, delay_seconds=10))
        submit(store, draft("elsewhere", queue="other", priority=100))

        def bands(queue: str | None = "default") -> list[int]:
            by_band = store.metrics(queue).pending_by_priority
            return [by_band[band] for band in BANDS]

        assert bands() == [2, 2, 2, 1]
        assert bands(None) == [2, 2, 2, 2]
        held = lease_all(store, limit=2)
        assert bands() == [2, 2, 1, 0]
        settle(store, held[0], Release())
        store.reprioritize("job-0", 80, actor="me")
        store.cancel(["job-50"], reason="", actor="me")
        assert bands() == [1, 1, 2, 1]
        settle(store, held[1], FAILURE)
        store.replay(["job-50"], reset_attempts=True, actor="me")
        clock.advance(60)
        store.promote()
        assert bands() == [1, 2, 3, 2]
        assert store.check() == []

    def test_met_7_the_oldest_pending_job(self, store: Store, clock: ManualClock) -> None:
        def age(queue: str | None = None) -> float | None:
            return store.metrics(queue).oldest_pending_age_seconds

        assert age() is None
        submit(store, draft("low", priority=1))
        clock.advance(10)
        submit(store, draft("high", priority=99), draft("other", queue="other", task="play"))
        clock.advance(5)
        assert (age(), age("default"), age("other")) == (15, 15, 5)
        assert lease_one(store).job_id == "high"
        assert age("default") == 15
        lease_one(store)
        assert (age("default"), age()) == (None, 5)

    def test_met_7_the_age_counts_from_when_it_became_available(
        self, store: Store, clock: ManualClock
    ) -> None:
        # Submitted first, but available last.
        submit(store, *(draft(f"late-{n}", delay_seconds=100) for n in range(200)))
        clock.advance(95)
        submit(store, draft("plain"))
        clock.advance(7)
        store.promote()
        assert store.metrics().oldest_pending_age_seconds == 7
        store.cancel(["plain"], reason="", actor="me")
        assert store.metrics().oldest_pending_age_seconds == 2

    def test_met_7_deadlines_change_the_order_but_no_age(
        self, store: Store, clock: ManualClock
    ) -> None:
        soon = clock.now() + timedelta(hours=2)
        submit(store, draft("low", priority=1, deadline=soon))
        clock.advance(60)
        submit(store, draft("high", priority=99, deadline=soon), draft("plain"))
        for waited in (0, 5400, 3600, 200_000):
            clock.advance(waited)
            store.recover()
            expected = (clock.now() - soon).total_seconds() + 2 * 3600
            assert store.metrics().oldest_pending_age_seconds == expected

    def test_met_26_all_queues_at_once(self, store: Store, clock: ManualClock) -> None:
        assert store.metrics_by_queue() == []
        store.create_queue("empty", QueueConfig(), actor="me")
        store.create_queue("keyed", QueueConfig(key_concurrency=1), actor="me")
        submit(store, *(draft(f"k-{n}", queue="keyed", limit_key="one") for n in range(3)))
        lease_one(store, queues=("keyed",))
        clock.advance(10)
        soon = clock.now() + timedelta(minutes=5)
        for level in (1, 50, 99):
            submit(store, draft(f"job-{level}", priority=level), draft(f"o-{level}", queue="other"))
            live(store, clock, f"lived-{level}", run=level)
        submit(store, draft("due", queue="other", task="play", deadline=soon))
        settle(store, lease_one(store), FAILURE)
        clock.advance(MINUTE)
        for window in (30, 7200):
            assert store.metrics_by_queue(window_seconds=window) == [
                store.metrics(name, window_seconds=window) for name in store.queues()
            ]
        assert [each.queue for each in store.metrics_by_queue()] == [
            "default", "empty", "keyed", "other",
        ]  # fmt: skip
        with pytest.raises(InvalidWindowError):
            store.metrics_by_queue(window_seconds=0)

    def test_met_27_only_the_durations_that_are_asked_for(
        self, store: Store, clock: ManualClock
    ) -> None:
        for minute in range(3):
            for queue in ("default", "other"):
                live(store, clock, f"{queue}-{minute}", queue=queue, wait=minute + 1, run=7)
            clock.advance(MINUTE)
        whole = store.metrics_by_queue()
        assert [each.wait.count for each in whole] == [3, 3]
        assert [each.run.p50_seconds for each in whole] == pytest.approx([7, 7], rel=0.1)
        no_bands = dict.fromkeys(BANDS, Durations())
        some = store.metrics_by_queue(durations=("wait", "held"))
        assert some == [
            msgspec.structs.replace(each, run=Durations(), wait_by_priority=no_bands)
            for each in whole
        ]
        none = store.metrics_by_queue(durations=())
        assert [(each.completed, each.wait, each.held) for each in none] == [
            (3, Durations(), Durations())
        ] * 2
        wrong: Any = ["walk"]
        with pytest.raises(InvalidWindowError, match="walk"):
            store.metrics_by_queue(durations=wrong)

    def test_met_8_active_workers(self, store: Store, env: Env, clock: ManualClock) -> None:
        def enter(name: str, *queues: str) -> None:
            now = env.now()
            info = WorkerInfo(
                id=name, host="h", pid=1, queues=queues, slots=1, started_at=now, heartbeat_at=now
            )
            lives.append(store.register_worker(info))

        lives: list[Any] = []
        enter("both", "a", "b")
        enter("one", "a")
        assert [store.metrics(queue).active_workers for queue in ("a", "b", "c", None)] == [
            2, 1, 0, 2,
        ]  # fmt: skip
        clock.advance(SILENT_SECONDS)
        store.renew("one", [])
        clock.advance(1)
        assert [store.metrics(queue).active_workers for queue in ("a", "b", None)] == [1, 0, 1]
        for each in lives:
            each.close()
        assert store.metrics().active_workers == 0
