"""Schedules, as rows of PostgreSQL; an unreadable one must not stop the others.

See `tables.schedules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.stored import (
    UNREADABLE,
)
from leasehold.core.rules.scheduling import UnreadableSchedule
from leasehold.errors import LeaseholdError
from leasehold.stores.postgres.reading.read import read_job
from leasehold.stores.postgres.server.connection import POSTGRES
from leasehold.stores.postgres.submitting.submit import submit_in
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.schedules import (
    COLUMNS,
    ScheduleRows,
    TableSchedules,
    makes_no_sense,
    schedule_from,
)

_NAMES: Final = ", ".join((*COLUMNS, "number"))
ALL: Final = f"SELECT {_NAMES} FROM schedule ORDER BY name"
ONE: Final = f"SELECT {_NAMES} FROM schedule WHERE name = $1"
DUE: Final = f"""
    SELECT {_NAMES} FROM schedule WHERE due_at <= $1 ORDER BY due_at, name LIMIT $2
"""
AHEAD: Final = f"SELECT {_NAMES} FROM schedule WHERE due_at > $1 ORDER BY name"


def schedule_of(row: tuple[Any, ...]) -> Schedule | UnreadableSchedule:
    """The schedule in a row, if it can be read here."""
    *columns, number = row
    values = dict(zip(COLUMNS, columns, strict=True))
    try:
        return schedule_from(values)
    except UNREADABLE as problem:
        return makes_no_sense(number, values["name"], problem)


SCHEDULES: Final = ScheduleRows(ALL, ONE, DUE, schedule_of, "number")


class ScheduleShelf(TableSchedules):
    """The schedules inside a write, for core.rules.scheduling."""

    dialect = POSTGRES
    rows = SCHEDULES
    _database: Database
    _step: Step

    def _submit(self, drafts: Sequence[Draft]) -> Sequence[object] | LeaseholdError:
        return submit_in(self._step, self._database.lanes, drafts, partial=True)

    def read_job(self, job_id: str) -> Job | None:
        return read_job(self._step.db, job_id)
