"""The exchange, once its settlements are dealt with: in which order things are done, and when the
worker should come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leasehold.core.model.lease import Exchange, Lease, LeaseRequest, Settled
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError


class ExchangeBook(Protocol):
    """A store, inside the write of one exchange."""

    @property
    def now(self) -> int:
        """The store's clock, in microseconds."""

    @property
    def generation(self) -> int:
        """Which settings of the store count."""

    def note_consumer(self, request: LeaseRequest) -> None:
        """Enter the leasing worker as a consumer, or note that it still is one, or no more."""

    def resolve(self) -> None:
        """Deal with dependents of jobs that have ended, so many of them."""

    def some_to_tell(self) -> bool:
        """Whether jobs have ended whose dependents are still to be told."""

    def fire_due(self) -> int | None:
        """Submit the jobs of schedules that are due; answers when the next tick is."""

    def lease(self, request: LeaseRequest) -> tuple[list[Lease], bool]:
        """Lease what fits; whether a budget was used up before all could be looked at."""

    def next_due(self, queues: Sequence[str]) -> int | None:
        """When a job of these queues may be available that is not now."""


def answer(
    book: ExchangeBook, settled: list[Settled | LeaseLostError], request: LeaseRequest | None
) -> Exchange:
    """Lease what is asked for, and answer with the settlements too."""
    generation, at = book.generation, from_micros(book.now)
    if request is not None and request.consumer is not None:
        book.note_consumer(request)
    if request is None or request.limit <= 0:
        return Exchange(settled, [], None, None, generation, at)
    # First, since settlements and due jobs may make others available.
    book.resolve()
    tick = book.fire_due()
    leases, cut_short = book.lease(request)
    tick_at = None if tick is None else from_micros(tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation, at)
    # Dependents of a job that came too late may be available when this write is over.
    go_on = cut_short or book.some_to_tell()
    due = book.now if go_on else book.next_due(request.queues)
    if due is None or (tick is not None and tick < due):
        return Exchange(settled, leases, tick_at, tick_at, generation, at)
    return Exchange(settled, leases, from_micros(due), tick_at, generation, at)
