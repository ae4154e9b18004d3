"""Setting the store's clock back: see `tables.clock_repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.stores.postgres.keeping import days
from leasehold.stores.postgres.leasing.recover import Sweep
from leasehold.stores.postgres.rules.schedules import AHEAD, SCHEDULES
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.clock_repair import TableClockRepair

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

LATER_DAYS: Final = "SELECT day FROM archive_day WHERE day > $1 AND jobs > 0 AND NOT is_dropped"
LEAVE_DAYS: Final = """
    WITH before AS (SELECT day, jobs FROM archive_day WHERE day = ANY($1))
    UPDATE archive_day SET jobs = 0 FROM before WHERE archive_day.day = before.day
    RETURNING before.jobs
"""
SET_CLOCK: Final = "UPDATE store_state SET clock = $1, pace_clock = 0, pace_server = 0"
INDEX_NONE: Final = "DELETE FROM indexed_lane"


class Repair(TableClockRepair):
    """The repair in one write, which is alone."""

    larger = "greatest"
    schedules = SCHEDULES
    ahead = AHEAD
    _step: Step

    def _set_clock(self, now: int) -> None:
        self._step.execute(SET_CLOCK, (now,))
        self._step.now = now
        # Jobs are about to move without a word to the accelerator.
        self._step.execute(INDEX_NONE)
        self._step.rules_changed()

    def _before_archive(self, day: int) -> None:
        step = self._step
        later = [each for (each,) in step.execute(LATER_DAYS, (day,))]
        if later:
            jobs = sum(number for (number,) in step.execute(LEAVE_DAYS, (later,)))
            days.make_room(step.db, {day: jobs})


def repair_clock(database: Database, actor: str) -> ClockRepair:
    """Set the store's clock back to the server's, once no worker is left."""
    Sweep(database).run()
    return database.write(
        lambda step: Repair(step).run(database.clock.read(step.found.server), actor)
    )
