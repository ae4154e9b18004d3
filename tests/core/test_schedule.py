"""What becomes of a schedule, whenever somebody looks at it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.job import Draft
from leasehold.core.model.schedule import (
    REFUSED_AGAIN_SECONDS,
    Schedule,
    ScheduleDraft,
    declared,
    fire,
    paused,
    resumed,
)
from leasehold.core.model.ticks import ticks_between
from leasehold.core.model.timing import Cron, Every, Timing
from leasehold.errors import DuplicateJobError, LeaseholdError, QueueFullError

START = datetime(2030, 3, 30, 23, 59, tzinfo=UTC)  # the night in which Berlin skips an hour
BERLIN = "Europe/Berlin"

timings: st.SearchStrategy[Timing] = st.sampled_from(
    [
        Every(60),
        Every(97.5),
        Cron("*/5 * * * *", BERLIN),
        Cron("0,30 1-3 * * *", BERLIN),
        Cron("30 2 * * *", BERLIN),
    ]
)
looks = st.lists(st.floats(0, 7200), min_size=1, max_size=40)
"""Seconds from one look to the next."""
TICKS_OF_ONE_WRITE = 3


def plan(timing: Timing, **options: Any) -> ScheduleDraft:
    return ScheduleDraft(name="s", timing=timing, job=Draft(id="s", task="t"), **options)


class World:
    """A store of jobs as simple as can be, that refuses what it is told to."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.ended = True
        self.full = False

    def submit(self, draft: Draft) -> LeaseholdError | None:
        if self.full:
            return QueueFullError("no room")
        if draft.id in self.ids:
            return DuplicateJobError(draft.id)
        self.ids.append(draft.id)
        return None

    def look(self, schedule: Schedule, now: datetime) -> Schedule:
        while schedule.due_at is not None and schedule.due_at <= now:
            firing = fire(
                schedule, now, has_ended=lambda _: self.ended, jobs_max=TICKS_OF_ONE_WRITE
            )
            if isinstance(firing, Schedule):
                return firing
            assert len(firing.ticks) <= TICKS_OF_ONE_WRITE
            schedule = firing.settled([self.submit(job) for job in firing.jobs], now)
        return schedule


def ids(ticks: list[datetime]) -> list[str]:
    return [plan(Every(1)).job_at(tick).id for tick in ticks]


@given(timings, looks)
def test_catching_up_loses_no_tick_and_runs_none_twice(timing: Timing, waits: list[float]) -> None:
    world = World()
    schedule = declared(None, plan(timing, misfire="catch_up", catch_up_max=1000), START)
    now = START
    for seconds in waits:
        now += timedelta(seconds=seconds)
        schedule = world.look(schedule, now)
        # Looking again at the same moment does nothing.
        assert world.look(schedule, now) == schedule
    assert world.ids == ids(list(ticks_between(timing, START, now)))
    assert schedule.fired == len(world.ids)
    assert schedule.next_at == timing.next_after(now)


@given(timings, looks, st.sampled_from(["skip", "run_once", "catch_up"]), st.integers(1, 3))
def test_every_tick_is_run_at_most_once_and_in_order(
    timing: Timing, waits: list[float], misfire: Any, catch_up_max: int
) -> None:
    world = World()
    draft = plan(timing, misfire=misfire, catch_up_max=catch_up_max, grace_seconds=30)
    schedule = declared(None, draft, START)
    now = START
    for seconds in waits:
        before, known = now, len(world.ids)
        now += timedelta(seconds=seconds)
        schedule = world.look(schedule, now)
        due = list(ticks_between(timing, before, now))
        run = world.ids[known:]
        wanted = due[-(catch_up_max if misfire == "catch_up" else 1) :]
        if misfire == "skip":
            wanted = [tick for tick in wanted if now - tick <= timedelta(seconds=30)]
        assert run == ids(wanted)
    assert len(set(world.ids)) == len(world.ids)


@given(timings, looks, st.data())
def test_a_refused_tick_stays_due(timing: Timing, waits: list[float], data: st.DataObject) -> None:
    world = World()
    schedule = declared(None, plan(timing, misfire="catch_up", catch_up_max=1000), START)
    now = START
    for seconds in [*waits, REFUSED_AGAIN_SECONDS]:
        now += timedelta(seconds=seconds)
        world.full = data.draw(st.booleans()) and seconds is not waits[-1]
        looked = world.look(schedule, now)
        if world.full and looked is not schedule and looked.error:
            assert looked.due_at == now + timedelta(seconds=REFUSED_AGAIN_SECONDS)
            assert "no room" in looked.error
        schedule = looked
    world.full = False
    now += timedelta(seconds=REFUSED_AGAIN_SECONDS)
    schedule = world.look(schedule, now)
    assert schedule.error is None
    assert world.ids == ids(list(ticks_between(timing, START, now)))


@given(timings, looks, st.data())
def test_jobs_never_overlap_where_they_must_not(
    timing: Timing, waits: list[float], data: st.DataObject
) -> None:
    world = World()
    draft = plan(timing, misfire="catch_up", overlap="skip")
    schedule = declared(None, draft, START)
    now = START
    for seconds in waits:
        now += timedelta(seconds=seconds)
        world.ended = data.draw(st.booleans())
        known = len(world.ids)
        schedule = world.look(schedule, now)
        submitted = len(world.ids) - known
        assert submitted <= (1 if world.ended or not known else 0)


def test_a_tick_whose_job_exists_is_done_and_not_counted() -> None:
    world = World()
    schedule = declared(None, plan(Every(60)), START)
    assert schedule.next_at is not None
    world.ids = ids([schedule.next_at])
    after = world.look(schedule, schedule.next_at)
    assert (after.fired, after.error, after.last_at) == (0, None, schedule.next_at)


def test_a_schedule_that_cannot_be_worked_out_is_put_off_and_says_why() -> None:
    class Broken(Every, frozen=True):
        def next_after(self, moment: datetime) -> datetime | None:
            raise ZeroDivisionError("some bug")

    schedule = declared(None, plan(Every(60)), START)
    broken = msgspec.structs.replace(schedule, draft=plan(Broken(60)))
    now = START + timedelta(minutes=5)
    after = World().look(broken, now)
    assert after.error == "ZeroDivisionError: some bug"
    assert after.next_at == schedule.next_at
    assert after.due_at == now + timedelta(seconds=REFUSED_AGAIN_SECONDS)


def test_a_timing_without_a_next_tick_is_over() -> None:
    end = datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC)
    schedule = declared(None, plan(Every(60)), end)
    assert (schedule.next_at, schedule.due_at) == (None, None)


def test_saying_the_same_again_is_the_same_schedule() -> None:
    schedule = declared(None, plan(Every(60)), START)
    later = START + timedelta(days=1)
    assert declared(schedule, plan(Every(60)), later) is schedule
    assert resumed(schedule, later) is schedule
    rests = paused(schedule, later)
    assert declared(rests, plan(Every(61)), later).next_at is None


def test_the_id_of_a_ticks_job_is_the_same_in_every_zone() -> None:
    from zoneinfo import ZoneInfo

    tick = datetime(2030, 1, 1, 3, tzinfo=ZoneInfo(BERLIN))
    draft = plan(Every(60))
    assert (
        draft.job_at(tick).id == draft.job_at(tick.astimezone(UTC)).id == "s@2030-01-01T02:00:00Z"
    )
    part = tick + timedelta(microseconds=5)
    assert draft.job_at(part).id == "s@2030-01-01T02:00:00.000005Z"
