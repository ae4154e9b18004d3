"""The exchange: settle finished attempts, and lease the next jobs."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.core.model.lease import Exchange, Lease, LeaseRequest, Settlement
from leasehold.core.rules import exchanging
from leasehold.core.rules.replies import (
    check_request_id,
    digest_of_exchange,
    exchange_again,
    keep_exchange,
)
from leasehold.stores.memory import dependents, replies
from leasehold.stores.memory.lease import lease, next_due
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.reading import Jobs
from leasehold.stores.memory.registry import note_consumer
from leasehold.stores.memory.schedules import ScheduleShelf
from leasehold.stores.memory.settling import settle
from leasehold.stores.memory.state import State


class ExchangeVerbs(LockedState):
    """The exchange of a worker with the store."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        return self._write(lambda state: exchange(state, settlements, request))

    def exchange_once(
        self,
        request_id: str,
        settlements: Sequence[Settlement] = (),
        request: LeaseRequest | None = None,
    ) -> Exchange:
        check_request_id(request_id)
        digest = digest_of_exchange(settlements, request)

        def exchange_unless_done(state: State) -> Exchange:
            before = replies.find(state, request_id)
            if before is not None:
                return exchange_again(before, digest, Jobs(state).read_job)
            answer = exchange(state, settlements, request)
            replies.keep(state, request_id, keep_exchange(answer, digest))
            return answer

        return self._write(exchange_unless_done)


def exchange(
    state: State, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle finished attempts, then lease the next jobs."""
    settled = [settle(state, each) for each in settlements] if settlements else []
    return exchanging.answer(ExchangeBook(state), settled, request)


class ExchangeBook:
    """See `leasehold.core.rules.exchanging.ExchangeBook`."""

    __slots__ = ("_state", "generation", "now")

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now
        self.generation = state.settings.generation

    def note_consumer(self, request: LeaseRequest) -> None:
        note_consumer(self._state, request)

    def resolve(self) -> None:
        if self._state.links.ended:
            dependents.resolve(self._state)

    def some_to_tell(self) -> bool:
        return bool(self._state.links.ended)

    def fire_due(self) -> int | None:
        tick = self._state.next_tick
        if tick is None or tick > self.now:
            return tick
        return ScheduleShelf(self._state).fire_due()[1]

    def lease(self, request: LeaseRequest) -> tuple[list[Lease], bool]:
        return lease(self._state, request)

    def next_due(self, queues: Sequence[str]) -> int | None:
        return next_due(self._state, queues)
