"""Jobs that are taken from holders who were lost; `core.rules.recovery` decides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from leasehold.core.model.lease import Settled, SweepReport
from leasehold.core.rules import recovery
from leasehold.core.rules.recovery import Holdings
from leasehold.stores.verbs.queues import QueueVerbs


class RecoveryVerbs(QueueVerbs):
    """Sweeps, which also go on with what was cut short; and single jobs taken back."""

    _holdings: Callable[[Any], Holdings[Any]]
    _promote: Callable[[Any], int]
    """Makes so many due jobs pending, and answers how many."""

    @abstractmethod
    def _sweep(self) -> SweepReport:
        """Take back what is lost, forget who is gone, and cancel what comes too late."""

    def recover(self, *, actor: str | None = None) -> SweepReport:
        report = self._sweep()
        self._finish_deleting()
        if actor is not None:
            self._write(
                lambda write: recovery.note_sweep(self._holdings(write).audit, actor, report)
            )
        return report

    def recover_one(
        self,
        job_id: str,
        version: int,
        *,
        reset_attempts: bool,
        reason: str,
        actor: str | None = None,
    ) -> Settled:
        return self._write(
            lambda write: recovery.recover_one(
                self._holdings(write),
                job_id,
                version,
                reset_attempts=reset_attempts,
                reason=reason,
                actor=actor,
            )
        )

    def promote(self) -> int:
        promoted = 0
        while found := self._write(self._promote):
            promoted += found
        return promoted
