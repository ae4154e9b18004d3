"""The recovery sweep in the words of this database; see `tables.recover`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from leasehold.core.model.lease import SweepReport
from leasehold.core.model.lives import Life
from leasehold.stores.postgres.leasing import taking_back
from leasehold.stores.postgres.leasing.registry import Registry
from leasehold.stores.postgres.reading.feed import FEED
from leasehold.stores.postgres.rules.orders import QueueBook
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.recover import TableSweep

# `running` is small, so a reader simply reads it all.
LOST: Final = (
    "SELECT seq FROM running WHERE expires_at <= $1 OR worker = ANY($2) ORDER BY expires_at, seq"
)


class Sweep(TableSweep):
    """A sweep of a store."""

    queue_book = QueueBook
    registry = Registry
    feed = FEED
    lost = LOST
    _database: Database

    def _dead(self, db: SqlConnection) -> set[Life]:
        return self._database.deaths.find(db)

    def recover(self, step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
        return taking_back.recover(step, jobs, dead)
