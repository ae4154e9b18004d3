"""SCH-1 to SCH-6: schedules are set, removed, paused and run out of turn."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.schedule import Schedule, ScheduleDraft
from leasehold.core.model.status import Status
from leasehold.core.model.timing import Cron, Every
from leasehold.env import ManualClock
from leasehold.errors import (
    DuplicateJobError,
    InvalidJobError,
    InvalidScheduleError,
    PayloadTooLargeError,
    ScheduleNotFoundError,
)
from leasehold.testing.conformance.base import (
    ConformanceBase,
    draft,
    get,
    lease_all,
    lease_one,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store
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
            catch_up_max=5, grace_seconds=7.0, overlap="skip", declared_in="shop", orphaned=True,
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
        assert [record.action for record in store.audit_page().records] == ["set_schedule"]
        # Another job, but the same timing.
        changed = set_schedule(store, job=Draft(id="ping", task="other"), misfire="catch_up")
        assert (changed.next_at, changed.updated_at) == (first.next_at, store.now())
        assert len(store.audit_page().records) == 2
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

    @on_one_store(
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
    )
    def test_sch_3_bad_input_changes_nothing(self, store: Store, wrong: dict[str, Any]) -> None:
        before = set_schedule(store)
        with pytest.raises(InvalidScheduleError):
            store.set_schedule(msgspec.structs.replace(plan(), **wrong), actor="me")
        assert store.schedules() == [before]
        assert len(store.audit_page().records) == 1

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
        assert store.audit_page().records == []

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
        actions = [record.action for record in store.audit_page().records]
        assert actions == ["resume_schedule", "pause_schedule", "set_schedule"]

    def test_sch_6_out_of_turn(self, store: Store) -> None:
        set_schedule(store)
        rests = store.pause_schedule("ping", paused=True, actor="me")
        job = store.run_schedule("ping", job_id="now", actor="me")
        assert (job.id, job.status, job.task) == ("now", Status.PENDING, "work")
        assert job.metadata == {"tenant": "a", "schedule": "ping"}
        assert known(store) == rests
        assert store.run_schedule("ping", job_id="now", actor="me") == job
        assert lease_one(store).job_id == "now"
        assert store.run_schedule("ping", job_id="now", actor="me").status is Status.RUNNING
        assert store.stats().submitted == 1
        runs = [each for each in store.audit_page().records if each.action == "run_schedule"]
        assert len(runs) == 1

    def test_sch_6_the_id_of_another_job_is_refused(self, store: Store) -> None:
        set_schedule(store)
        submit(store, draft("taken"))
        with pytest.raises(DuplicateJobError):
            store.run_schedule("ping", job_id="taken", actor="me")
