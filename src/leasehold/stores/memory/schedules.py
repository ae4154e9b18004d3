"""Schedules: kept beside the jobs, and fired by whoever leases."""

from __future__ import annotations

from leasehold.core.job import Draft, Job
from leasehold.core.schedule import (
    Fired,
    Schedule,
    ScheduleDraft,
    declared,
    fire,
    not_found,
    paused,
    resumed,
)
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.memory.record import moment, snapshot
from leasehold.stores.memory.state import State
from leasehold.stores.memory.submission import submit


def set_schedule(state: State, draft: ScheduleDraft, actor: str) -> Schedule:
    """Add a schedule, or change the one of that name."""
    draft.check()
    known = state.schedules.get(draft.name)
    answer = declared(known, draft, from_micros(state.now))
    if answer is not known:
        _keep(state, answer.detached())
        state.note_action(actor, "set_schedule", {"schedule": draft.name}, 1)
        _wake(state)
    return answer


def schedules(state: State) -> list[Schedule]:
    """Every schedule, by name."""
    return [known.detached() for _, known in sorted(state.schedules.items())]


def get_schedule(state: State, name: str) -> Schedule | None:
    known = state.schedules.get(name)
    return None if known is None else known.detached()


def remove_schedule(state: State, name: str, actor: str) -> Schedule:
    """Forget a schedule; its jobs stay."""
    last = _find(state, name)
    del state.schedules[name]
    _look_for_next(state)
    state.note_action(actor, "remove_schedule", {"schedule": name}, 1)
    return last


def pause_schedule(state: State, name: str, rest: bool, actor: str) -> Schedule:
    """Let a schedule rest, or go on."""
    known = _find(state, name)
    if known.paused == rest:
        return known.detached()
    now = from_micros(state.now)
    answer = paused(known, now) if rest else resumed(known, now)
    _keep(state, answer.detached())
    action = "pause_schedule" if rest else "resume_schedule"
    state.note_action(actor, action, {"schedule": name}, 1)
    _wake(state)
    return answer


def run_schedule(state: State, name: str, job_id: str, actor: str) -> Job:
    """Submit the schedule's job out of turn."""
    submit(state, [_find(state, name).draft.job_now(job_id)], partial=False)
    state.note_action(actor, "run_schedule", {"schedule": name, "job": job_id}, 1)
    return snapshot(state.records[job_id])


def fire_schedules(state: State) -> Fired:
    """Fire what is due."""
    jobs = fire_due(state)
    return Fired(jobs, moment(state.next_tick))


def fire_due(state: State) -> int:
    """Fire what is due; answers how many jobs that submitted."""
    if state.next_tick is None or state.next_tick > state.now:
        return 0
    now = from_micros(state.now)
    jobs = 0

    def submit_one(draft: Draft) -> LeaseholdError | None:
        nonlocal jobs
        [answer] = submit(state, [draft], partial=True)
        if isinstance(answer, LeaseholdError):
            return answer
        jobs += 1
        return None

    for schedule in list(state.schedules.values()):
        if schedule.due_at is not None and schedule.due_at <= now:
            state.schedules[schedule.name] = fire(
                schedule, now, has_ended=lambda job_id: _has_ended(state, job_id), submit=submit_one
            )
    _look_for_next(state)
    return jobs


def _has_ended(state: State, job_id: str) -> bool:
    record = state.records.get(job_id)
    return record is None or record.status.is_terminal


def _find(state: State, name: str) -> Schedule:
    known = state.schedules.get(name)
    if known is None:
        raise not_found(name)
    return known


def _keep(state: State, schedule: Schedule) -> None:
    state.schedules[schedule.name] = schedule
    _look_for_next(state)


def _look_for_next(state: State) -> None:
    due = [each.due_at for each in state.schedules.values() if each.due_at is not None]
    state.next_tick = to_micros(min(due)) if due else None


def _wake(state: State) -> None:
    if state.news is not None:
        state.news.ready = True
