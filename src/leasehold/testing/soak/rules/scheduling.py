"""Rules of schedules: every tick once, by the policies, and none while it is paused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from leasehold.core.model.job import Job
from leasehold.core.model.schedule import MISSED_COUNTED_MAX, Schedule
from leasehold.core.model.timing import Every, Timing
from leasehold.errors import ScheduleNotFoundError
from leasehold.testing.soak.rules.base import JudgedCall, rule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CRON_SECONDS = {"* * * * *": 60.0, "*/5 * * * *": 300.0}


def period_of(timing: Timing) -> timedelta:
    """All timings that are drawn tick at the multiples of a period."""
    if isinstance(timing, Every):
        return timedelta(seconds=timing.seconds)
    return timedelta(seconds=_CRON_SECONDS[timing.expression])


def first_after(timing: Timing, moment: datetime) -> datetime:
    period = period_of(timing)
    return _EPOCH + ((moment - _EPOCH) // period + 1) * period


def ticks_due(schedule: Schedule, now: datetime) -> list[datetime]:
    period, ticks = period_of(schedule.timing), list[datetime]()
    tick = schedule.next_at
    while tick is not None and tick <= now:
        ticks.append(tick)
        tick += period
    return ticks


def fired_by(step: JudgedCall, name: str) -> list[Job]:
    return [
        job
        for job in step.new
        if (job.metadata or {}).get("schedule") == name and "tick" in (job.metadata or {})
    ]


def looks_at_schedules(step: JudgedCall) -> bool:
    return step.method == "fire_schedules" or (
        step.method == "exchange" and step.call.get("request") is not None
    )


@rule("SCH-1")
def a_new_schedule_begins_with_the_next_tick(step: JudgedCall) -> int:
    if step.method != "set_schedule" or step.refused:
        return 0
    draft = step.call.get("draft")
    known, after = step.before.schedules.get(draft.name), step.after.schedules[draft.name]
    assert after.draft == draft, f"it is {after.draft}"
    if known is None:
        first = first_after(draft.timing, step.now)
        assert after.next_at == first, f"it begins at {after.next_at}, not at {first}"
        return 1
    assert after.paused == known.paused, f"the pause of {draft.name} is {after.paused} now"
    if known.timing == draft.timing:
        assert after.next_at == known.next_at, f"its next tick was {known.next_at}"
    return 1


@rule("SCH-4")
def an_unknown_schedule_is_not_found(step: JudgedCall) -> int:
    if step.method not in ("remove_schedule", "pause_schedule", "run_schedule"):
        return 0
    name = step.call.get("name")
    known = name in step.before.schedules
    assert known != isinstance(step.answer, ScheduleNotFoundError), f"{name}: {step.answer!r}"
    if step.method == "remove_schedule":
        assert name not in step.after.schedules, f"{name} is still there"
    return 1


@rule("SCH-5")
def a_paused_schedule_rests(step: JudgedCall) -> int:
    met = 0
    for name, schedule in step.before.schedules.items():
        if schedule.paused and looks_at_schedules(step):
            assert not fired_by(step, name), f"{name} is paused and has fired"
            met += 1
    if step.method == "pause_schedule" and not step.refused and not step.call.get("paused"):
        after = step.after.schedules[step.call.get("name")]
        if step.before.schedules[after.name].paused:
            assert after.next_at == first_after(after.timing, step.now), f"{after}"
    return met


@rule("SCH-6")
def a_schedule_is_run_out_of_turn(step: JudgedCall) -> int:
    if step.method != "run_schedule" or step.refused:
        return 0
    name, job = step.call.get("name"), step.after.jobs[step.call.get("job_id")]
    assert job.metadata == {"schedule": name}, f"{job.id} says {job.metadata}"
    before, after = step.before.schedules[name], step.after.schedules[name]
    ticks = (before.next_at, before.paused, before.fired)
    assert (after.next_at, after.paused, after.fired) == ticks, f"{before} became {after}"
    return 1


@rule("SCH-7")
def every_tick_is_fired_once(step: JudgedCall) -> int:
    met = 0
    for job in step.new:
        metadata = job.metadata or {}
        if "tick" not in metadata:
            continue
        tick = (str(metadata["schedule"]), str(metadata["tick"]))
        assert looks_at_schedules(step), f"{step.method} fired {job.id}"
        twice = tick in step.book.ticks and not step.book.clock_repaired
        assert not twice, f"{tick} was fired before"
        step.book.ticks.add(tick)
        met += 1
    return met


@rule("SCH-8")
def whoever_leases_fires_what_is_due(step: JudgedCall) -> int:
    if not looks_at_schedules(step) or step.refused:
        return 0
    for schedule in step.after.schedules.values():
        due = schedule.next_at is not None and schedule.next_at <= step.now
        assert not due or schedule.error is not None, f"{schedule} is still due"
    return len(step.before.schedules)


@rule("SCH-9")
def the_policies_say_which_ticks_are_run(step: JudgedCall) -> int:
    if not looks_at_schedules(step) or step.refused:
        return 0
    met = 0
    for name, schedule in step.before.schedules.items():
        after = step.after.schedules[name]
        looked_at = schedule.due_at is not None and schedule.due_at <= step.now
        if after.error is not None or not looked_at:
            continue
        last = step.before.jobs.get(schedule.last_job_id or "")
        if any(event.job_id == schedule.last_job_id for event in step.events):
            continue
        ticks = ticks_to_run(schedule, step.now, overlaps=last is not None and not last.is_terminal)
        fired = {str((job.metadata or {})["tick"]) for job in fired_by(step, name)}
        wanted = {_text(tick) for tick in ticks}
        known = {_text(tick) for tick in ticks if f"{name}@{_text(tick)}" in step.before.jobs}
        assert fired == wanted - known, f"{name} fired {sorted(fired)}, not {sorted(wanted)}"
        missed = min(len(ticks_due(schedule, step.now)) - len(ticks), MISSED_COUNTED_MAX)
        assert after.missed == schedule.missed + missed, f"{name} missed {missed}: {after}"
        met += bool(ticks_due(schedule, step.now))
    return met


def ticks_to_run(schedule: Schedule, now: datetime, *, overlaps: bool) -> list[datetime]:
    """Which of the due ticks are run, said as the policies are explained to people."""
    draft, due = schedule.draft, ticks_due(schedule, now)
    if draft.overlap == "skip" and overlaps:
        return []
    if draft.misfire == "catch_up" and draft.overlap == "allow":
        return due[-draft.catch_up_max :]
    if draft.misfire == "skip":
        return [tick for tick in due[-1:] if (now - tick).total_seconds() <= draft.grace_seconds]
    return due[-1:]


def _text(tick: datetime) -> str:
    return tick.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"
