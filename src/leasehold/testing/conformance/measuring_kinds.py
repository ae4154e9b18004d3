"""MET-11 to MET-15: figures by priority and attempt, how leases end, why jobs are refused."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Renewal
from leasehold.core.model.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.span import BANDS, RETRY_ATTEMPT_MAX, SUBMITTED_IN
from leasehold.env import ManualClock
from leasehold.errors import QueueFullError, RateLimitedError
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    draft,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.measuring import MINUTE, assert_adds_up, counts

ONE_OF_EACH = (10, 49, 50, 75, 99, 100)


class MeasuringKindsClauses(ConformanceBase):
    def test_met_11_submits_and_waits_by_priority(self, store: Store, clock: ManualClock) -> None:
        for number, priority in enumerate(ONE_OF_EACH):
            submit(store, draft(f"job-{number}", priority=priority))
        submit(store, draft("later", priority=100, delay_seconds=3600))
        clock.advance(4)
        lease_all(store, limit=1)  # the critical one
        clock.advance(6)
        lease_all(store)
        figures = store.metrics()
        assert figures.submitted_by_priority == {"low": 2, "medium": 1, "high": 2, "critical": 2}
        waits = figures.wait_by_priority
        assert {band: waits[band].count for band in BANDS} == {
            "low": 2, "medium": 1, "high": 2, "critical": 1,
        }  # fmt: skip
        assert waits["critical"].mean_seconds == pytest.approx(4)
        assert waits["low"].mean_seconds == pytest.approx(10)
        assert waits["critical"].p99_seconds == pytest.approx(4, rel=0.1)
        assert figures.wait.count == sum(each.count for each in waits.values())
        assert figures.wait.mean_seconds == pytest.approx((4 + 5 * 10) / 6)
        for band, name in SUBMITTED_IN.items():
            assert figures.totals[name] == figures.submitted_by_priority[band]
        assert_adds_up(store, "default")

    def test_met_11_the_priority_counts_that_a_job_has(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("job", priority=10))
        store.reprioritize("job", 100, actor="me")
        clock.advance(1)
        lease_one(store)
        figures = store.metrics()
        assert figures.submitted_by_priority["low"] == 1
        assert figures.wait_by_priority["critical"].count == 1
        assert figures.wait_by_priority["low"].mean_seconds is None

    def test_met_11_minutes_and_days_have_them_too(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one", priority=100))
        clock.advance(3)
        lease_one(store)
        clock.advance(MINUTE)
        submit(store, draft("two", priority=0))
        first, second = store.series(minutes=2)
        assert first.wait_by_priority["critical"].mean_seconds == pytest.approx(3)
        assert (first.submitted_by_priority["critical"], first.submitted_by_priority["low"]) == (
            1,
            0,
        )
        assert (second.submitted_by_priority["critical"], second.submitted_by_priority["low"]) == (
            0, 1,
        )  # fmt: skip
        day = store.daily(days=1)[0]
        assert day.wait_by_priority == store.metrics().wait_by_priority
        assert day.submitted_by_priority["critical"] == day.submitted_by_priority["low"] == 1

    def test_met_12_every_lease_that_ended_was_held(self, store: Store, clock: ManualClock) -> None:
        outcomes: tuple[Outcome, ...] = (Complete(), FAILURE, Cancel(), Release(), Snooze(60))
        for number, outcome in enumerate(outcomes):
            submit(store, draft(f"job-{number}", delay_seconds=100 * number))
            clock.advance(100 * number)
            lease = lease_one(store)
            clock.advance(2)
            settle(store, lease, outcome)
            store.cancel([f"job-{number}"], reason="", actor="me")
        figures = store.metrics()
        assert (figures.run.count, figures.held.count) == (2, len(outcomes))
        assert figures.held.mean_seconds == pytest.approx(2)
        submit(store, draft("lost"))
        lease_one(store, lease_seconds=10)
        clock.advance(20)
        store.recover()
        figures = store.metrics()
        assert (figures.run.count, figures.held.count) == (2, len(outcomes) + 1)
        assert figures.held.p99_seconds == pytest.approx(20, rel=0.1)

    def test_met_12_a_minute_in_which_a_lease_ended_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("job"))
        lease = lease_one(store)
        clock.advance(MINUTE)
        settle(store, lease, Snooze(3600))
        clock.advance(MINUTE)
        submit(store, draft("next"))
        assert [point.held.count for point in store.series(minutes=3)] == [0, 1, 0]

    def test_met_13_retries_by_attempt(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one", max_retries=2), draft("two", max_retries=1))
        for _ in range(3):
            for lease in lease_all(store):
                settle(store, lease, FAILURE)
            clock.advance(RETRY_SECONDS + 1)
        figures = store.metrics()
        assert figures.retries == {1: 2, 2: 1}
        assert (figures.retried, figures.failed, figures.dead) == (3, 5, 2)
        assert store.daily(days=1)[0].retries == {1: 2, 2: 1}

    def test_met_13_many_attempts_are_counted_together(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("job", max_retries=RETRY_ATTEMPT_MAX + 5))
        for _ in range(RETRY_ATTEMPT_MAX + 5):
            settle(store, lease_one(store), FAILURE)
            clock.advance(RETRY_SECONDS + 1)
        retries = store.metrics().retries
        assert list(retries) == list(range(1, RETRY_ATTEMPT_MAX + 1))
        assert retries[RETRY_ATTEMPT_MAX] == 6
        assert sum(retries.values()) == store.stats().retried

    def test_met_14_leases_that_are_lost(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("again"), draft("last", max_retries=0), draft("unwanted"))
        leases = lease_all(store, lease_seconds=10)
        assert len(leases) == 3
        store.cancel(["unwanted"], reason="", actor="me")
        clock.advance(11)
        store.recover()
        figures = store.metrics()
        assert counts(figures, "lost", "recovered", "dead", "cancelled") == (3, 1, 1, 1)
        again = lease_one(store)
        store.recover_one(again.job_id, again.version, reset_attempts=False, reason="stuck")
        assert counts(store.metrics(), "lost", "recovered") == (4, 2)
        assert_adds_up(store, "default")

    def test_met_14_renewals_are_counted(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"), draft("two"))
        one, two = lease_all(store, lease_seconds=30)
        clock.advance(10)
        wishes = [Renewal(each.job_id, each.version, 30) for each in (one, two)]
        store.renew("w", wishes)
        clock.advance(10)
        settle(store, one, Complete())
        store.renew("w", wishes)  # one of them is refused
        assert store.stats().renewed == store.metrics().renewed == 3
        assert_adds_up(store, "default")

    def test_met_15_why_jobs_were_refused(self, store: Store) -> None:
        store.create_queue("narrow", QueueConfig(max_depth=1), actor="me")
        store.create_queue("slow", QueueConfig(rate_per_second=1), actor="me")
        submit(store, draft("a", queue="narrow"), draft("b", queue="slow"))
        for number in range(2):
            with pytest.raises(QueueFullError):
                store.submit([draft(f"full-{number}", queue="narrow")])
        with pytest.raises(RateLimitedError):
            store.submit([draft(f"fast-{number}", queue="slow") for number in range(50)])
        answers = store.submit([draft("also full", queue="narrow"), draft("free")], partial=True)
        assert isinstance(answers[0], QueueFullError)
        assert store.metrics("narrow").refused == {"queue_full": 3, "rate_limited": 0}
        assert store.metrics("slow").refused == {"queue_full": 0, "rate_limited": 50}
        assert store.metrics().rejected == store.stats().rejected == 53
        assert store.stats().rate_limited == 50
        assert_adds_up(store, "narrow", "slow", "default")
