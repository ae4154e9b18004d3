"""Running jobs as a sweep looks at them, and how they are taken back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final, NamedTuple

from leasehold.core.model.lease import Settled
from leasehold.core.rules import key_accounts
from leasehold.core.rules.decision import Decision
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import HeldJob
from leasehold.stores.tables.attempts import TableEnds
from leasehold.stores.tables.job_states import TableHistories

SET_ALLOWANCE: Final = "UPDATE job SET allowance = $1 WHERE seq = $2"


class HeldRow(NamedTuple):
    """What names a running job here."""

    seq: int
    id: str
    lane: int
    version: int


class TableHoldings(TableHistories):
    """See `leasehold.core.rules.recovery.Holdings`."""

    held_under: ClassVar[str]
    """Selects a HeldRow and the rest of a HeldJob by id and version, for this write alone."""
    ends: ClassVar[type[TableEnds]]

    @abstractmethod
    def _end_lease(self, job: HeldRow) -> EndedLease: ...

    def held(self, job_id: str, version: int) -> tuple[HeldRow, HeldJob] | None:
        return held_of(self._step.execute(self.held_under, (job_id, version)).fetchone())

    def set_allowance(self, job: HeldRow, allowance: int) -> None:
        self._step.execute(SET_ALLOWANCE, (allowance, job.seq))

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._step.audit(actor, action, count, detail)

    def take_back(self, job: HeldRow, decision: Decision) -> Settled:
        step = self._step
        lease = self._end_lease(job)
        if step.rules.key_limits:
            key_accounts.freed(self.ready.shelf(step), (job.seq,))
        ends = self.ends(step)
        settled = ends.add(job.id, lease, job.lane, decision, checkpoint=True)
        ends.write()
        return settled


def held_of(row: Any) -> tuple[HeldRow, HeldJob] | None:
    """A running job, by its row."""
    return None if row is None else (HeldRow(*row[:4]), HeldJob(*row[3:]))
