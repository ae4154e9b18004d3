"""SCH: schedules, and the jobs of their ticks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from leasehold.core.job import Draft
from leasehold.core.lease import LeaseRequest
from leasehold.core.outcome import Complete
from leasehold.core.schedule import Schedule, ScheduleDraft
from leasehold.core.search import JobFilter
from leasehold.core.status import Status
from leasehold.core.store import Store
from leasehold.core.timing import Cron, Every
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidJobError,
    InvalidScheduleError,
    PayloadTooLargeError,
    ScheduleNotFoundError,
)
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
from leasehold.testing.conformance.waking import Ears

MINUTE = 60


def plan(name: str = "ping", timing: Any = Every(MINUTE), **options: Any) -> ScheduleDraft:  # noqa: B008
    """A schedule that ticks at every full minute."""
    job = options.pop("job", None) or Draft(id=name, task="work", metadata={"tenant": "a"})
    return ScheduleDraft(name=name, timing=timing, job=job, **options)


def set_schedule(store: Store, name: str = "ping", **options: Any) -> Schedule:
    return store.set_schedule(plan(name, **options), actor="me")


def known(store: Store, name: str = "ping") -> Schedule:
    schedule = store.get_schedule(name)
    assert schedule is not None, f"schedule {name} is not there"
    return schedule


def ticks(store: Store, name: str = "ping") -> list[str]:
    """The ticks of the jobs that a schedule has submitted, in order of submission."""
    jobs = store.search(JobFilter(metadata={"schedule": name}), limit=1000).jobs
    return [str((job.metadata or {})["tick"]) for job in reversed(jobs)]


def later(moment: datetime, seconds: float) -> datetime:
    return moment + timedelta(seconds=seconds)


class SchedulingClauses(ConformanceBase):
    # -- setting -----------------------------------------------------------------------------

    def test_sch_1_the_first_tick_is_the_first_after_now(
        self, store: Store, clock: ManualClock
    ) -> None:
        now = store.now()
        schedule = set_schedule(store)
        assert schedule == known(store)
        # The clock shows a full minute: that tick is over.
        assert schedule.next_at == schedule.due_at == later(now, MINUTE)
        assert (schedule.created_at, schedule.updated_at) == (now, now)
        assert (schedule.paused, schedule.fired, schedule.last_at) == (False, 0, None)
        assert store.fire_schedules().jobs == 0
        clock.advance(MINUTE - 1)
        assert store.fire_schedules().jobs == 0
        clock.advance(1)
        assert store.fire_schedules().jobs == 1

    def test_sch_1_everything_said_is_kept(self, store: Store) -> None:
        job = Draft(
            id="nightly", task="tasks:work", payload=b'{"args":[1],"kwargs":{}}', queue="letters",
            priority=75, max_retries=7, delay_seconds=2.0, timeout_seconds=1.5, lease_seconds=20.0,
            retry=draft().retry, metadata={"tenant": "a", "ratio": 0.5, "none": None},
        )  # fmt: skip
        wanted = plan(
            "nightly", timing=Cron("30 2 * * *", "Europe/Berlin"), job=job, misfire="catch_up",
            catch_up_max=5, grace_seconds=7.0, overlap="skip",
        )  # fmt: skip
        store.set_schedule(wanted, actor="me")
        starting = later(store.now(), 90)
        store.set_schedule(plan("a", timing=Every(7.5, starting)), actor="me")
        assert known(store, "nightly").draft == wanted
        assert known(store, "a").next_at == starting
        assert [schedule.name for schedule in store.schedules()] == ["a", "nightly"]

    def test_sch_1_listeners_are_woken(self, store: Store) -> None:
        ears = Ears(store)
        store.subscribe(ears)
        set_schedule(store)
        assert ears.wait_for(lambda: ears.ready > 0)

    def test_sch_1_what_is_kept_is_the_stores_own(self, store: Store) -> None:
        metadata: dict[str, Any] = {"tenant": "a"}
        set_schedule(store, job=Draft(id="ping", task="work", metadata=metadata))
        metadata["tenant"] = "b"
        seen = known(store).draft.job.metadata
        assert seen is not None
        seen["tenant"] = "c"
        assert known(store).draft.job.metadata == {"tenant": "a"}

    def test_sch_2_missed_ticks_stay_due_when_a_program_says_the_same_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = set_schedule(store)
        clock.advance(10 * MINUTE)
        assert set_schedule(store) == first
        assert [record.action for record in store.audit_log()] == ["set_schedule"]
        # Another job, but the same timing.
        changed = set_schedule(store, job=Draft(id="ping", task="other"), misfire="catch_up")
        assert (changed.next_at, changed.updated_at) == (first.next_at, store.now())
        assert len(store.audit_log()) == 2
        assert store.fire_schedules().jobs == 10
        assert get(store, str(known(store).last_job_id)).task == "other"

    def test_sch_2_another_timing_starts_anew(self, store: Store, clock: ManualClock) -> None:
        set_schedule(store)
        clock.advance(10 * MINUTE)
        changed = set_schedule(store, timing=Every(7 * MINUTE))
        assert changed.next_at == Every(7 * MINUTE).next_after(store.now())
        assert store.fire_schedules().jobs == 0

    def test_sch_2_a_pause_survives(self, store: Store, clock: ManualClock) -> None:
        set_schedule(store)
        store.pause_schedule("ping", paused=True, actor="me")
        changed = set_schedule(store, timing=Every(7))
        assert (changed.paused, changed.next_at) == (True, None)
        clock.advance(MINUTE)
        assert store.fire_schedules().jobs == 0

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": ""},
            {"name": "x" * 201},
            {"name": "a\nb"},
            {"misfire": "sometimes"},
            {"overlap": "never"},
            {"catch_up_max": 0},
            {"catch_up_max": 1001},
            {"grace_seconds": -1.0},
            {"grace_seconds": float("nan")},
            {"timing": "* * * * *"},
        ],
        ids=str,
    )
    def test_sch_3_bad_input_changes_nothing(self, store: Store, wrong: dict[str, Any]) -> None:
        before = set_schedule(store)
        with pytest.raises(InvalidScheduleError):
            store.set_schedule(msgspec.structs.replace(plan(), **wrong), actor="me")
        assert store.schedules() == [before]
        assert len(store.audit_log()) == 1

    def test_sch_3_a_job_that_no_store_takes(self, store: Store) -> None:
        job = plan().job
        for wrong, error in (
            ({"priority": 101}, InvalidJobError),
            ({"payload": b"x" * 300_000}, PayloadTooLargeError),
            ({"run_at": store.now()}, InvalidScheduleError),
            ({"deadline": store.now()}, InvalidScheduleError),
            ({"idempotency_key": "key"}, InvalidScheduleError),
            ({"depends_on": ("other",)}, InvalidScheduleError),
            ({"metadata": {"tick": "mine"}}, InvalidScheduleError),
        ):
            with pytest.raises(error):
                set_schedule(store, job=msgspec.structs.replace(job, **wrong))
        assert store.schedules() == []

    # -- removing, pausing, running ----------------------------------------------------------

    def test_sch_4_a_removed_schedule_ticks_no_more(self, store: Store, clock: ManualClock) -> None:
        set_schedule(store)
        clock.advance(MINUTE)
        store.fire_schedules()
        last = known(store)
        assert store.remove_schedule("ping", actor="me") == last
        assert (store.get_schedule("ping"), store.schedules()) == (None, [])
        clock.advance(MINUTE)
        assert store.fire_schedules() == type(store.fire_schedules())()
        # Its job stays, and a schedule of that name begins anew.
        assert len(lease_all(store)) == 1
        assert set_schedule(store).fired == 0

    def test_sch_4_an_unknown_name_is_told(self, store: Store) -> None:
        with pytest.raises(ScheduleNotFoundError, match="ping"):
            store.remove_schedule("ping", actor="me")
        with pytest.raises(ScheduleNotFoundError):
            store.pause_schedule("ping", paused=True, actor="me")
        with pytest.raises(ScheduleNotFoundError):
            store.run_schedule("ping", job_id="job", actor="me")
        assert store.audit_log() == []

    def test_sch_5_nothing_is_fired_while_it_is_paused(
        self, store: Store, clock: ManualClock
    ) -> None:
        set_schedule(store, misfire="catch_up")
        rests = store.pause_schedule("ping", paused=True, actor="me")
        assert (rests.paused, rests.next_at, rests.due_at) == (True, None, None)
        assert store.pause_schedule("ping", paused=True, actor="me") == rests
        clock.advance(5 * MINUTE + 1)
        assert store.fire_schedules().next_tick_at is None
        goes_on = store.pause_schedule("ping", paused=False, actor="me")
        assert goes_on.next_at == later(store.now(), MINUTE - 1)
        assert store.pause_schedule("ping", paused=False, actor="me") == goes_on
        clock.advance(MINUTE)
        assert store.fire_schedules().jobs == 1
        actions = [record.action for record in store.audit_log()]
        assert actions == ["resume_schedule", "pause_schedule", "set_schedule"]

    def test_sch_6_out_of_turn(self, store: Store) -> None:
        set_schedule(store)
        rests = store.pause_schedule("ping", paused=True, actor="me")
        job = store.run_schedule("ping", job_id="now", actor="me")
        assert (job.id, job.status, job.task) == ("now", Status.PENDING, "work")
        assert job.metadata == {"tenant": "a", "schedule": "ping"}
        assert known(store) == rests
        assert lease_one(store).job_id == "now"

    # -- firing ------------------------------------------------------------------------------

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
        # At half the pace, the next tick comes after two minutes.
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
        # Nobody who only settles fires.
        assert store.exchange().next_tick_at is None
        assert known(store).fired == 0
        answer = store.exchange(request=request)
        assert [lease.job_id for lease in answer.leases] == ["ping@2030-01-01T00:01:00Z"]
        assert (answer.next_due_at, answer.next_tick_at) == (None, later(now, 2 * MINUTE))
        # A job of a queue that this one does not serve is submitted all the same.
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
        assert known(store).next_at == later(start, MINUTE * 61)

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
