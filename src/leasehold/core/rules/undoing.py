"""Undoing an order, job by job, for jobs that have not changed since.

A replayed job becomes dead or cancelled again, a cancelled job pending or blocked again, and a
priority is restored. Jobs that were leased or changed in the meantime refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.status import WAITING, Event, Status, check
from leasehold.core.rules.filter_orders import (
    CancelAll,
    Order,
    Ordered,
    OrderedJob,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.messages import reprioritized, undone
from leasehold.core.rules.people import By, OrderDesk, Replay, for_each
from leasehold.errors import InvalidTransitionError, LeaseholdError

H = TypeVar("H")


class Before(msgspec.Struct, frozen=True, array_like=True):
    """A job's state before an operation changed it. An array, since there may be many."""

    id: str
    status: Status
    priority: int
    allowance: int
    lease_version: int

    @classmethod
    def of(cls, job: Job) -> Before:
        return cls(job.id, job.status, job.priority, job.allowance, job.lease_version)


class OperationPart(msgspec.Struct, frozen=True):
    """The changes of one write of an operation."""

    at: datetime
    jobs: list[Before]


def undo(
    desk: OrderDesk[H], order: Order, part: OperationPart, actor: str, operation: str
) -> Ordered:
    """Undo an order for these jobs; a job that has changed since refuses."""
    befores = {before.id: before for before in part.jobs}

    def verb(handle: H, job: Job) -> None:
        before = befores[job.id]
        if job.lease_version != before.lease_version:
            raise _changed_since(job)
        _VERBS[type(order)](desk, handle, job, before, part.at, order, actor)

    by: By = {"actor": actor, "operation": operation}
    answers = for_each(desk, _in_order(desk, order, list(befores)), verb, "undo", by)
    done = [answer for answer in answers if isinstance(answer, Job)]
    refused = Counter(each.code for each in answers if isinstance(each, LeaseholdError))
    return Ordered(
        changed=len(done),
        jobs=[OrderedJob(job.id, job.status, job.priority) for job in done],
        refused=dict(refused),
    )


def _in_order(desk: OrderDesk[Any], order: Order, job_ids: Sequence[str]) -> list[str]:
    """Dependencies come first if jobs are restored. They come last if jobs end, since their ends
    would otherwise reach their dependents too early.
    """
    ordered = [job_ids[place] for place in desk.replay_order(job_ids)]
    return ordered[::-1] if isinstance(order, ReplayAll) else ordered


def _end_again(
    desk: OrderDesk[H], handle: H, job: Job, before: Before, _: datetime, __: Order, actor: str
) -> None:
    if job.status not in WAITING:
        raise _changed_since(job)
    if job.attempts <= before.allowance:
        desk.allow(handle, before.allowance)
    desk.end_waiting(handle, before.status, undone("replay", actor))


def _wait_again(
    desk: OrderDesk[H], handle: H, job: Job, before: Before, at: datetime, _: Order, actor: str
) -> None:
    if job.status is not Status.CANCELLED or job.completed_at != at:
        raise _changed_since(job)
    if before.status not in (Status.PENDING, Status.BLOCKED):
        raise InvalidTransitionError(
            f"job {job.id} was {before.status} when it was cancelled: it stays cancelled, since it "
            "would run before it is due; replay it to run it now"
        )
    check(Event.REPLAYED, job.status, Status.PENDING, job.id)
    waits_for = desk.waits_again_for(handle, job)
    status = Status.BLOCKED if waits_for else Status.PENDING
    again = Replay(status, job.attempts, job.allowance, undone("cancellation", actor))
    desk.replay(handle, again, waits_for)


def _prioritize_again(
    desk: OrderDesk[H], handle: H, job: Job, before: Before, _: datetime, order: Order, actor: str
) -> None:
    assert isinstance(order, ReprioritizeAll)
    if job.status not in WAITING or job.priority != order.priority:
        raise _changed_since(job)
    desk.reprioritize(handle, job.priority, before.priority)
    desk.tell(handle, Event.REPRIORITIZED, reprioritized(job.priority, before.priority, actor))


_VERBS: dict[type, Callable[..., None]] = {
    ReplayAll: _end_again,
    CancelAll: _wait_again,
    ReprioritizeAll: _prioritize_again,
}


def _changed_since(job: Job) -> InvalidTransitionError:
    return InvalidTransitionError(
        f"job {job.id} is {job.status}: it was leased or changed since, and was left unchanged"
    )
