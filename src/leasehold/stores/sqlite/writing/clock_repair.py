"""Setting the store's clock back: see `tables.clock_repair`."""

from __future__ import annotations

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.rules.clock import basis_of_now
from leasehold.env import ClockReading
from leasehold.stores.sqlite.leasing.recover import Sweep
from leasehold.stores.sqlite.rules.schedules import AHEAD, SCHEDULES
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.clock_repair import TableClockRepair


class Repair(TableClockRepair):
    """The repair in one write."""

    larger = "max"
    schedules = SCHEDULES
    ahead = AHEAD
    _step: Step

    def __init__(self, step: Step, reading: ClockReading) -> None:
        super().__init__(step)
        self._reading = reading

    def _set_clock(self, now: int) -> None:
        repairs = self._step.clock_basis.repairs + 1
        self._step.set_clock(now, basis_of_now(now, self._reading, repairs))


def repair_clock(database: Database, actor: str) -> ClockRepair:
    """Set the store's clock back to the wall clock, once no worker is left."""
    Sweep(database).run()

    def repair(step: Step) -> ClockRepair:
        reading = database.env.clock.reading()
        return Repair(step, reading).run(reading.wall, actor)

    return database.write(repair)
