"""MET-24 and MET-25: what each queue ever counted and measured; it only grows."""

from __future__ import annotations

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete, Fail, JobError, Release
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.span import DAYS_KEPT, SUMMED, Measure, Span
from leasehold.core.rules.failures import (
    ERROR_TYPE_KEPT,
    ERROR_TYPE_LENGTH_MAX,
    ERROR_TYPES_MAX,
    OTHER,
)
from leasehold.core.rules.lifetime import QueueLifetime
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import (
    ConformanceBase,
    draft,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.measuring import MINUTE

DAY = 24 * 60 * MINUTE


def lifetime(store: Store, queue: str = "default") -> QueueLifetime:
    return {each.queue: each for each in store.lifetimes()}[queue]


def fail_with(store: Store, *types: str, queue: str = "default") -> None:
    """Let one attempt of a new job fail with each of these types."""
    now = f"{store.now():%d %H:%M:%S}"
    submit(store, *(draft(f"{now} {queue} {each[:20]}", queue=queue) for each in types))
    for error_type in types:
        error = JobError(error_type, "no")
        settle(store, lease_one(store, queues=(queue,)), Fail(error, retryable=False))


class MeasuringLifetimesClauses(ConformanceBase):
    def test_met_24_a_store_without_jobs_has_no_lifetimes(self, store: Store) -> None:
        assert store.lifetimes() == []

    def test_met_24_a_queue_that_has_only_rules_is_there(self, store: Store) -> None:
        store.create_queue("default", QueueConfig(max_depth=20), actor="ada")
        found = lifetime(store)
        assert (found.ever, found.leased_by, found.failed_with) == (Span(), {}, {})
        assert [each.queue for each in store.lifetimes()] == ["default"]

    def test_met_24_counts_are_those_of_stats(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one", priority=100), draft("two"), draft("else", queue="other"))
        clock.advance(3 * MINUTE)
        settle(store, lease_one(store), Complete())
        submit(store, draft("three"))
        for queue in ("default", "other"):
            stats = store.stats(queue)
            ever = lifetime(store, queue).ever
            counted = {name: getattr(ever, name) for name in SUMMED if hasattr(stats, name)}
            assert counted == {name: getattr(stats, name) for name in counted}
            assert {"submitted", "leased", "completed"} <= counted.keys()
        assert [each.queue for each in store.lifetimes()] == ["default", "other"]
        ever = lifetime(store).ever
        assert (ever.submitted_critical, ever.submitted_medium, ever.pending) == (1, 2, 2)

    def test_met_24_all_that_was_measured_is_there(self, store: Store, clock: ManualClock) -> None:
        rounds = 5
        for number in range(rounds):
            submit(store, draft(f"job-{number}"), draft(f"back-{number}", priority=80))
            clock.advance(2)
            leases = {lease.job_id[:4]: lease for lease in lease_all(store)}
            clock.advance(3)
            settle(store, leases["job-"], Complete())
            settle(store, leases["back"], Release(delay_seconds=DAY))
            # Whole minutes lie between, or not, and then more days than are kept.
            clock.advance(number % 2 * MINUTE)
        clock.advance((DAYS_KEPT + 2) * DAY)
        submit(store, draft("last"))
        ever = lifetime(store).ever
        for measure, seconds in (
            (Measure.WAIT_MEDIUM, 2),
            (Measure.WAIT_HIGH, 2),
            (Measure.RUN, 3),
        ):
            assert ever.measured(measure).count == rounds
            assert ever.measured(measure).micros == rounds * seconds * 1_000_000
        assert ever.holds.count == 2 * rounds

    def test_met_24_every_look_is_at_least_the_one_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        before = 0
        for number in range(6):
            submit(store, draft(f"job-{number}"))
            settle(store, lease_one(store), Complete())
            for seconds in (1, 25, 40):
                clock.advance(seconds)
                now = lifetime(store).ever.runs.count
                assert now >= before
                before = now
        assert before == 6

    def test_met_24_how_a_queue_stands(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"))
        assert lifetime(store).oldest_pending_age_seconds == 0
        clock.advance(7)
        assert lifetime(store).oldest_pending_age_seconds == 7
        lease_one(store)
        found = lifetime(store)
        assert (found.oldest_pending_age_seconds, found.active_workers) == (None, 0)

    def test_met_25_leases_by_worker_and_queue(self, store: Store, clock: ManualClock) -> None:
        submit(store, *(draft(f"job-{number}", task=f"t-{number}") for number in range(3)))
        submit(store, draft("else", queue="other"))
        lease_all(store, worker="both", queues=("default", "other"), limit=2)
        clock.advance(MINUTE)
        lease_all(store, worker="both", queues=("default", "other"), limit=1)
        lease_all(store, worker="another", queues=("other",))
        by_queue = {each.queue: each.leased_by for each in store.lifetimes()}
        assert by_queue == {"default": {"both": 3}, "other": {"another": 1}}
        assert [each.leased for each in store.worker_totals()] == [3, 1]

    def test_met_25_failures_by_type(self, store: Store, clock: ManualClock) -> None:
        fail_with(store, "TimeoutError", "KeyError", "x" * 1000)
        fail_with(store, "TimeoutError", queue="other")
        clock.advance(MINUTE)
        fail_with(store, "TimeoutError")
        cut = "x" * ERROR_TYPE_LENGTH_MAX
        assert lifetime(store).failed_with == {"KeyError": 1, "TimeoutError": 2, cut: 1}
        assert lifetime(store, "other").failed_with == {"TimeoutError": 1}
        submit(store, draft("lost"))
        lease_one(store, lease_seconds=5)
        clock.advance(6)
        store.recover()
        assert lifetime(store).failed_with["WorkerLost"] == 1

    def test_met_25_a_flood_of_types_counts_as_other(
        self, store: Store, clock: ManualClock
    ) -> None:
        fail_with(store, "First")
        fail_with(store, *(f"Error{number:04}" for number in range(ERROR_TYPES_MAX + 4)))
        found = lifetime(store).failed_with
        assert sum(found.values()) == ERROR_TYPES_MAX + 5
        assert found[OTHER] == 5
        assert len(found) <= ERROR_TYPES_MAX + 1
        clock.advance(ERROR_TYPE_KEPT.total_seconds() - 1)
        fail_with(store, "First", "New")
        assert lifetime(store).failed_with[OTHER] == 6
        clock.advance(2)
        fail_with(store, "First", "New")
        found = lifetime(store).failed_with
        assert (found["First"], found["New"]) == (3, 1)
        assert len(found) < ERROR_TYPES_MAX
