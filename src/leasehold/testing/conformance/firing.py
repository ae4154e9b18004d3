"""SCH-7 to SCH-11: the jobs of a schedule's ticks."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.timing import Cron, Every
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    at_once,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.consuming import FAREWELL
from leasehold.testing.conformance.limiting import limit
from leasehold.testing.conformance.scheduling import MINUTE, known, later, set_schedule


def ticks(store: Store, name: str = "ping") -> list[str]:
    """The ticks of the jobs that a schedule has submitted, in order of submission."""
    jobs = store.search(JobFilter(metadata={"schedule": name}), limit=1000).jobs
    return [str((job.metadata or {})["tick"]) for job in reversed(jobs)]


class FiringClauses(ConformanceBase):
    def test_sch_7_a_ticks_job_says_where_it_comes_from(
        self, store: Store, clock: ManualClock
    ) -> None:
        tick = set_schedule(store).next_at
        clock.advance(MINUTE + 5)
        fired = store.fire_schedules()
        assert (fired.jobs, fired.next_tick_at) == (1, later(store.now(), 55))
        schedule = known(store)
        assert (schedule.last_at, schedule.fired, schedule.error) == (tick, 1, None)
        job = get(store, "ping@2030-01-01T00:01:00Z")
        assert schedule.last_job_id == job.id
        assert job.metadata == {"tenant": "a", "schedule": "ping", "tick": "2030-01-01T00:01:00Z"}
        assert (job.status, job.created_at) == (Status.PENDING, store.now())
        assert [str(event) for event in events(store, job.id)] == ["created"]
        assert store.check() == []

    def test_sch_7_every_tick_once_however_many_look(
        self, store: Store, clock: ManualClock
    ) -> None:
        set_schedule(store, "often", timing=Every(1), misfire="catch_up")
        set_schedule(store, "seldom", timing=Every(3), misfire="catch_up")
        for _ in range(5):
            clock.advance(3)
            fired = at_once(8, lambda _: store.fire_schedules().jobs)
            assert sum(fired) == 4
        assert ticks(store, "often") == [f"2030-01-01T00:00:{n:02}Z" for n in range(1, 16)]
        assert len(ticks(store, "seldom")) == 5

    def test_sch_7_the_clock_stepping_back_fires_nothing_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        set_schedule(store)
        clock.advance(MINUTE)
        store.fire_schedules()
        clock.step_wall_clock(-10 * MINUTE)
        assert store.fire_schedules().jobs == 0
        clock.advance(11 * MINUTE)
        assert store.fire_schedules().jobs == 1

    def test_clk_2_while_the_wall_clock_is_behind_ticks_come_at_half_the_pace(
        self, store: Store, clock: ManualClock
    ) -> None:
        set_schedule(store)
        clock.advance(MINUTE)
        store.fire_schedules()
        clock.step_wall_clock(-10 * MINUTE)
        store.fire_schedules()
        clock.advance(2 * MINUTE - 1)
        assert store.fire_schedules().jobs == 0
        clock.advance(1)
        assert store.fire_schedules().jobs == 1

    def test_sch_8_whoever_leases_fires(self, store: Store, clock: ManualClock) -> None:
        now = store.now()
        set_schedule(store)
        submit(store, draft("delayed", delay_seconds=2 * MINUTE))
        request = LeaseRequest(worker="worker", limit=1)
        answer = store.exchange(request=request)
        assert answer.next_due_at == answer.next_tick_at == later(now, MINUTE)
        clock.advance(MINUTE)
        # A call that only settles fires nothing.
        assert store.exchange().next_tick_at is None
        assert known(store).fired == 0
        # So does one that only tells that a consumer is gone.
        assert store.exchange(request=FAREWELL).next_tick_at is None
        assert known(store).fired == 0
        answer = store.exchange(request=request)
        assert [lease.job_id for lease in answer.leases] == ["ping@2030-01-01T00:01:00Z"]
        assert (answer.next_due_at, answer.next_tick_at) == (None, later(now, 2 * MINUTE))
        # A job of a queue that this worker does not serve is submitted all the same.
        set_schedule(store, "far", job=Draft(id="far", task="work", queue="elsewhere"))
        clock.advance(MINUTE)
        assert {lease.queue for lease in lease_all(store)} == {"default"}
        assert known(store, "far").fired == 1

    def test_sch_8_a_delayed_job_may_be_due_before_the_next_tick(self, store: Store) -> None:
        set_schedule(store)
        submit(store, draft("delayed", delay_seconds=5))
        answer = store.exchange(request=LeaseRequest(worker="worker"))
        assert answer.next_due_at == later(store.now(), 5)
        assert answer.next_tick_at == later(store.now(), MINUTE)

    @pytest.mark.parametrize(
        ("options", "run"),
        [
            ({"misfire": "run_once"}, [60]),
            ({"misfire": "skip", "grace_seconds": 29}, []),
            ({"misfire": "skip", "grace_seconds": 30}, [60]),
            ({"misfire": "catch_up"}, [*range(1, 61)]),
            ({"misfire": "catch_up", "catch_up_max": 3}, [58, 59, 60]),
        ],
        ids=str,
    )
    def test_sch_9_misfires(
        self, store: Store, clock: ManualClock, options: dict[str, Any], run: list[int]
    ) -> None:
        start = store.now()
        set_schedule(store, **options)
        # A machine that slept.
        clock.suspend(MINUTE * 60 + 30)
        assert store.fire_schedules().jobs == len(run)
        at = [later(start, minute * MINUTE).isoformat()[:19] + "Z" for minute in run]
        assert ticks(store) == at
        schedule = known(store)
        assert schedule.next_at == later(start, MINUTE * 61)
        missed = [minute for minute in range(1, 61) if minute not in run]
        assert schedule.missed == len(missed)
        assert schedule.missed_at == (later(start, missed[-1] * MINUTE) if missed else None)

    def test_sch_9_a_year_is_caught_up_quickly(self, store: Store, clock: ManualClock) -> None:
        set_schedule(store, "cron", timing=Cron("* * * * * *", "Europe/Berlin"))
        set_schedule(store, "every", timing=Every(1), misfire="catch_up")
        clock.suspend(366 * 24 * 3600)
        assert store.fire_schedules().jobs == 101

    def test_sch_10_a_tick_is_passed_over_while_the_job_before_runs(
        self, store: Store, clock: ManualClock
    ) -> None:
        set_schedule(store, overlap="skip", misfire="catch_up")
        clock.advance(3 * MINUTE)
        assert store.fire_schedules().jobs == 1  # the latest of three
        clock.advance(MINUTE)
        assert store.fire_schedules().jobs == 0  # it waits
        lease = lease_one(store)
        clock.advance(MINUTE)
        assert lease_all(store) == []  # it runs
        settle(store, lease, FAILURE)
        clock.advance(MINUTE)
        again = lease_one(store)  # it is retried
        assert (again.job_id, known(store).fired) == (lease.job_id, 1)
        clock.advance(MINUTE)
        settle(store, again, Complete())
        assert store.fire_schedules().jobs == 1
        assert ticks(store) == ["2030-01-01T00:03:00Z", "2030-01-01T00:07:00Z"]

    def test_sch_10_a_job_that_was_discarded_has_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        set_schedule(store, overlap="skip")
        clock.advance(MINUTE)
        lease = lease_one(store)
        settle(store, lease, Complete())
        store.discard([lease.job_id], actor="me")
        clock.advance(MINUTE)
        assert store.fire_schedules().jobs == 1

    def test_sch_10_without_it_jobs_may_overlap(self, store: Store, clock: ManualClock) -> None:
        set_schedule(store)
        for _ in range(3):
            clock.advance(MINUTE)
            store.fire_schedules()
        assert len(lease_all(store)) == 3

    def test_sch_11_a_tick_whose_job_exists_is_done(self, store: Store, clock: ManualClock) -> None:
        set_schedule(store)
        set_schedule(store, "other")
        submit(store, draft("ping@2030-01-01T00:01:00Z"))
        clock.advance(MINUTE)
        assert len(lease_all(store)) == 2
        schedule = known(store)
        assert (schedule.error, schedule.fired) == (None, 0)
        assert schedule.next_at == later(store.now(), MINUTE)

    def test_lim_1_ticks_that_are_caught_up_find_a_queue_full(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit(store, max_depth=3)
        set_schedule(store, misfire="catch_up")
        submit(store, draft("waits"))
        clock.advance(5 * MINUTE)
        assert store.fire_schedules().jobs == 2
        assert store.stats("default").counts[Status.PENDING] == 3
        assert "'default' is full (3 of 3 pending)" in str(known(store).error)
        assert store.check() == []
