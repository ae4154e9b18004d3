"""Schedules, as rows of SQLite; an unreadable one must not stop the others.

See `tables.schedules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.scheduling import UnreadableSchedule
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.schema.rows import SQLITE, guarded, value_of
from leasehold.stores.sqlite.submitting.submit import submit_in
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.schedules import (
    COLUMNS,
    ScheduleRows,
    TableSchedules,
    makes_no_sense,
    schedule_from,
)
from leasehold.stores.tables.statements import Kind

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

KINDS: Final = {
    "name": Kind.TEXT,
    "draft": Kind.TEXT,
    "created_at": Kind.MOMENT,
    "updated_at": Kind.MOMENT,
    "next_at": Kind.MOMENT_OR_NULL,
    "due_at": Kind.MOMENT_OR_NULL,
    "paused": Kind.WHOLE,
    "last_at": Kind.MOMENT_OR_NULL,
    "last_job_id": Kind.TEXT_OR_NULL,
    "fired": Kind.WHOLE,
    "missed": Kind.WHOLE,
    "missed_at": Kind.MOMENT_OR_NULL,
    "error": Kind.TEXT_OR_NULL,
}
assert tuple(KINDS) == COLUMNS
_GUARDED: Final = ", ".join(guarded(f"schedule.{name}", kind) for name, kind in KINDS.items())
# The rowid identifies a schedule whose name cannot be read.
ALL: Final = f"SELECT {_GUARDED}, rowid FROM schedule ORDER BY schedule.name"
ONE: Final = f"SELECT {_GUARDED}, rowid FROM schedule WHERE schedule.name = $1"
DUE: Final = f"""
    SELECT {_GUARDED}, rowid FROM schedule
    WHERE schedule.due_at <= $1 ORDER BY schedule.due_at, schedule.name LIMIT $2
"""
AHEAD: Final = f"""
    SELECT {_GUARDED}, rowid FROM schedule WHERE schedule.due_at > $1 ORDER BY schedule.name
"""


def schedule_of(row: tuple[Any, ...]) -> Schedule | UnreadableSchedule:
    """The schedule in a row, if it can be read here."""
    try:
        return schedule_from(
            {
                name: value_of(name, kind, fetched)
                for (name, kind), fetched in zip(KINDS.items(), row, strict=False)
            }
        )
    except UNREADABLE as problem:
        name = row[0].decode(errors="replace") if isinstance(row[0], bytes) else str(row[0])
        return makes_no_sense(row[-1], name, problem)


SCHEDULES: Final = ScheduleRows(ALL, ONE, DUE, schedule_of, "rowid")


class ScheduleShelf(TableSchedules):
    """The schedules inside a write, for core.rules.scheduling."""

    dialect = SQLITE
    rows = SCHEDULES
    _database: Database
    _step: Step

    def _submit(self, drafts: Sequence[Draft]) -> Sequence[object] | LeaseholdError:
        try:
            self._database.disk.refuse_when_low(drafts)
        except LeaseholdError as error:
            return error
        return submit_in(self._step, self._database.lanes, drafts, partial=True)

    def read_job(self, job_id: str) -> Job | None:
        return read_job(self._step.db, job_id)
