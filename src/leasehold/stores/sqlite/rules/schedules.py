"""Schedules: kept beside the jobs, and fired in the write that leases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.budget import SCHEDULED_JOBS_AT_ONCE, SCHEDULES_AT_ONCE
from leasehold.core.job import Draft, Job
from leasehold.core.schedule import (
    REFUSED_AGAIN_SECONDS,
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
from leasehold.errors import InvalidScheduleError, LeaseholdError
from leasehold.stores.sqlite.leasing.people import audit
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.schema.rows import MOMENT_MAX
from leasehold.stores.sqlite.schema.schedule_row import (
    AHEAD,
    ALL,
    DUE,
    KINDS,
    ONE,
    schedule_carefully,
    schedule_of,
)
from leasehold.stores.sqlite.submitting.lanes import Lanes
from leasehold.stores.sqlite.submitting.submit import submit
from leasehold.stores.sqlite.writing.step import Step

GO_ON: Final = "UPDATE schedule SET next_at = ?1, due_at = ?1 WHERE rowid = ?2"
_COLUMNS: Final = ", ".join(KINDS)
# What is no number is above all numbers, and left out.
NEXT_LOOK: Final = f"SELECT min(due_at) FROM schedule WHERE due_at <= {MOMENT_MAX}"  # noqa: S608  # our own number
KEEP: Final = f"INSERT OR REPLACE INTO schedule ({_COLUMNS}) VALUES ({', '.join('?' * 11)})"  # noqa: S608  # our own names
# What was asked for is not written again: it may be large, or say more than this version knows.
MOVE_ON: Final = """
    UPDATE schedule SET next_at = ?, due_at = ?, last_at = ?, last_job_id = ?, fired = ?, error = ?
    WHERE name = ?
"""
POSTPONE: Final = "UPDATE schedule SET due_at = ?, error = ? WHERE rowid = ?"
REMOVE: Final = "DELETE FROM schedule WHERE name = ?"
# A job that is not there any more has ended too: only ended jobs are discarded.
HAS_NOT_ENDED: Final = """
    SELECT 1 FROM job WHERE id = ? AND NOT EXISTS (SELECT 1 FROM finished WHERE seq = job.seq)
"""

Admit = Callable[[Sequence[Draft]], None]
"""Raises when there is no room on the disk for these."""


def every(db: apsw.Connection) -> list[Schedule]:
    """All schedules; those that cannot be read say so."""
    return [schedule_carefully(row) for row in db.execute(ALL)]


def find(db: apsw.Connection, name: str) -> Schedule | None:
    """One schedule."""
    row = db.execute(ONE, (name,)).fetchone()
    return None if row is None else schedule_of(row)


def fire_due(step: Step, lanes: Lanes, admit: Admit) -> tuple[int, int | None]:
    """Fire what is due; answers how many jobs that submitted, and when to look again."""
    look_at = _next_look(step)
    if look_at is None or look_at > step.now:
        return 0, look_at
    now = from_micros(step.now)
    jobs = 0

    def submit_one(draft: Draft) -> LeaseholdError | None:
        nonlocal jobs
        try:
            admit([draft])
        except LeaseholdError as error:
            return error
        answers = submit(step, lanes, [draft], partial=True)
        if isinstance(answers, LeaseholdError):
            return answers
        if isinstance(answers[0], LeaseholdError):
            return answers[0]
        jobs += 1
        return None

    for row in step.execute(DUE, (step.now, SCHEDULES_AT_ONCE)).fetchall():
        try:
            schedule = schedule_of(row)
        except InvalidScheduleError as error:
            # A machine may lack a time zone that another one knows; leasing must go on.
            again = step.now + round(REFUSED_AGAIN_SECONDS * 1e6)
            step.execute(POSTPONE, (again, str(error), row[-1]))
            continue
        _move_on(
            step,
            fire(
                schedule,
                now,
                has_ended=lambda job_id: _has_ended(step, job_id),
                submit=submit_one,
            ),
        )
        if jobs >= SCHEDULED_JOBS_AT_ONCE:
            break
    return jobs, _next_look(step)


def _next_look(step: Step) -> int | None:
    row = step.execute(NEXT_LOOK).fetchone()
    return None if row is None else row[0]


def _has_ended(step: Step, job_id: str) -> bool:
    return step.execute(HAS_NOT_ENDED, (job_id,)).fetchone() is None


def keep(step: Step, draft: ScheduleDraft, actor: str) -> Schedule:
    """Keep a schedule as it is declared."""
    row = step.execute(ONE, (draft.name,)).fetchone()
    try:
        known = None if row is None else schedule_of(row)
    except InvalidScheduleError:
        known = None  # It made no sense here, and is put right by this.
    answer = declared(known, draft, from_micros(step.now))
    if answer is not known:
        _keep(step, answer)
        audit(step, actor, "set_schedule", 1, {"schedule": draft.name})
        step.hints.ready = True
    return answer


def remove(step: Step, name: str, actor: str) -> Schedule:
    """Remove a schedule; answers what it last was."""
    # Also if it cannot be read: to remove it may be all that can be done about it.
    last = schedule_carefully(_find_row(step, name))
    step.execute(REMOVE, (name,))
    audit(step, actor, "remove_schedule", 1, {"schedule": name})
    return last


def run(step: Step, lanes: Lanes, admit: Admit, name: str, job_id: str, actor: str) -> Job:
    """Submit a schedule's job now, beside its ticks."""
    job = _find(step, name).draft.job_now(job_id)
    job.check()
    admit([job])
    refused = submit(step, lanes, [job], partial=False)
    if isinstance(refused, LeaseholdError):
        raise refused
    audit(step, actor, "run_schedule", 1, {"schedule": name, "job": job_id})
    answer = read_job(step.db, job_id)
    assert answer is not None
    return answer


