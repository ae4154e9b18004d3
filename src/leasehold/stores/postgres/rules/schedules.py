"""Schedules: kept beside the jobs, fired in the write that leases. The rules: rules.scheduling."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.schedule import Fired, Schedule
from leasehold.core.rules import scheduling
from leasehold.core.rules.scheduling import UnreadableSchedule
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseholdError, QueueFullError
from leasehold.stores.postgres.reading.read import read_job
from leasehold.stores.postgres.schema.schedule_row import ALL, COLUMNS, DUE, ONE, schedule_of
from leasehold.stores.postgres.server.connection import Connection
from leasehold.stores.postgres.submitting.lanes import Lanes
from leasehold.stores.postgres.submitting.submit import submit
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step

_NAMES: Final = ", ".join(COLUMNS)
_VALUES: Final = ", ".join(f"${n}" for n in range(1, len(COLUMNS) + 1))
_CHANGES: Final = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
NEXT_LOOK: Final = "SELECT min(due_at) FROM schedule WHERE due_at IS NOT NULL"
KEEP: Final = f"""
    INSERT INTO schedule ({_NAMES}) VALUES ({_VALUES}) ON CONFLICT (name) DO UPDATE SET {_CHANGES}
"""  # noqa: S608  # our own names
# What was asked for is not written again: it may be large, or say more than this version knows.
MOVE_ON: Final = """
    UPDATE schedule SET next_at = $2, due_at = $3, last_at = $4, last_job_id = $5, fired = $6,
        error = $7
    WHERE name = $1
"""
POSTPONE: Final = "UPDATE schedule SET due_at = $1, error = $2 WHERE number = $3"
REMOVE: Final = "DELETE FROM schedule WHERE name = $1"
# A job that is not there any more has ended too: only ended jobs are discarded.
NOT_ENDED: Final = """
    SELECT job.id FROM job WHERE job.id = ANY($1)
        AND NOT EXISTS (SELECT 1 FROM finished WHERE seq = job.seq)
"""


class Shelf:
    """The schedules, as core.rules.scheduling asks for them inside a write."""

    def __init__(self, step: Step, lanes: Lanes) -> None:
        self.step = step
        self._lanes = lanes

    @property
    def now(self) -> datetime:
        return from_micros(self.step.now)

    def find(self, name: str) -> Schedule | UnreadableSchedule | None:
        row = self.step.execute(ONE, (name,)).fetchone()
        return None if row is None else schedule_of(row)

    def due(self, limit: int) -> Sequence[Schedule | UnreadableSchedule]:
        return [schedule_of(row) for row in self.step.execute(DUE, (self.step.now, limit))]

    def keep(self, schedule: Schedule) -> None:
        row = _row_of(schedule)
        self.step.execute(KEEP, [row[name] for name in COLUMNS])

    def move_on(self, schedule: Schedule) -> None:
        self.step.execute(MOVE_ON, list(_progress_of(schedule).values()))

    def postpone(self, key: int, until: datetime, error: str) -> None:
        self.step.execute(POSTPONE, (to_micros(until), error, key))

    def remove(self, name: str) -> None:
        self.step.execute(REMOVE, (name,))

    def not_ended(self, job_ids: Sequence[str]) -> Collection[str]:
        ids = list(job_ids)
        return {str(job_id) for (job_id,) in self.step.execute(NOT_ENDED, (ids,))}

    def submit(self, draft: Draft) -> LeaseholdError | None:
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
    return Shelf(step, database.lanes)


def every(db: Connection) -> list[Schedule]:
    """All schedules; those that cannot be read say so."""
    found = [schedule_of(row) for row in db.execute(ALL)]
    return [each if isinstance(each, Schedule) else each.shown() for each in found]


def find(db: Connection, name: str) -> Schedule | None:
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


def _next_look(step: Step) -> int | None:
    row = step.execute(NEXT_LOOK).fetchone()
    return None if row is None else row[0]


def _row_of(schedule: Schedule) -> dict[str, Any]:
    return {
        **_progress_of(schedule),
        "draft": msgspec.json.encode(schedule.draft).decode(),
        "created_at": to_micros(schedule.created_at),
        "updated_at": to_micros(schedule.updated_at),
        "paused": int(schedule.paused),
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
