"""Removing ended jobs in the writes of a clean-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import CleanUp
from leasehold.core.rules.cleanup_store import CleanUpProgress, EndedJob
from leasehold.core.rules.ended_dependents import within_budget
from leasehold.env import from_micros
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.ended_dependents import TableDependents
from leasehold.stores.tables.statements import Dialect
from leasehold.stores.tables.step import TableStep

RECORDS_OF_A_JOB: Final = (
    "attempt", "failed_job", "event", "progress", "log", "dependent", "dependency", "raised",
    "ended_dependents", "job",
)  # fmt: skip
"""The tables that have rows of an ended job, besides `finished`."""


class TableRemoval:
    """What core.rules.cleaning does inside a write, as far as every database does it alike."""

    dialect: ClassVar[Dialect]
    dependents: ClassVar[type[TableDependents]]
    delete: ClassVar[str]
    """Deletes the rows of many jobs from the table that is put into it."""
    still_ended_statement: ClassVar[str]

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step
        self.now = from_micros(step.now)

    def own_retentions(self) -> Mapping[str, QueueRetention]:
        return cleanup.own_retentions(self._step.rules)

    def latest(self) -> CleanUp | None:
        return next(cleanup.latest(self._step.db, 1), None)

    def progress(self, run: int) -> CleanUpProgress | None:
        return cleanup.progress_of(self._step.db, run)

    def save(self, progress: CleanUpProgress) -> None:
        cleanup.save(self._step.db, progress)

    def still_ended(self, keys: Sequence[int]) -> Sequence[EndedJob[int]]:
        bounded = within_budget(self.dependents(self._step), keys)
        rows = self._step.execute(self.still_ended_statement, (self.dialect.listed(bounded),))
        return [
            EndedJob(seq, queue, STATUS_OF[status], ended_at)
            for seq, queue, status, ended_at in rows
        ]

    def drop_histories(self, keys: Sequence[int]) -> int:
        for table in ("attempt", "event"):
            self._step.execute(self.delete.format(table), (self.dialect.listed(keys),))
        return len(keys)

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._step.audit(actor, action, count, detail)
