"""Schedules, as rows of SQLite; see `tables.schedules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.stored import micros
from leasehold.core.rules.scheduling import next_tick_from
from leasehold.env import to_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.schema.schedule_row import AHEAD, SCHEDULES
from leasehold.stores.sqlite.submitting.gate import LaneNumbers
from leasehold.stores.sqlite.submitting.submit import submit
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.schedules import TableSchedules

GO_ON: Final = "UPDATE schedule SET next_at = $1, due_at = $1 WHERE rowid = $2"

Admit = Callable[[Sequence[Draft]], None]
"""Raises when there is no room on the disk for these."""


class ScheduleShelf(TableSchedules):
    """The schedules, as core.rules.scheduling asks for them inside a write."""

    dialect = SQLITE
    rows = SCHEDULES
    _step: Step

    def __init__(self, step: Step, lanes: LaneNumbers, admit: Admit) -> None:
        super().__init__(step)
        self._lanes = lanes
        self._admit = admit

    def _submit(self, draft: Draft) -> Sequence[object] | LeaseholdError:
        try:
            self._admit([draft])
        except LeaseholdError as error:
            return error
        return submit(self._step, self._lanes, [draft], partial=True)

    def read_job(self, job_id: str) -> Job | None:
        return read_job(self._step.db, job_id)


def shelf(database: Database, step: Step) -> ScheduleShelf:
    """The schedules of a store, in one of its writes."""
    return ScheduleShelf(step, database.lanes, database.disk.refuse_when_low)


def go_on_from(step: Step, now: datetime) -> int:
    """Let schedules go on from now whose next tick was reckoned by a clock ahead of it."""
    rows = step.execute(AHEAD, (to_micros(now),)).fetchall()
    for row in rows:
        tick = next_tick_from(SCHEDULES.schedule_of(row), now)
        step.execute(GO_ON, (micros(tick), row[-1]))
    return len(rows)
