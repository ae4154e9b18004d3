"""Rules of operations: the announced plan is done or told, and nothing else; an undo restores."""

from __future__ import annotations

from collections import Counter
from typing import Final

from leasehold.core.model.job import Job
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    PurgeAll,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.operations import Advance, Operation, OperationState, Plan
from leasehold.errors import InvalidTransitionError, OperationNotFoundError
from leasehold.testing.soak.book import KnownOperation, KnownPlan
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.filter_orders import ABLE as ABLE_ONE_BY_ONE
from leasehold.testing.soak.rules.filter_orders import WAITING
from leasehold.testing.soak.rules.queueing import fits

ABLE: Final = {**ABLE_ONE_BY_ONE, PurgeAll: WAITING}
DELETING: Final = (DiscardAll, PurgeAll)


@rule("OPE-1")
def a_plan_counts_what_would_get_the_order(step: JudgedCall) -> int:
    if not isinstance(step.answer, Plan):
        return 0
    order, where = step.call.get("order"), step.call.get("where")
    found = [job for job in step.before.jobs.values() if fits(where, job)]
    able = {job.id: job for job in found if job.status in ABLE[type(order)]}
    counts = Counter(job.status for job in able.values())
    skipped = Counter(job.status for job in found if job.id not in able)
    assert step.answer.counts == counts, f"there are {counts}"
    assert step.answer.skipped == skipped, f"{skipped} cannot take it"
    step.book.plans.append(KnownPlan(step.answer, able))
    return 1


@rule("OPE-3")
def an_operation_begins_once_and_changes_nothing_yet(step: JudgedCall) -> int:
    if not isinstance(step.answer, Operation) or step.method != "begin_operation":
        return 0
    draft = step.call.get("draft")
    known = step.book.operations.get(draft.id)
    if known is not None:
        assert _same(step.answer, known.last), f"it began as {known.last}"
        return 1
    changed = [event for event in step.events if event.event not in (Event.PROMOTED, Event.CREATED)]
    assert not changed, f"nothing was done yet, but {changed}"
    assert step.answer.state is OperationState.RUNNING, f"{step.answer}"
    made = [each for each in step.book.plans if each.plan == draft.plan]
    planned = made[0].jobs if made else {}
    step.book.operations[draft.id] = KnownOperation(step.answer, planned, draft.undoes)
    return 1


@rule("OPE-4")
def only_what_has_ended_is_undone_and_once(step: JudgedCall) -> int:
    draft = step.call.get("draft")
    if step.method != "begin_operation" or draft.undoes is None:
        return 0
    target = step.book.operations.get(draft.undoes)
    if target is None:
        assert isinstance(step.answer, OperationNotFoundError), f"{step.answer!r}"
        return 1
    if target.undone_by == draft.id:
        return 0  # It is asked again.
    can_be_undone = (
        target.last.state is not OperationState.RUNNING
        and target.undone_by is None
        and bool(target.changed)
        and target.undoes is None
        and not isinstance(target.last.order, DELETING)
    )
    if can_be_undone:
        assert isinstance(step.answer, Operation), f"{target.last} could be undone: {step.answer!r}"
        target.undone_by = draft.id
    else:
        assert isinstance(step.answer, InvalidTransitionError), f"{target.last}: {step.answer!r}"
    return 1


@rule("OPE-5")
def an_operation_meets_every_job_of_its_plan_once(step: JudgedCall) -> int:
    if step.method != "advance_operation":
        return 0
    known = step.book.operations.get(step.call.get("operation_id"))
    if known is None:
        assert isinstance(step.answer, OperationNotFoundError), f"{step.answer!r}"
        return 1
    assert isinstance(step.answer, Advance), f"{step.answer!r}"
    done, after = [job.id for job in step.answer.jobs], step.answer.operation
    if known.last.state is not OperationState.RUNNING:
        assert _same(after, known.last), f"it has ended as {known.last}, and went on"
        assert not done, f"it has ended, and was done to {done}"
        return 1
    again = known.changed.keys() & set(done)
    assert not again, f"it was done twice to {again}"
    assert after.changed == len(known.changed) + len(done), f"{after.changed} are told"
    if known.undoes is None:
        _is_as_announced(step, known, done)
    else:
        _is_restored(step, step.book.operations[known.undoes], done)
    for job_id in done:
        known.changed[job_id] = (step.before.jobs[job_id], step.after.jobs.get(job_id))
    known.last = after
    if after.state is OperationState.DONE and not step.book.clock_repaired:
        _nobody_was_passed_over(step, known)
    return 1


@rule("OPE-8")
def a_stopped_operation_goes_no_further(step: JudgedCall) -> int:
    if step.method != "stop_operation":
        return 0
    known = step.book.operations.get(step.call.get("operation_id"))
    if known is None:
        assert isinstance(step.answer, OperationNotFoundError), f"{step.answer!r}"
    elif known.last.state is OperationState.DONE:
        assert isinstance(step.answer, InvalidTransitionError), f"it is done: {step.answer!r}"
    else:
        assert isinstance(step.answer, Operation), f"{step.answer!r}"
        assert step.answer.state is OperationState.STOPPED, f"{step.answer}"
        known.last = step.answer
    return 1


