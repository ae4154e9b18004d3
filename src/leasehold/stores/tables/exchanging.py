"""The exchange: settle what ended and lease what fits, in one write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from leasehold.core.model.lease import Exchange, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Fail, Outcome
from leasehold.core.rules.ends import EndedLease, decide_end
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.tables import gate
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.dependents import TableLinks
from leasehold.stores.tables.ends import TableEnds
from leasehold.stores.tables.leasing import Granted, Leased
from leasehold.stores.tables.recover import note_consumer
from leasehold.stores.tables.step import TableStep


def are_of_different_jobs(settlements: Sequence[Settlement]) -> bool:
    """Whether all of them can be judged at once: not a job twice, under an old and a new lease."""
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
    """An exchange in one write, once its settlements are dealt with."""

    __slots__ = ("_database", "_step")
    links: ClassVar[type[TableLinks]]

    def __init__(self, database: Any, step: Any) -> None:
        self._database: TableDatabase = database
        self._step: TableStep = step

    @abstractmethod
    def _fire_due(self) -> int | None:
        """Submit the jobs of schedules that are due; answers when to look at them again."""

    @abstractmethod
    def _lease(self, request: LeaseRequest) -> Leased: ...

    @abstractmethod
    def _next_due(self, queues: Sequence[str]) -> int | None:
        """When a job of these queues may be available that is not now."""

    def answer(
        self, settled: list[Settled | LeaseLostError], request: LeaseRequest | None
    ) -> tuple[Exchange, list[Granted]]:
        """Lease what is asked for; answers with the settlements, and with what was granted."""
        step = self._step
        generation, at = step.settings.generation, from_micros(step.now)
        if request is not None and request.consumer is not None:
            note_consumer(step, request)
        if request is None or request.limit <= 0:
            return Exchange(settled, [], settings_generation=generation, at=at), []
        # First, since settlements and due jobs may make others available.
        self.links.resolve(step)
        tick = self._fire_due()
        granted, cut_short, _ = self._lease(request)
        leases = [lease for _, lease in granted]
        tick_at = None if tick is None else from_micros(tick)
        if len(leases) >= request.limit:
            return Exchange(settled, leases, None, tick_at, generation, at), granted
        # Dependents of a job that came too late may be available when this write is over.
        go_on = cut_short or self.links.some_to_tell(step)
        due = step.now if go_on else self._next_due(request.queues)
        if due is None or (tick is not None and tick < due):
            return Exchange(settled, leases, tick_at, tick_at, generation, at), granted
        return Exchange(settled, leases, from_micros(due), tick_at, generation, at), granted
