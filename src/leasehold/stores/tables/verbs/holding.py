"""The verbs of holders of leases, and taking jobs back from lost ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from leasehold.core.model.joblog import LogLine, check_progress
from leasehold.core.model.lease import Renewal, Renewed, Settled, SweepReport
from leasehold.core.model.records import WorkerInfo, WorkerLife
from leasehold.core.model.status import Event
from leasehold.core.rules import fence, recovery
from leasehold.core.rules.fence import Histories
from leasehold.core.rules.recovery import Holdings
from leasehold.errors import LeaseLostError
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.ends import TableMessages
from leasehold.stores.tables.recover import TableRegistry, TableSweep

T = TypeVar("T")


class HoldingVerbs:
    """Single writes about running jobs."""

    _database: TableDatabase
    _registry: type[TableRegistry]
    _sweep: type[TableSweep]
    _promote: Callable[[Any], int]
    """Lets jobs that are due become pending, so many in one write."""
    _messages: type[TableMessages]
    _histories: Callable[[Any], Histories[Any]]
    _holdings: Callable[[Any], Holdings[Any]]

    def _write_as_holder(self, operation: Callable[[Any], T]) -> T:
        """A holder writes only to the rows of its own leases."""
        return self._database.write(operation)

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        return self._write_as_holder(lambda step: self._messages.renew(step, worker, renewals))

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        check_progress(job_id, progress)
        lost = self._write_as_holder(
            lambda step: self._messages.report_progress(step, job_id, version, progress)
        )
        if lost is not None:
            raise lost

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        lost = self._write_as_holder(
            lambda step: self._messages.append_log(step, job_id, version, lines, dropped)
        )
        if lost is not None:
            raise lost

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