def fire_now(step: Step, lanes: Lanes, admit: Admit) -> Fired:
    """Fire what is due, for who does nothing else."""
    jobs, look_at = fire_due(step, lanes, admit)
    return Fired(jobs, None if look_at is None else from_micros(look_at))


def pause(step: Step, name: str, rest: bool, actor: str) -> Schedule:
    """Let a schedule rest, or go on."""
    known = _find(step, name)
    if known.paused == rest:
        return known
    now = from_micros(step.now)
    answer = paused(known, now) if rest else resumed(known, now)
    _keep(step, answer)
    audit(step, actor, "pause_schedule" if rest else "resume_schedule", 1, {"schedule": name})
    step.hints.ready = True
    return answer


def _find(step: Step, name: str) -> Schedule:
    return schedule_of(_find_row(step, name))


def _find_row(step: Step, name: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = step.execute(ONE, (name,)).fetchone()
    if row is None:
        raise not_found(name)
    return row


def go_on_from(step: Step, now: datetime) -> int:
    """Let schedules whose next tick was reckoned by a clock ahead go on from now; answers how many.

    One that makes no sense on this machine is looked at again when it is due, which is now.
    """
    moved = 0
    for row in step.execute(AHEAD, (to_micros(now),)).fetchall():
        try:
            following = _micros(schedule_of(row).timing.next_after(now))
        except InvalidScheduleError:
            following = to_micros(now)
        step.execute(GO_ON, (following, row[-1]))
        moved += 1
    return moved


def _keep(step: Step, schedule: Schedule) -> None:
    step.execute(
        KEEP,
        (
            schedule.name,
            msgspec.json.encode(schedule.draft).decode(),
            to_micros(schedule.created_at),
            to_micros(schedule.updated_at),
            _micros(schedule.next_at),
            _micros(schedule.due_at),
            schedule.paused,
            _micros(schedule.last_at),
            schedule.last_job_id,
            schedule.fired,
            schedule.error,
        ),
    )


def _move_on(step: Step, schedule: Schedule) -> None:
    step.execute(
        MOVE_ON,
        (
            _micros(schedule.next_at),
            _micros(schedule.due_at),
            _micros(schedule.last_at),
            schedule.last_job_id,
            schedule.fired,
            schedule.error,
            schedule.name,
        ),
    )


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
