"""The exchange: settle what ended and lease what fits, in one write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from leasehold.core.model.lease import Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Fail, Outcome
from leasehold.core.rules.ends import EndedLease, decide_end
from leasehold.stores.tables import gate
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.dependents import TableLinks
from leasehold.stores.tables.ends import TableEnds
from leasehold.stores.tables.leasing import Granted, Leased
from leasehold.stores.tables.recover import note_consumer
from leasehold.stores.tables.step import TableStep


def are_of_different_jobs(settlements: Sequence[Settlement]) -> bool:
    """Whether all can be judged at once: no job occurs twice, under an old and a new lease."""
    return len({settlement.job_id for settlement in settlements}) == len(settlements)


def settle_unfinished(
    step: TableStep,
    ends: TableEnds,
    job_id: str,
    held: EndedLease,
    lane: int,
    allowance: int,
    retry: str | None,
    outcome: Outcome,
) -> Settled:
    """Settle an attempt that did not complete its job."""
    decision = decide_end(held, outcome, allowance, retry, step.random, step.now)
    if isinstance(outcome, Fail) and outcome.breaker is not None:
        step.must_be_alone()
        gate.breaker_failed(step, lane, outcome.breaker)
    return ends.add(job_id, held, lane, decision)


class TableExchange(ABC):
    """See `leasehold.core.rules.exchanging.ExchangeBook`."""

    __slots__ = ("_database", "_step", "generation", "granted", "now")
    links: ClassVar[type[TableLinks]]

    def __init__(self, database: Any, step: Any) -> None:
        self._database: TableDatabase = database
        self._step: TableStep = step
        self.now = self._step.now
        self.generation = self._step.settings.generation
        self.granted: list[Granted] = []

    @abstractmethod
    def fire_due(self) -> int | None: ...

    @abstractmethod
    def _lease(self, request: LeaseRequest) -> Leased: ...

    @abstractmethod
    def next_due(self, queues: Sequence[str]) -> int | None: ...

    def note_consumer(self, request: LeaseRequest) -> None:
        note_consumer(self._step, request)

    def resolve(self) -> None:
        self.links.resolve(self._step)

    def some_to_tell(self) -> bool:
        return self.links.some_to_tell(self._step)

    def lease(self, request: LeaseRequest) -> tuple[list[Lease], bool]:
        self.granted, cut_short, _ = self._lease(request)
        return [lease for _, lease in self.granted], cut_short
