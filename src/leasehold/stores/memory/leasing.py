"""The exchange: settle finished attempts, and lease the next jobs."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.core.model.stored import moment
from leasehold.env import from_micros
from leasehold.stores.memory import dependents
from leasehold.stores.memory.lease import lease, next_due
from leasehold.stores.memory.registry import note_consumer
from leasehold.stores.memory.schedules import fire_due
from leasehold.stores.memory.settling import settle
from leasehold.stores.memory.state import State


def exchange(
    state: State, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle finished attempts, then lease the next jobs."""
    generation = state.settings.generation
    now = from_micros(state.now)
    settled = [settle(state, settlement, now) for settlement in settlements]
    if request is None:
        return Exchange(settled, [], settings_generation=generation, at=now)
    if request.consumer is not None:
        note_consumer(state, request)
    # First, since settlements and due jobs may make others available.
    if state.links.ended:
        dependents.resolve(state)
    if state.next_tick is not None:
        fire_due(state)
    names = request.queues if len(request.queues) == 1 else dict.fromkeys(request.queues)
    queues = [name for name in names if name in state.queues]
    leases, cut_short = lease(state, request, queues, now)
    tick_at = moment(state.next_tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation, now)
    # Dependents of a job that came too late may be available when this call is over.
    go_on = cut_short or bool(state.links.ended)
    moments = [state.now] if go_on else next_due(state, queues)
    moments += [] if state.next_tick is None else [state.next_tick]
    return Exchange(settled, leases, moment(min(moments, default=None)), tick_at, generation, now)
