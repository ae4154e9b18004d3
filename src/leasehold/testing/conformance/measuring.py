"""MET-1, MET-2, MET-4, MET-9, MET-10: figures of queues by the minute and by the day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.span import COUNTED, DAYS_KEPT, MINUTES_KEPT
from leasehold.core.model.status import Status
from leasehold.core.rules.metrics import (
    DayPoint,
    Figures,
    MinutePoint,
)
from leasehold.env import ManualClock
from leasehold.errors import InvalidWindowError, LeaseholdError
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    at_once,
    draft,
    lease_all,
    lease_one,
    settle,
    submit,
)

MINUTE = 60.0
DAY = 24 * 3600.0


MINUTES_OF_A_TEST: Final = 60
"""In which a test does all that is added up in the end: to read two days takes long."""


def live(
    store: Store,
    clock: ManualClock,
    job_id: str,
    *,
    queue: str = "default",
    wait: float = 0,
    run: float = 0,
) -> None:
    """Take a job through its whole life."""
    submit(store, draft(job_id, queue=queue))
    clock.advance(wait)
    lease = lease_one(store, queues=(queue,))
    clock.advance(run)
    settle(store, lease, Complete())


def totals_of(store: Store, queue: str | None = None) -> dict[str, int]:
    """The counts of all queues in all kept minutes, or of one in those since the test began."""
    points = store.series(queue, minutes=MINUTES_KEPT if queue is None else MINUTES_OF_A_TEST)
    return {name: sum(getattr(point, name) for point in points) for name in COUNTED}


def assert_adds_up(store: Store, *queues: str) -> None:
    """MET-1 for a store that is younger than its oldest minute."""
    for queue in (None, *queues):
        stats = store.stats(queue)
        counted = totals_of(store, queue)
        assert counted == {name: getattr(stats, name) for name in COUNTED}
        totals = store.metrics(queue).totals
        assert counted == {name: totals[name] for name in COUNTED}
        days = store.daily(queue, days=DAYS_KEPT)
        assert {name: sum(getattr(day, name) for day in days) for name in COUNTED} == counted
    assert store.check() == []


def counts(point: Figures, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(point, name) for name in names)


class MeasuringClauses(ConformanceBase):
    def test_met_1_each_minute_has_what_was_written_in_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one"), draft("two", max_retries=0), draft("three"), draft("four"))
        clock.advance(MINUTE)
        one, two, three = lease_all(store, limit=3)
        clock.advance(MINUTE)
        settle(store, one, Complete())
        settle(store, two, FAILURE)
        settle(store, three, FAILURE)
        store.cancel(["four"], reason="", actor="me")
        names = (
            "submitted", "leased", "completed", "failed", "retried", "dead", "cancelled", "pending",
        )  # fmt: skip
        assert [counts(point, *names) for point in store.series(minutes=4)] == [
            (0, 0, 0, 0, 0, 0, 0, 0),
            (4, 0, 0, 0, 0, 0, 0, 4),
            (0, 3, 0, 0, 0, 0, 0, 1),
            (0, 0, 1, 2, 1, 1, 1, 0),
        ]
        assert_adds_up(store, "default")

    def test_met_1_the_edge_of_a_minute(self, store: Store, clock: ManualClock) -> None:
        clock.advance(MINUTE - 1e-6)
        submit(store, draft("last"))
        clock.advance(1e-6)
        submit(store, draft("first"), draft("second"))
        points = store.series(minutes=2)
        assert [point.submitted for point in points] == [1, 2]
        assert [point.at for point in points] == [clock.now() - timedelta(minutes=1), clock.now()]

    def test_met_1_everything_that_is_counted(self, store: Store, clock: ManualClock) -> None:
        store.create_queue("small", QueueConfig(max_depth=1), actor="me")
        submit(store, draft("one", queue="small"), draft("poison", max_retries=0), draft("lost"))
        clock.advance(MINUTE)
        with pytest.raises(LeaseholdError):
            store.submit([draft("two", queue="small")])
        clock.advance(MINUTE)
        lease_all(store, limit=2, lease_seconds=1)
        clock.advance(MINUTE)
        store.recover()
        clock.advance(MINUTE)
        store.cancel(["one"], reason="", actor="me")
        clock.advance(MINUTE)
        store.discard(["one"], actor="me")
        points = store.series(minutes=6)
        assert [counts(point, "rejected", "dead", "recovered", "cleaned") for point in points] == [
            (0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0), (0, 1, 1, 0), (0, 0, 0, 0), (0, 0, 0, 1),
        ]  # fmt: skip
        assert_adds_up(store, "default", "small")

    def test_met_1_what_was_rolled_back_counts_nowhere(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one"))
        clock.advance(MINUTE)
        # The first write of the new minute comes to nothing; the old one must end all the same.
        with pytest.raises(LeaseholdError):
            store.submit([draft("two"), draft("one")])
        submit(store, draft("three"))
        assert [point.submitted for point in store.series(minutes=2)] == [1, 1]
        assert_adds_up(store, "default")

    def test_met_1_many_threads_miss_nothing(self, store: Store, clock: ManualClock) -> None:
        for minute in range(3):
            at_once(4, lambda number, m=minute: submit(store, draft(f"{m}-{number}")))  # type: ignore[misc]
            at_once(4, lambda _: settle(store, lease_one(store), Complete()))
            clock.advance(MINUTE)
        points = store.series(minutes=4)
        assert [counts(point, "submitted", "leased", "completed") for point in points] == [
            *[(4, 4, 4)] * 3, (0, 0, 0),
        ]  # fmt: skip
        assert_adds_up(store, "default")

    def test_met_1_each_queue_for_itself(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("a", queue="a"), draft("b", queue="b"), draft("c", queue="b"))
        clock.advance(MINUTE)
        submit(store, draft("d", queue="a", task="play"))
        assert [point.submitted for point in store.series("a", minutes=2)] == [1, 1]
        assert [point.submitted for point in store.series("b", minutes=2)] == [2, 0]
        assert [point.submitted for point in store.series(minutes=2)] == [3, 1]
        # Depths of all queues are added up, but the deepest is the depth of one.
        assert [counts(point, "pending", "deepest") for point in store.series(minutes=2)] == [
            (3, 2), (4, 2),
        ]  # fmt: skip
        assert_adds_up(store, "a", "b")

    def test_met_2_figures_outlive_the_jobs(self, store: Store, clock: ManualClock) -> None:
        for number in range(3):
            live(store, clock, f"job-{number}", wait=2, run=4)
        clock.advance(2 * MINUTE)
        before = store.series(minutes=10)[:-1]
        metrics = store.metrics()
        store.discard(["job-0"], actor="me")
        policy = RetentionPolicy(completed_seconds=1, worth_cleaning=0)
        report = store.prune(policy, scope=Scope(emergency=True), actor="me")
        while report.more:
            report = store.prune(policy, run=report.run, scope=Scope(emergency=True), actor="me")
        assert store.get("job-1") is None
        after = store.series(minutes=10)
        assert after[:-1] == before
        assert after[-1].cleaned == 3
        assert counts(store.metrics(), "wait", "run", "completed") == (
            metrics.wait, metrics.run, 3,
        )  # fmt: skip
        assert_adds_up(store, "default")

    def test_met_4_minutes_are_kept_for_two_days(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"))
        clock.advance((MINUTES_KEPT - 1) * MINUTE)
        submit(store, draft("two"))
        assert store.series(minutes=MINUTES_KEPT)[0].submitted == 1
        assert store.metrics(window_seconds=MINUTES_KEPT * MINUTE).submitted == 2
        for number in range(3):
            clock.advance(MINUTE)
            submit(store, draft(f"later-{number}"))
        points = store.series(minutes=MINUTES_KEPT)
        assert sum(point.submitted for point in points) == 4
        # A forgotten minute was added to its day, and the depth that it left is still known.
        assert points[0].pending == 1
        assert sum(day.submitted for day in store.daily(days=5)) == 5

    def test_met_4_days_are_kept_for_400(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"))
        clock.advance((DAYS_KEPT - 1) * DAY)
        submit(store, draft("two"))
        assert [day.submitted for day in store.daily(days=DAYS_KEPT)][0::399] == [1, 1]
        clock.advance(2 * DAY)
        submit(store, draft("three"))
        clock.advance(MINUTE)
        submit(store, draft("four"))
        assert sum(day.submitted for day in store.daily(days=DAYS_KEPT)) == 3

    def test_met_4_what_makes_no_sense_is_refused(self, store: Store) -> None:
        for window in (0, -1, MINUTES_KEPT * MINUTE + 1, float("nan"), True, "hour"):
            with pytest.raises(InvalidWindowError, match="window_seconds must be"):
                store.metrics(window_seconds=window)  # type: ignore[arg-type]
        for number in (0, -1, 1.5, True, 10_000, "ten"):
            with pytest.raises(InvalidWindowError, match="minutes must be"):
                store.series(minutes=number)  # type: ignore[arg-type]
            with pytest.raises(InvalidWindowError, match="days must be"):
                store.daily(days=number)  # type: ignore[arg-type]

    def test_met_4_an_unknown_queue_has_zeros(self, store: Store) -> None:
        submit(store, draft("one"))
        figures = store.metrics("nobody")
        assert set(figures.totals.values()) == set(figures.counts.values()) == {0}
        assert figures.oldest_pending_age_seconds is None
        assert figures.wait.p50_seconds is None
        assert {point.submitted for point in store.series("nobody")} == {0}
        assert {day.submitted for day in store.daily("nobody")} == {0}
        assert "nobody" not in store.queues()

    def test_met_9_idle_minutes_keep_their_depth(self, store: Store, clock: ManualClock) -> None:
        clock.advance(30)
        submit(store, draft("one"), draft("two"))
        clock.advance(3 * MINUTE)
        lease_one(store)
        clock.advance(2 * MINUTE)
        points = store.series(minutes=8)
        assert [point.pending for point in points] == [0, 0, 2, 2, 2, 1, 1, 1]
        assert [point.deepest for point in points] == [0, 0, 2, 2, 2, 2, 1, 1]
        assert [point.at - points[0].at for point in points] == [
            timedelta(minutes=number) for number in range(8)
        ]
        assert points[-1].at == clock.now() - timedelta(seconds=30)
        assert all(type(point) is MinutePoint for point in points)

    def test_met_9_a_clock_that_steps_back_ends_no_minute_twice(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one"))
        clock.advance(MINUTE)
        submit(store, draft("two"))
        clock.step_wall_clock(-10 * MINUTE)
        submit(store, draft("three"))
        clock.step_wall_clock(10 * MINUTE)
        clock.advance(MINUTE)
        submit(store, draft("four"))
        assert [point.submitted for point in store.series(minutes=3)] == [1, 2, 1]
        assert_adds_up(store, "default")

    def test_met_10_a_day_is_the_sum_of_its_minutes(self, store: Store, clock: ManualClock) -> None:
        for number in range(5):
            live(store, clock, f"job-{number}", wait=1, run=3)
            clock.advance(MINUTE)
        submit(store, *(draft(f"deep-{number}") for number in range(7)))
        clock.advance(MINUTE)
        lease_all(store)
        clock.advance(DAY)
        submit(store, draft("tomorrow"))
        minutes = store.series(minutes=MINUTES_KEPT)
        before, first, second = store.daily(days=3)
        of_first = [point for point in minutes if point.at.date() == first.day]
        for name in COUNTED:
            assert getattr(first, name) == sum(getattr(point, name) for point in of_first)
        assert counts(first, "submitted", "completed", "deepest", "pending") == (12, 5, 7, 0)
        assert first.run.mean_seconds == pytest.approx(3)
        assert first.run.p95_seconds == pytest.approx(3, rel=0.1)
        assert counts(second, "submitted", "deepest", "pending") == (1, 1, 1)
        assert before.submitted == 0
        assert (second.day - first.day, first.day - before.day) == (timedelta(1), timedelta(1))
        assert type(first) is DayPoint
        assert store.stats().counts[Status.PENDING] == 1
