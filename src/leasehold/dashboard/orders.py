"""The orders of the pages: each with its question, its effect and its message.

An order is always a posted form, never a link. An order that cannot be undone or affects more than
one job is confirmed on a separate page, which says how many jobs are affected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leasehold.core.model.phrases import counted
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import CancelAll, ReplayAll, ReprioritizeAll
from leasehold.core.rules.operations import Operation, OperationDraft, is_undoable
from leasehold.dashboard.action import OPERATOR, Action, Fields, Question, given, operation_of
from leasehold.dashboard.bulk import BULK
from leasehold.dashboard.graph_orders import GRAPH_ORDERS
from leasehold.dashboard.left_behind import left_behind
from leasehold.dashboard.pages.rules import RULE_ORDERS
from leasehold.dashboard.pin_orders import PIN_ORDERS
from leasehold.dashboard.shown import link
from leasehold.dashboard.visit import Desk
from leasehold.documents.operations import done_of, undo_of, verb_of, why_skipped
from leasehold.errors import InvalidRequestError, InvalidTransitionError
from leasehold.service.caller import Caller

# -- one job ---------------------------------------------------------------------------------------


def _ask_cancel(desk: Desk, fields: Fields) -> Question:
    job = desk.queue.get(given(fields, "job_id"))
    if job.status is Status.RUNNING:
        effect = "It is running: its code is asked to stop, and is cancelled as soon as it lets go."
    else:
        effect = "It is cancelled at once, and jobs that depend on it are told."
    return Question(f"Cancel job {job.id}?", effect, "Cancel the job", has_reason=True)


def _ask_discard(desk: Desk, fields: Fields) -> Question:
    job = desk.queue.get(given(fields, "job_id"))
    effect = "The job, its attempts, its history and its log are deleted. This cannot be undone."
    return Question(f"Discard job {job.id}?", effect, "Discard the job", is_grave=True)


# -- queues ----------------------------------------------------------------------------------------


def _ask_pause(desk: Desk, fields: Fields) -> Question:
    info = desk.queue.queue_info(given(fields, "queue"))
    effect = (
        f"No job of it starts until somebody resumes it: {counted(info.pending, 'pending job')} "
        f"{'waits' if info.pending == 1 else 'wait'}. Running jobs ({info.running:,}) go on, "
        "and new jobs are accepted."
    )
    return Question(f"Pause queue {info.name}?", effect, "Pause the queue")


def _ask_drain(desk: Desk, fields: Fields) -> Question:
    info = desk.queue.queue_info(given(fields, "queue"))
    effect = (
        "New jobs are refused until somebody resumes it. What it has finishes: "
        f"{counted(info.pending, 'pending job')} and {info.running:,} running."
    )
    return Question(f"Drain queue {info.name}?", effect, "Drain the queue")


# -- operations ------------------------------------------------------------------------------------


def _ask_bulk(name: str) -> Callable[[Desk, Fields], Question]:
    """The question of an order to many jobs: its plan."""
    bulk = BULK[name]

    def ask(desk: Desk, fields: Fields) -> Question:
        plan = bulk.plan(desk, fields)
        verb, jobs = verb_of(plan.order), counted(plan.planned, "job")
        undo = undo_of(plan.order, plan.counts)
        return Question(
            f"{verb.capitalize()} {bulk.about(fields)}{_and_others(fields)}?",
            f"{verb.capitalize()} {jobs}. {undo}"
            if plan.planned
            else "No job can take this order.",
            f"{verb.capitalize()} {jobs}" if plan.planned else "",
            is_grave=not is_undoable(plan.order),
            has_reason=isinstance(plan.order, CancelAll),
            has_priority=isinstance(plan.order, ReprioritizeAll),
            has_reset=isinstance(plan.order, ReplayAll),
            plan=plan,
            samples=tuple(desk.queue.operations.samples(plan)),
            why_skipped=why_skipped(plan.order),
            left_behind=left_behind(desk, plan),
        )

    return ask


def _and_others(fields: Fields) -> str:
    return " and the jobs that ended because of them" if fields.get("dependents") == "on" else ""


def _bulk(name: str, back: Callable[[Fields], str]) -> Action:
    return Action(OPERATOR, BULK[name].begin, "", back, _ask_bulk(name))


def _known(desk: Desk, fields: Fields) -> Operation:
    return desk.queue.operations.get(given(fields, "operation"))


def _stop(desk: Desk, caller: Caller, fields: Fields) -> Operation:
    return desk.store.stop_operation(_known(desk, fields).id, actor=caller.actor)


def _continue(desk: Desk, caller: Caller, fields: Fields) -> Operation:
    draft = OperationDraft(id=desk.env.new_id(), resumes=given(fields, "operation"))
    operation = desk.store.begin_operation(draft, actor=caller.actor)
    desk.runner.start(operation)
    return operation


def _ask_undo(desk: Desk, fields: Fields) -> Question:
    known = _known(desk, fields)
    effect = (
        f"{counted(known.changed, 'job')} {'was' if known.changed == 1 else 'were'} "
        f"{done_of(known.order)}. {undo_of(known.order, known.counts)} "
        "Those that were leased or changed since are left as they are, and counted."
    )
    return Question("Undo this operation?", effect, "Undo the operation")


def _undo(desk: Desk, caller: Caller, fields: Fields) -> Operation:
    draft = OperationDraft(id=desk.env.new_id(), undoes=given(fields, "operation"))
    try:
        operation = desk.store.begin_operation(draft, actor=caller.actor)
    except InvalidTransitionError:
        # A form that is sent twice has begun it already: then this is about the same undo.
        undone_by = _known(desk, fields).undone_by
        if undone_by is None:
            raise
        return desk.queue.operations.get(undone_by)
    desk.runner.start(operation)
    return operation


# -- the table -------------------------------------------------------------------------------------


def _to_job(fields: Fields) -> str:
    return link("job", id=fields["job_id"])


def _to_queue(fields: Fields) -> str:
    return link("queue", name=fields["queue"])


def _to_letters(fields: Fields) -> str:
    return link("dead-letters", queue=fields.get("queue"), task=fields.get("task"))


def _to_group(fields: Fields) -> str:
    return link("failure", fingerprint=fields["fingerprint"])


def _to_jobs(fields: Fields) -> str:
    return link("jobs", q=fields.get("q"))


def _to_operation(fields: Fields) -> str:
    return link("operation", id=fields["operation"])


def _to(page: str) -> Callable[[Fields], str]:
    return lambda _: page


ORDERS: Final[dict[str, Action]] = {
    "cancel": Action(
        OPERATOR, operation_of("cancel", "job_id", "reason"),
        "The job was cancelled, or is asked to stop.", _to_job, _ask_cancel,
    ),
    "discard": Action(
        OPERATOR, operation_of("discard", "job_id"), "The job was deleted.", _to("jobs"),
        _ask_discard,
    ),
    "pause-queue": Action(
        OPERATOR, operation_of("pause_queue", "queue"), "The queue is paused.", _to_queue,
        _ask_pause,
    ),
    "resume-queue": Action(
        OPERATOR, operation_of("resume_queue", "queue"), "The queue is active again.", _to_queue,
    ),
    "drain-queue": Action(
        OPERATOR, operation_of("drain_queue", "queue"), "The queue accepts no more jobs.",
        _to_queue, _ask_drain,
    ),
    "purge-queue": _bulk("purge-queue", _to_queue),
    "replay-letters": _bulk("replay-letters", _to_letters),
    "discard-letters": _bulk("discard-letters", _to_letters),
    "replay-group": _bulk("replay-group", _to_group),
    "cancel-found": _bulk("cancel-found", _to_jobs),
    "replay-found": _bulk("replay-found", _to_jobs),
    "reprioritize-found": _bulk("reprioritize-found", _to_jobs),
    "discard-found": _bulk("discard-found", _to_jobs),
    "stop-operation": Action(OPERATOR, _stop, "", _to("operations")),
    "continue-operation": Action(OPERATOR, _continue, "", _to("operations")),
    "undo-operation": Action(OPERATOR, _undo, "", _to_operation, _ask_undo),
    "run-schedule": Action(
        OPERATOR, operation_of("run_schedule", "name", "request_id"),
        "Its job was submitted, out of turn.", _to("schedules"),
    ),
    "pause-schedule": Action(
        OPERATOR, operation_of("pause_schedule", "name"), "The schedule is paused.",
        _to("schedules"),
    ),
    "resume-schedule": Action(
        OPERATOR, operation_of("resume_schedule", "name"), "The schedule is active again.",
        _to("schedules"),
    ),
    **RULE_ORDERS,
    **GRAPH_ORDERS,
    **PIN_ORDERS,
}  # fmt: skip
"""Every order, by the name that forms have for it."""


def told(order: str, count: str) -> str | None:
    """A page's message about an order that was carried out just now; None for an unknown one."""
    if order not in ORDERS or not (count.isascii() and count.isdecimal() and len(count) < 12):
        return None
    action, n = ORDERS[order], int(count)
    if not n and action.told_none:
        return action.told_none
    return action.told.format(jobs=counted(n, "job"), rules=counted(n, "rule"))


def order_named(name: str) -> Action:
    """An order; raises InvalidRequestError if there is none of that name."""
    order = ORDERS.get(name)
    if order is None:
        raise InvalidRequestError(f"there is no order {name!r}")
    return order
