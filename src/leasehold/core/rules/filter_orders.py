"""Orders to all jobs that match a filter, carried out inside the store, a bounded number per write.

Such an order transfers no jobs: the answer has counts. A reader finds the matching jobs without the
lock; the write checks each job again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.job import Job, priority_of
from leasehold.core.model.refusals import check_page
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import TERMINAL, WAITING, Status
from leasehold.core.model.text import make_plain
from leasehold.core.rules import people
from leasehold.core.rules.people import OrderDesk
from leasehold.errors import InvalidJobError, InvalidOrderError, LeaseholdError

ORDERED_AT_ONCE: Final = 500
"""Jobs that one write changes, so that other writers get a turn in between."""

H = TypeVar("H")


class CancelAll(msgspec.Struct, frozen=True, tag="cancel"):
    """Cancel jobs that wait or run."""

    reason: str = ""

    def __post_init__(self) -> None:
        make_plain(self)


class ReplayAll(msgspec.Struct, frozen=True, tag="replay"):
    """Replay dead or cancelled jobs."""

    reset_attempts: bool = False


class DiscardAll(msgspec.Struct, frozen=True, tag="discard"):
    """Delete jobs that have ended."""


class ReprioritizeAll(msgspec.Struct, frozen=True, tag="reprioritize"):
    """Change the priority of waiting jobs."""

    priority: int

    def __post_init__(self) -> None:
        make_plain(self)


class PurgeAll(msgspec.Struct, frozen=True, tag="purge"):
    """Delete waiting jobs; dependents treat them as cancelled."""


Order = CancelAll | ReplayAll | DiscardAll | ReprioritizeAll | PurgeAll

ABLE: Final[dict[type, frozenset[Status]]] = {
    CancelAll: WAITING | {Status.RUNNING},
    ReplayAll: frozenset({Status.DEAD, Status.CANCELLED}),
    DiscardAll: frozenset(TERMINAL),
    ReprioritizeAll: frozenset(WAITING),
    PurgeAll: frozenset(WAITING),
}
"""The statuses in which a job can take an order."""


class OrderedJob(msgspec.Struct, frozen=True):
    """A job that has taken an order, in its new state."""

    id: str
    status: Status
    priority: int


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """What an order did in one write."""

    changed: int = 0
    jobs: list[OrderedJob] = []
    """The jobs that were changed; further columns are up to the store."""
    refused: dict[str, int] = {}
    """How many matched but could not take the order, by error code."""
    next_cursor: str | None = None
    """Repeat the order with it, since more jobs match; None when all were handled."""
    blobs_left: list[Job] = []
    """Deleted jobs with a payload or a result in a blob, so that the caller can delete the blob."""


class FilterOrders(Protocol):
    """The part of a store that takes orders about all matching jobs."""

    def order(
        self,
        order: Order,
        where: JobFilter,
        *,
        actor: str,
        limit: int = ORDERED_AT_ONCE,
        cursor: str | None = None,
    ) -> Ordered:
        """Carry an order out for matching jobs, at most `limit`, in one write.

        - ORD-1  Each job gets the same treatment as by `cancel`, `replay`, `discard`,
                 `reprioritize` or `purge_queue`, with one audit record for all of this write; jobs
                 that cannot take the order are not included. The answer has the changed jobs in
                 their new state.
        - ORD-2  While the answer has a cursor, more jobs match: a caller that repeats the order
                 with it until there is none visits every job that matched throughout, and none
                 twice.
        - ORD-3  Jobs that no longer match when the write reaches them are left alone. Jobs that
                 refuse are counted and do not hinder the others.
        - ORD-4  Replays and discards begin with the oldest jobs, since dependencies are usually
                 older than their dependents; the other orders begin with the latest.
        - ORD-5  A limit outside 1 to PAGE_MAX, an invalid cursor and an invalid order raise
                 InvalidPageError, InvalidCursorError and InvalidOrderError; nothing is changed.
        """


def is_oldest_first(order: Order) -> bool:
    """Whether the order begins with the oldest jobs (ORD-4)."""
    return isinstance(order, ReplayAll | DiscardAll)


def narrowed(order: Order, where: JobFilter, limit: int) -> JobFilter:
    """The filter, narrowed to jobs that can take the order; refuses an unknown order."""
    check_page(limit)
    able = ABLE.get(type(order))
    if able is None:
        raise InvalidOrderError(f"{order!r} is not an order about jobs")
    if isinstance(order, ReprioritizeAll):
        try:
            priority_of(order.priority)
        except InvalidJobError as error:
            raise InvalidOrderError(str(error)) from None
    wanted = where.statuses or tuple(able)
    return msgspec.structs.replace(
        where, statuses=tuple(status for status in wanted if status in able)
    )


def carry_out(
    desk: OrderDesk[H], order: Order, where: JobFilter, job_ids: Sequence[str], actor: str
) -> Ordered:
    """Give the order to the given jobs that still match."""
    found = desk.find_all(job_ids)
    fitting = [each for each in job_ids if each in found and where.matches(found[each][1])]
    return give(desk, order, fitting, actor)


def give(
    desk: OrderDesk[H],
    order: Order,
    job_ids: Sequence[str],
    actor: str,
    operation: str | None = None,
) -> Ordered:
    """Give the order to these jobs, alone or as part of an operation."""
    answers = _answers(desk, order, job_ids, actor, operation)
    done = [answer for answer in answers if isinstance(answer, Job)]
    refused = Counter(each.code for each in answers if isinstance(each, LeaseholdError))
    kept_apart = [job for job in done if BLOB_CODEC in (job.codec, job.result_codec)]
    return Ordered(
        changed=len(done),
        jobs=[OrderedJob(job.id, job.status, job.priority) for job in done],
        refused=dict(refused),
        blobs_left=kept_apart if isinstance(order, DiscardAll | PurgeAll) else [],
    )


def _answers(
    desk: OrderDesk[Any], order: Order, job_ids: Sequence[str], actor: str, operation: str | None
) -> people.Answers:
    by: people.By = {"actor": actor, "operation": operation}
    match order:
        case CancelAll(reason):
            return people.cancel(desk, job_ids, reason=reason, **by)
        case ReplayAll(reset_attempts):
            return people.replay(desk, job_ids, reset_attempts=reset_attempts, **by)
        case DiscardAll():
            return people.discard(desk, job_ids, **by)
        case ReprioritizeAll(priority):
            return people.reprioritize_all(desk, job_ids, priority, **by)
        case PurgeAll():
            return people.purge(desk, job_ids, **by)
