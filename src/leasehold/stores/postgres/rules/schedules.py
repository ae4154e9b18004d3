"""Schedules, as rows of PostgreSQL; see `tables.schedules`."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.core.model.job import Draft, Job
from leasehold.errors import LeaseholdError
from leasehold.stores.postgres.reading.read import read_job
from leasehold.stores.postgres.schema.schedule_row import SCHEDULES
from leasehold.stores.postgres.server.connection import POSTGRES
from leasehold.stores.postgres.submitting.lanes import LaneNumbers
from leasehold.stores.postgres.submitting.submit import submit
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.schedules import TableSchedules


class ScheduleShelf(TableSchedules):
    """The schedules, as core.rules.scheduling asks for them inside a write."""

    dialect = POSTGRES
    rows = SCHEDULES
    _step: Step

    def __init__(self, step: Step, lanes: LaneNumbers) -> None:
        super().__init__(step)
        self._lanes = lanes

    def _submit(self, draft: Draft) -> Sequence[object] | LeaseholdError:
        return submit(self._step, self._lanes, [draft], partial=True)

    def read_job(self, job_id: str) -> Job | None:
        return read_job(self._step.db, job_id)


def shelf(database: Database, step: Step) -> ScheduleShelf:
    """The schedules of a store, in one of its writes."""
    return ScheduleShelf(step, database.lanes)