@rule("OPE-9")
def every_operation_is_told(step: JudgedCall) -> int:
    if step.method == "operation":
        one = step.book.operations.get(step.call.get("operation_id"))
        expected = None if one is None else one.last
        assert (step.answer is None) == (one is None), f"{step.answer!r}"
        assert expected is None or _same(step.answer, expected), f"{step.answer} was {expected}"
        return 1
    if step.method != "operations":
        return 0
    known = list(step.book.operations.values())[::-1]
    assert len(step.answer) == len(known), f"{len(known)} have begun: {step.answer}"
    for told, each in zip(step.answer, known, strict=True):
        assert _same(told, each.last), f"{told} was {each.last}"
        assert told.undone_by == each.undone_by, f"{told} is undone by {each.undone_by}"
    return len(known)


def _same(one: Operation, other: Operation) -> bool:
    return (one.id, one.state, one.changed, one.refused, one.counts) == (
        other.id,
        other.state,
        other.changed,
        other.refused,
        other.counts,
    )


def _is_as_announced(step: JudgedCall, known: KnownOperation, done: list[str]) -> None:
    """A job that got the order was in the plan, and has taken it; no other got it."""
    order = known.last.order
    # An event in the very moment of the plan cannot be told from an earlier one.
    strangers = [
        step.before.jobs[job_id]
        for job_id in done
        if job_id not in known.planned
        and step.before.jobs[job_id].created_at != known.last.planned_at
        and step.before.jobs[job_id].updated_at != known.last.planned_at
    ]
    assert not strangers, f"{strangers} were not announced"
    assert len(done) <= step.call.get("limit"), f"{done} are more than was asked for"
    for job_id in done:
        after = step.after.jobs.get(job_id)
        if isinstance(order, DELETING):
            assert after is None, f"{job_id} is still {after}"
        elif isinstance(order, CancelAll):
            assert after is not None, f"{job_id} is gone"
            stopped = after.is_terminal or after.cancel_requested is not None
            assert stopped, f"{job_id} is {after}"
        elif isinstance(order, ReprioritizeAll):
            assert after is not None, f"{job_id} is gone"
            assert after.priority == order.priority, f"{job_id} is {after}"
    replayed = {event.job_id for event in step.happened(Event.REPLAYED)}
    assert replayed == (set(done) if isinstance(order, ReplayAll) else set()), f"{replayed}"
    gone = {job.id for job in step.gone if not step.may_forget(job)}
    assert gone <= (set(done) if isinstance(order, DELETING) else set()), f"{gone} are gone"
    step.book.replayed |= replayed


def _is_restored(step: JudgedCall, target: KnownOperation, done: list[str]) -> None:
    """A restored job is as it was before the operation that is undone."""
    order = target.last.order
    strangers = set(done) - target.changed.keys()
    assert not strangers, f"{strangers} had never got the order"
    for job_id in done:
        was, after = target.changed[job_id][0], step.after.jobs[job_id]
        if isinstance(order, ReplayAll):
            assert after.status is was.status, f"{job_id} was {was.status}, and is {after.status}"
            kept = after.attempts > was.allowance or after.allowance == was.allowance
            assert kept, f"{job_id} had {was.allowance} attempts, and has {after.allowance}"
        elif isinstance(order, CancelAll):
            waits = after.status in (Status.PENDING, Status.BLOCKED)
            assert waits, f"{job_id} was {was.status}, and is {after.status}"
        else:
            assert after.priority == was.priority, f"{job_id} had {was.priority}: {after.priority}"
    step.book.replayed |= {event.job_id for event in step.happened(Event.REPLAYED)}


def _nobody_was_passed_over(step: JudgedCall, known: KnownOperation) -> None:
    """An untouched job was treated as announced, or is among those that refused."""
    if known.undoes is None:
        left = [
            job_id
            for job_id, was in known.planned.items()
            if job_id not in known.changed and step.before.jobs.get(job_id) == was
        ]
    else:
        target = step.book.operations[known.undoes]
        left = [
            job_id
            for job_id, (was, after) in target.changed.items()
            if job_id not in known.changed
            and after is not None
            and step.before.jobs.get(job_id) == after
            and _can_be_restored(was, after, target)
        ]
    told = 0 if known.undoes is not None else sum(known.last.refused.values())
    assert len(left) <= told, f"{left} are as they were, and {known.last.refused} are told"


def _can_be_restored(was: Job, left: Job, target: KnownOperation) -> bool:
    if isinstance(target.last.order, CancelAll):
        waited = was.status in (Status.PENDING, Status.BLOCKED)
        return waited and left.status is Status.CANCELLED and not was.depends_on
    return left.status in WAITING
