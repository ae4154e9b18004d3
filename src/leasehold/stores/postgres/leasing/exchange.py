"""The exchange: settle what ended and lease what fits, in one write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.core.rules.replies import (
    check_request_id,
    digest_of_exchange,
    exchange_again,
    keep_exchange,
)
from leasehold.env import from_micros
from leasehold.stores.postgres.leasing import lease as leasing
from leasehold.stores.postgres.leasing import settle
from leasehold.stores.postgres.leasing.registry import note_consumer
from leasehold.stores.postgres.reading.read import read_job
from leasehold.stores.postgres.rules.schedules import shelf
from leasehold.stores.postgres.submitting import dependents
from leasehold.stores.postgres.writing import replies
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step


def exchange(
    database: Database, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle and lease."""
    # A lease does not pay for a long fan-out: the next exchange continues it.
    queues = () if request is None else request.queues
    ahead = [settle.ahead(settlements)] if settlements else []
    is_light = database.remembered.rules.are_light(queues)
    if request is not None and request.limit > 0:
        ahead += leasing.ahead(request, _probable_lane(database, request) if is_light else None)
    return database.write(
        lambda step: _exchange(database, step, settlements, request),
        go_on=request is None,
        side_by_side=partial(_side_by_side, queues) if is_light else None,
        ahead=ahead if settle.are_of_different_jobs(settlements) else (),
    )


def _side_by_side(queues: Iterable[str], step: Step) -> bool:
    """Whether nothing that an exchange does concerns other jobs than its own."""
    found = step.found
    due = (found.next_crossing, found.next_tick)
    return not (
        found.somebody_waits
        or found.some_unresolved
        or found.some_inheriting
        or found.some_rescoring
        or any(moment is not None and moment <= step.now for moment in due)
        or not step.rules.are_light(queues)
    )


def _probable_lane(database: Database, request: LeaseRequest) -> int | None:
    """The lane in which the jobs of a request probably are: where they were the last time."""
    if request.parent_id is not None or request.tasks is not None or request.except_lanes:
        return None
    return database.remembered.lanes_with_work.get(request.queues)


def exchange_once(
    database: Database,
    request_id: str,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> Exchange:
    """The same, or the answer to it when it was carried out before under this id."""
    check_request_id(request_id)
    digest = digest_of_exchange(settlements, request)

    def operation(step: Step) -> Exchange:
        before = replies.find(step.db, request_id, step.now)
        if before is not None:
            return exchange_again(before, digest, partial(read_job, step.db))
        answer = _exchange(database, step, settlements, request)
        replies.keep(step, request_id, keep_exchange(answer, digest))
        return answer

    return database.write(operation, go_on=request is None)


def _exchange(
    database: Database,
    step: Step,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> Exchange:
    settled = settle.settle(step, settlements) if settlements else []
    generation, at = step.settings.generation, from_micros(step.now)
    if request is not None and request.consumer is not None:
        note_consumer(step, request)
    if request is None or request.limit <= 0:
        return Exchange(settled, [], settings_generation=generation, at=at)
    # First, since what was settled and what is due may make others available.
    dependents.resolve(step)
    tick = step.found.next_tick
    if tick is not None and tick <= step.now:
        _, tick = shelf(database, step).fire_due()
    granted, cut_short, lane = leasing.lease(
        step, request, database.group_rounds, database.lives.number_of(request.worker)
    )
    if granted:
        database.remembered.lanes_with_work[request.queues] = lane
    leases = [lease for _, lease in granted]
    tick_at = None if tick is None else from_micros(tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation, at)
    # Whoever waited for a job that came too late may be available when this write is over.
    go_on = cut_short or dependents.some_to_tell(step)
    due = step.now if go_on else leasing.next_due(step, request.queues)
    if due is None or (tick is not None and tick < due):
        return Exchange(settled, leases, tick_at, tick_at, generation, at)
    return Exchange(settled, leases, from_micros(due), tick_at, generation, at)
