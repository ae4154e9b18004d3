"""Rules of orders by filter: each job that fits is treated as by its id."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.job import Job
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    Ordered,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.errors import InvalidOrderError
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.queueing import fits

WAITING = (Status.PENDING, Status.SCHEDULED, Status.FAILED, Status.BLOCKED)
ABLE: Final[dict[type, tuple[Status, ...]]] = {
    CancelAll: (*WAITING, Status.RUNNING),
    ReplayAll: (Status.DEAD, Status.CANCELLED),
    DiscardAll: (Status.COMPLETED, Status.DEAD, Status.CANCELLED),
    ReprioritizeAll: WAITING,
}


def meant(step: JudgedCall) -> list[Job]:
    """The jobs that fit and can take the order, in the order in which it goes through them."""
    order, where = step.call.get("order"), step.call.get("where")
    found = [
        job
        for job in step.before.jobs.values()
        if job.status in ABLE[type(order)] and fits(where, job)
    ]
    return found if isinstance(order, ReplayAll | DiscardAll) else found[::-1]


@rule("ORD-1")
def who_fits_gets_the_order(step: JudgedCall) -> int:
    if not isinstance(step.answer, Ordered):
        return 0
    order = step.call.get("order")
    jobs = meant(step)[: step.call.get("limit")]
    dealt_with = step.answer.changed + sum(step.answer.refused.values())
    assert dealt_with == len(jobs), f"{dealt_with} of {[job.id for job in jobs]}"
    changed = [job for job in jobs if _has_taken(step, job)]
    assert len(changed) == step.answer.changed, f"{[job.id for job in changed]} have taken it"
    if isinstance(order, ReplayAll):
        step.book.replayed.update(job.id for job in changed)
    return len(changed)


@rule("ORD-2")
def a_cursor_says_that_more_fit(step: JudgedCall) -> int:
    if not isinstance(step.answer, Ordered):
        return 0
    more = len(meant(step)) > int(step.call.get("limit"))
    assert not more or step.answer.next_cursor is not None, "more fit, and nobody is told"
    return more


@rule("ORD-5")
def what_is_no_order_changes_nothing(step: JudgedCall) -> int:
    order = step.call.get("order")
    if step.method != "order" or not isinstance(order, ReprioritizeAll) or order.priority <= 100:
        return 0
    assert isinstance(step.answer, InvalidOrderError), f"{order} is none: {step.answer!r}"
    assert step.events == [], f"{step.events}"
    return 1


def _has_taken(step: JudgedCall, job: Job) -> bool:
    order, after = step.call.get("order"), step.after.jobs.get(job.id)
    if after is None:
        return isinstance(order, DiscardAll)
    if isinstance(order, CancelAll):
        return after.is_terminal or after.cancel_requested is not None
    if isinstance(order, ReplayAll):
        return any(event.job_id == job.id for event in step.happened(Event.REPLAYED))
    return isinstance(order, ReprioritizeAll) and after.priority == order.priority
