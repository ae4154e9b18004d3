"""The recovery sweep in the words of this database; see `tables.recover`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.lives import Life
from leasehold.stores.sqlite.leasing import taking_back
from leasehold.stores.sqlite.leasing.registry import Registry
from leasehold.stores.sqlite.reading.feed import FEED
from leasehold.stores.sqlite.rules.orders import QueueBook
from leasehold.stores.sqlite.writing import clock_repair
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.recover import TableSweep

# `running` is small, so a reader simply reads it all. An expiry beyond all leases cannot be read.
LOST: Final = f"""
    SELECT seq FROM running
    WHERE typeof(expires_at) <> 'integer' OR expires_at <= ?1
        OR expires_at > ?1 + {round(SECONDS_MAX) * 1_000_000}
        OR worker IN (SELECT value FROM json_each(?2))
    ORDER BY expires_at, seq
"""  # noqa: S608  # our own number


class Sweep(TableSweep):
    """A sweep of a store."""

    queue_book = QueueBook
    registry = Registry
    feed = FEED
    lost = LOST
    life = taking_back.LIFE
    _database: Database

    def run(self) -> SweepReport:
        self._database.put_right()
        return super().run()

    def _dead(self, db: Any) -> set[Life]:  # noqa: ARG002  # it is told by locks on files
        return self._database.deaths.find()

    def _bury(self, lives: Collection[Life]) -> None:
        self._database.deaths.bury(lives)

    def recover(self, step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
        return taking_back.recover(step, jobs, dead)


def repair_clock(database: Database, actor: str) -> ClockRepair:
    """Set the store's clock back to the wall clock, once no worker is left."""
    Sweep(database).run()
    return database.write(
        lambda step: clock_repair.repair(step, database.env.clock.reading(), actor)
    )
