"""The exchange: settle finished attempts, and lease the next jobs."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.core.model.stored import moment
from leasehold.core.rules.replies import (
    check_request_id,
    digest_of_exchange,
    exchange_again,
    keep_exchange,
)
from leasehold.env import from_micros
from leasehold.stores.memory import dependents, replies
from leasehold.stores.memory.lease import lease, next_due
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.reading import get
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
                return exchange_again(before, digest, lambda job_id: get(state, job_id))
            answer = exchange(state, settlements, request)
            replies.keep(state, request_id, keep_exchange(answer, digest))
            return answer

        return self._write(exchange_unless_done)


def exchange(
    state: State, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle finished attempts, then lease the next jobs."""
    generation = state.settings.generation
    now = from_micros(state.now)
    settled = [settle(state, each, now) for each in settlements] if settlements else []
    if request is None:
        return Exchange(settled, [], settings_generation=generation, at=now)
    if request.consumer is not None:
        note_consumer(state, request)
    # First, since settlements and due jobs may make others available.
    if state.links.ended:
        dependents.resolve(state)
    if state.next_tick is not None and state.next_tick <= state.now:
        ScheduleShelf(state).fire_due()
    queues = [*request.queues]
    if len(queues) != 1 or queues[0] not in state.queues:
        queues = [name for name in dict.fromkeys(queues) if name in state.queues]
    leases, cut_short = lease(state, request, queues, now)
    tick_at = None if state.next_tick is None else from_micros(state.next_tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation, now)
    # Dependents of a job that came too late may be available when this call is over.
    go_on = cut_short or bool(state.links.ended)
    moments = [state.now] if go_on else next_due(state, queues)
    moments += [] if state.next_tick is None else [state.next_tick]
    return Exchange(settled, leases, moment(min(moments, default=None)), tick_at, generation, now)
