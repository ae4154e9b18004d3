"""The verbs of holders of leases, and taking jobs back from lost ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.core.model.lease import Settled, SweepReport
from leasehold.core.model.records import WorkerInfo, WorkerLife
from leasehold.core.model.status import Event
from leasehold.core.rules import fence, recovery
from leasehold.core.rules.fence import Histories
from leasehold.core.rules.recovery import Holdings
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.recover import TableRegistry, TableSweep


class HoldingVerbs:
    """Single writes about running jobs."""

    _database: TableDatabase
    _registry: type[TableRegistry]
    _sweep: type[TableSweep]
    _promote: Callable[[Any], int]
    """Lets jobs that are due become pending, so many in one write."""
    _histories: Callable[[Any], Histories[Any]]
    _holdings: Callable[[Any], Holdings[Any]]

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        self._database.write(
            lambda step: fence.tell(self._histories(step), job_id, event, worker, version, message)
        )

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> WorkerLife:
        registry = self._registry(self._database)
        if is_remote:
            return registry.register_remote(info, is_entered=is_entered)
        return registry.register(info)

    def recover(self) -> SweepReport:
        return self._sweep(self._database).run()

    def promote(self) -> int:
        promoted = 0
        while found := self._database.write(self._promote):
            promoted += found
        return promoted

    def recover_one(
        self,
        job_id: str,
        version: int,
        *,
        reset_attempts: bool,
        reason: str,
        actor: str | None = None,
    ) -> Settled:
        return self._database.write(
            lambda step: recovery.recover_one(
                self._holdings(step),
                job_id,
                version,
                reset_attempts=reset_attempts,
                reason=reason,
                actor=actor,
            )
        )
