"""The exchange: settle what ended and lease what fits, in one write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.core.rules.replies import check_request_id, exchange_again, keep_exchange
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.leasing import settle
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.rules.schedules import fire_due, shelf
from leasehold.stores.sqlite.submitting import dependents
from leasehold.stores.sqlite.writing import replies
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step

KNOWN_LEASES_MAX: Final = 100_000


def exchange(
    database: Database, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle and lease; what is learnt of the leases is remembered once they are committed."""
    # A lease does not pay for a long fan-out: the next exchange continues it.
    answer, numbers = database.write(
        lambda step: _exchange(database, step, settlements, request), go_on=request is None
    )
    _remember(database, settlements, answer, numbers)
    return answer


def exchange_once(
    database: Database,
    request_id: str,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> Exchange:
    """The same, or the answer to it when it was carried out before under this id."""
    check_request_id(request_id)

    def operation(step: Step) -> tuple[Exchange, list[tuple[int, int]] | None]:
        before = replies.find(step.db, request_id, step.now)
        if before is not None:
            return exchange_again(before, partial(read_job, step.db)), None
        answer, numbers = _exchange(database, step, settlements, request)
        replies.keep(step, request_id, keep_exchange(answer))
        return answer, numbers

    answer, numbers = database.write(operation, go_on=request is None)
    if numbers is not None:
        _remember(database, settlements, answer, numbers)
    return answer


def _remember(
    database: Database,
    settlements: Sequence[Settlement],
    answer: Exchange,
    numbers: list[tuple[int, int]],
) -> None:
    # Only now that they are committed: numbers of a write that was rolled back are used again.
    known = database.known_leases
    for settlement in settlements:
        known.pop((settlement.job_id, settlement.version), None)
    if len(known) > KNOWN_LEASES_MAX:
        known.clear()
    for granted, number in zip(answer.leases, numbers, strict=True):
        known[granted.job_id, granted.version] = number


def _exchange(
    database: Database,
    step: Step,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> tuple[Exchange, list[tuple[int, int]]]:
    settled = settle.settle(step, settlements, database.known_leases) if settlements else []
    generation, at = step.settings.generation, from_micros(step.now)
    if request is None or request.limit <= 0:
        return Exchange(settled, [], settings_generation=generation, at=at), []
    # First, since what was settled and what is due may make others available.
    dependents.resolve(step)
    _, tick = fire_due(shelf(database, step))
    granted, cut_short = leasing.lease(step, request)
    leases = [lease for _, lease in granted]
    numbers = [(job.seq, job.lane) for job, _ in granted]
    tick_at = None if tick is None else from_micros(tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation, at), numbers
    # Whoever waited for a job that came too late may be available when this write is over.
    go_on = cut_short or dependents.some_to_tell(step)
    due = step.now if go_on else leasing.next_due(step)
    if due is None or (tick is not None and tick < due):
        return Exchange(settled, leases, tick_at, tick_at, generation, at), numbers
    return Exchange(settled, leases, from_micros(due), tick_at, generation, at), numbers
