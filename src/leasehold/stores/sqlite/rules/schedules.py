"""Schedules: kept beside the jobs, fired in the write that leases. The rules: rules.scheduling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.schedule import Fired, Schedule
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import scheduling
from leasehold.core.rules.scheduling import UnreadableSchedule, next_tick_from
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseholdError, QueueFullError
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.schema.schedule_row import AHEAD, ALL, DUE, KINDS, ONE, schedule_of
from leasehold.stores.sqlite.submitting.gate import Lanes
from leasehold.stores.sqlite.submitting.submit import submit
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step

_COLUMNS: Final = ", ".join(KINDS)
_VALUES: Final = ", ".join(f":{name}" for name in KINDS)
# What is no number is above all numbers, and left out.
NEXT_LOOK: Final = f"SELECT min(due_at) FROM schedule WHERE due_at <= {MOMENT_MAX}"  # noqa: S608  # our own number
KEEP: Final = f"INSERT OR REPLACE INTO schedule ({_COLUMNS}) VALUES ({_VALUES})"  # noqa: S608  # our own names
# What was asked for is not written again: it may be large, or say more than this version knows.
MOVE_ON: Final = """
    UPDATE schedule SET next_at = :next_at, due_at = :due_at, last_at = :last_at,
        last_job_id = :last_job_id, fired = :fired, error = :error
    WHERE name = :name
"""
GO_ON: Final = "UPDATE schedule SET next_at = ?1, due_at = ?1 WHERE rowid = ?2"
POSTPONE: Final = "UPDATE schedule SET due_at = ?, error = ? WHERE rowid = ?"
REMOVE: Final = "DELETE FROM schedule WHERE name = ?"
# A job that is not there any more has ended too: only ended jobs are discarded.
NOT_ENDED: Final = """
    SELECT job.id FROM json_each(?) AS asked CROSS JOIN job ON job.id = asked.value
    WHERE NOT EXISTS (SELECT 1 FROM finished WHERE seq = job.seq)
"""

Admit = Callable[[Sequence[Draft]], None]
"""Raises when there is no room on the disk for these."""


class Shelf:
    """The schedules, as core.rules.scheduling asks for them inside a write."""

    def __init__(self, step: Step, lanes: Lanes, admit: Admit) -> None:
        self.step = step
        self._lanes = lanes
        self._admit = admit

    @property
    def now(self) -> datetime:
        return from_micros(self.step.now)

    def find(self, name: str) -> Schedule | UnreadableSchedule | None:
        row = self.step.execute(ONE, (name,)).fetchone()
        return None if row is None else schedule_of(row)

    def due(self, limit: int) -> Sequence[Schedule | UnreadableSchedule]:
        return [schedule_of(row) for row in self.step.execute(DUE, (self.step.now, limit))]

    def keep(self, schedule: Schedule) -> None:
        self.step.execute(KEEP, _row_of(schedule))

    def move_on(self, schedule: Schedule) -> None:
        self.step.execute(MOVE_ON, _progress_of(schedule))

    def postpone(self, key: int, until: datetime, error: str) -> None:
        self.step.execute(POSTPONE, (to_micros(until), error, key))

    def remove(self, name: str) -> None:
        self.step.execute(REMOVE, (name,))

    def not_ended(self, job_ids: Sequence[str]) -> Collection[str]:
        ids = msgspec.json.encode(job_ids).decode()
        return {str(job_id) for (job_id,) in self.step.execute(NOT_ENDED, (ids,))}

    def submit(self, draft: Draft) -> LeaseholdError | None:
        try:
            self._admit([draft])
        except LeaseholdError as error:
            return error
        answers = submit(self.step, self._lanes, [draft], partial=True)
        if isinstance(answers, LeaseholdError):
            return answers
        return answers[0] if isinstance(answers[0], LeaseholdError) else None

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self.step.audit(actor, action, count, detail)

    def wake(self) -> None:
        self.step.hints.ready = True


def shelf(database: Database, step: Step) -> Shelf:
    """The schedules of a store, in one of its writes."""
    return Shelf(step, database.lanes, database.disk.refuse_when_low)


def every(db: apsw.Connection) -> list[Schedule]:
    """All schedules; those that cannot be read say so."""
    found = [schedule_of(row) for row in db.execute(ALL)]
    return [each if isinstance(each, Schedule) else each.shown() for each in found]


def find(db: apsw.Connection, name: str) -> Schedule | None:
    """One schedule; raises if it cannot be read."""
    row = db.execute(ONE, (name,)).fetchone()
    found = None if row is None else schedule_of(row)
    if isinstance(found, UnreadableSchedule):
        raise found.error
    return found


def run(schedules: Shelf, name: str, job_id: str, actor: str) -> Job | QueueFullError:
    """Submit a schedule's job now, beside its ticks."""
    refusal = scheduling.run_schedule(schedules, name, job_id, actor)
    if refusal is not None:
        return refusal
    answer = read_job(schedules.step.db, job_id)
    assert answer is not None
    return answer


def fire(schedules: Shelf) -> Fired:
    """Fire what is due, for who does nothing else."""
    jobs, look_at = fire_due(schedules)
    return Fired(jobs, None if look_at is None else from_micros(look_at))


def fire_due(schedules: Shelf) -> tuple[int, int | None]:
    """Fire what is due; answers how many jobs that submitted, and when to look again.

    Every exchange comes by here: where nothing is due it costs one seek.
    """
    look_at = _next_look(schedules.step)
    if look_at is None or look_at > schedules.step.now:
        return 0, look_at
    jobs = scheduling.fire_due(schedules)
    return jobs, _next_look(schedules.step)


def go_on_from(step: Step, now: datetime) -> int:
    """Let schedules go on from now whose next tick was reckoned by a clock ahead of it."""
    rows = step.execute(AHEAD, (to_micros(now),)).fetchall()
    for row in rows:
        step.execute(GO_ON, (_micros(next_tick_from(schedule_of(row), now)), row[-1]))
    return len(rows)


def _next_look(step: Step) -> int | None:
    row = step.execute(NEXT_LOOK).fetchone()
    return None if row is None else row[0]


def _row_of(schedule: Schedule) -> dict[str, Any]:
    return {
        **_progress_of(schedule),
        "draft": msgspec.json.encode(schedule.draft).decode(),
        "created_at": to_micros(schedule.created_at),
        "updated_at": to_micros(schedule.updated_at),
        "paused": schedule.paused,
    }


def _progress_of(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "next_at": _micros(schedule.next_at),
        "due_at": _micros(schedule.due_at),
        "last_at": _micros(schedule.last_at),
        "last_job_id": schedule.last_job_id,
        "fired": schedule.fired,
        "error": schedule.error,
    }


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
