"""Operations: an order to all jobs counted by a plan, with progress, a report and an undo.

A plan is a filter frozen at one moment. An operation carries it out, a bounded number of jobs per
write, and each write also saves its record: if a process dies in between, any other can continue
the operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.limits import NAME_LENGTH_MAX
from leasehold.core.model.refusals import check_page
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.filter_orders import (
    ABLE,
    CancelAll,
    DiscardAll,
    Order,
    Ordered,
    OrderedJob,
    PurgeAll,
    give,
    is_oldest_first,
    narrowed,
)
from leasehold.core.rules.operation_shelf import JobsFound, JobsToFind, OperationShelf
from leasehold.core.rules.people import OrderDesk
from leasehold.core.rules.queue_orders import said
from leasehold.core.rules.undoing import Before, OperationPart, undo
from leasehold.env import from_micros
from leasehold.errors import (
    InvalidFilterError,
    InvalidOrderError,
    InvalidTransitionError,
    OperationNotFoundError,
)

H = TypeVar("H")

OPERATIONS_KEPT: Final = 1_000
"""How many operations have their records kept."""
UNDOABLE_KEPT: Final = 50
"""For how many of the latest operations the earlier state of each job is kept."""
SILENT_SECONDS: Final = 60.0
"""An operation without progress for this long counts as interrupted: no process carries it out."""


class OperationState(StrEnum):
    """The state of an operation."""

    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"


class Undo(msgspec.Struct, frozen=True, tag="undo"):
    """Undo an operation for all jobs that have not changed since."""

    operation: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that an order would change: those that matched a filter at one moment."""

    operation_id: str
    """The id of the operation that carries it out: there is only one, however often it is begun."""
    order: Order
    where: JobFilter
    """The requested filter, limited to jobs submitted before the plan was made."""
    at: datetime
    counts: dict[Status, int] = {}
    """How many jobs would get the order, by status."""
    skipped: dict[Status, int] = {}
    """How many match but cannot take the order because of their status."""
    seal: str = ""
    """For a plan made by a service: how the service recognises it."""

    @property
    def planned(self) -> int:
        """How many jobs would get the order."""
        return sum(self.counts.values())


class OperationDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An operation to begin."""

    id: str
    plan: Plan | None = None
    undoes: str | None = None
    """The operation to undo; then there is no plan."""
    resumes: str | None = None
    """The operation to resume, which keeps its own id; then there is neither."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as it was at one moment."""

    id: str
    order: Order | Undo
    where: JobFilter
    planned_at: datetime
    counts: dict[Status, int]
    """The jobs of its plan, by status."""
    skipped: dict[Status, int] = {}
    actor: str
    state: OperationState = OperationState.RUNNING
    begun_at: datetime
    active_at: datetime
    """When it last made progress."""
    ended_at: datetime | None = None
    changed: int = 0
    """How many jobs it has changed."""
    refused: dict[str, int] = {}
    """How many could not take it, by error code."""
    parts: int = 0
    """How many writes have changed jobs; for an undo, how many it has gone through."""
    cursor: str | None = None
    undone_by: str | None = None
    """The operation that undoes this operation."""
    resumed_by: str | None = None
    """Who carried it on last after it was interrupted."""

    @property
    def planned(self) -> int:
        """How many jobs its plan counted."""
        return sum(self.counts.values())

    @property
    def moved_on(self) -> int:
        """How many of those no longer matched when it reached them; 0 while it is running."""
        if self.state is not OperationState.DONE:
            return 0
        return max(0, self.planned - self.changed - sum(self.refused.values()))

    @property
    def can_be_undone(self) -> bool:
        """Whether an undo may begin: it has ended, and its order can be undone."""
        return (
            self.state is not OperationState.RUNNING
            and self.undone_by is None
            and self.changed > 0
            and is_undoable(self.order)
        )

    def is_interrupted(self, now: datetime) -> bool:
        """Whether no process seems to be carrying it out any more."""
        silent = now - self.active_at > timedelta(seconds=SILENT_SECONDS)
        return self.state is OperationState.RUNNING and silent


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """What one further write of an operation did."""

    operation: Operation
    jobs: list[OrderedJob] = []
    """The changed jobs, in their new state."""
    blobs_left: list[Job] = []
    """Deleted jobs with a payload or a result in a blob, so that the caller can delete the blob."""


def is_undoable(order: Order | Undo) -> bool:
    """Whether an order can be undone at all: a deletion cannot."""
    return not isinstance(order, DiscardAll | PurgeAll | Undo)


def plan(
    operation_id: str,
    order: Order,
    where: JobFilter,
    now: datetime,
    fitting: Mapping[Status, int],
) -> Plan:
    """The plan of an order, from the number of jobs matching its filter now, by status."""
    able = set(narrowed(order, where, 1).statuses or ())
    after = now + timedelta(microseconds=1)
    bounds = [after] if where.created_before is None else [after, where.created_before]
    return Plan(
        operation_id=operation_id,
        order=order,
        where=msgspec.structs.replace(where, created_before=min(bounds)),
        at=now,
        counts={
            status: fitting[status] for status in Status if fitting.get(status) and status in able
        },
        skipped={
            status: fitting[status]
            for status in Status
            if fitting.get(status) and status not in able
        },
    )


def begin(shelf: OperationShelf, draft: OperationDraft, actor: str) -> Operation:
    """Store a new operation; one that already began under this id is returned unchanged."""
    _check(draft)
    known = shelf.find(draft.id)
    if known is not None:
        return known
    now = from_micros(shelf.now)
    made = draft.plan
    if made is not None:
        narrowed(made.order, made.where, 1)
        operation = Operation(
            id=draft.id, order=made.order, where=made.where, planned_at=made.at,
            counts=made.counts, skipped=made.skipped, actor=actor, begun_at=now, active_at=now,
        )  # fmt: skip
    else:
        target = _to_undo(shelf, draft.undoes or "")
        shelf.replace(msgspec.structs.replace(target, undone_by=draft.id))
        operation = Operation(
            id=draft.id, order=Undo(target.id), where=JobFilter(), planned_at=now,
            counts=_left_by(target), actor=actor, begun_at=now, active_at=now,
        )  # fmt: skip
    shelf.add(operation)
    shelf.forget_all_but(OPERATIONS_KEPT, UNDOABLE_KEPT)
    detail = {
        "operation": operation.id,
        "order": msgspec.to_builtins(operation.order),
        "where": said(operation.where),
        "planned": operation.planned,
    }
    shelf.audit(actor, "begin_operation", 0, detail)
    return operation


def stop(shelf: OperationShelf, operation_id: str, actor: str) -> Operation:
    """Let an operation end where it is; one that was already stopped is returned unchanged."""
    operation = known_as(operation_id, shelf.find(operation_id))
    if operation.state is OperationState.STOPPED:
        return operation
    if operation.state is OperationState.DONE:
        raise InvalidTransitionError(
            f"operation {operation_id} is already done: it cannot be stopped"
        )
    stopped = _ended(shelf, operation, OperationState.STOPPED)
    shelf.replace(stopped)
    detail = {"operation": operation_id, "planned": operation.planned}
    shelf.audit(actor, "stop_operation", operation.changed, detail)
    return stopped


def advance(
    shelf: OperationShelf, desk: OrderDesk[H], asked: Operation, found: JobsFound | None
) -> Advance:
    """Do the next part of an operation. `found` is a reader's answer to `asked`, possibly stale.

    If another process was quicker, nothing is done, and a caller that asks again continues from
    there.
    """
    operation = known_as(asked.id, shelf.find(asked.id))
    where_it_was = (asked.parts, asked.cursor)
    if operation.state is not OperationState.RUNNING or where_it_was != (
        operation.parts,
        operation.cursor,
    ):
        return Advance(operation=operation)
    order = operation.order
    if isinstance(order, Undo):
        return _undo_part(
            shelf, desk, operation, known_as(order.operation, shelf.find(order.operation))
        )
    assert found is not None
    where = narrowed(order, operation.where, 1)
    known = desk.find_all(found.job_ids)
    jobs = {job_id: known[job_id][1] for job_id in found.job_ids if job_id in known}
    fitting = {job_id: job for job_id, job in jobs.items() if where.matches(job)}
    came_to_fit = _came_to_fit(desk, operation, where, [known[job_id][0] for job_id in fitting])
    meant = [
        job_id
        for job_id, job in fitting.items()
        if job_id not in came_to_fit
        and (_is_about_all(order, where) or _is_unmoved(job, operation.planned_at))
    ]
    done = give(desk, order, meant, operation.actor, operation.id)
    if done.jobs and is_undoable(order):
        befores = [Before.of(jobs[job.id]) for job in done.jobs]
        shelf.add_part(
            operation.id, operation.parts, OperationPart(from_micros(shelf.now), befores)
        )
    after = _further(shelf, operation, done, parts=operation.parts + bool(done.jobs))
    after = msgspec.structs.replace(after, cursor=found.next_cursor)
    if found.next_cursor is None:
        after = _ended(shelf, after, OperationState.DONE)
    shelf.replace(after)
    return Advance(operation=after, jobs=done.jobs, blobs_left=done.blobs_left)


def to_look_for(operation: Operation, limit: int) -> JobsToFind | None:
    """The search that the next write needs; None if it needs none."""
    check_page(limit)
    if operation.state is not OperationState.RUNNING or isinstance(operation.order, Undo):
        return None
    where = narrowed(operation.order, operation.where, limit)
    return JobsToFind(where, limit, operation.cursor, is_oldest_first(operation.order))


def known_as(operation_id: str, operation: Operation | None) -> Operation:
    """The operation; raises OperationNotFoundError if there is none."""
    if operation is None:
        raise OperationNotFoundError(
            f"there is no operation {operation_id!r}: it never began, or is no longer kept"
        )
    return operation


def _undo_part(
    shelf: OperationShelf, desk: OrderDesk[H], operation: Operation, target: Operation
) -> Advance:
    """Undo the latest part not yet undone: dependents before their dependencies."""
    number = target.parts - 1 - operation.parts
    part = shelf.part(target.id, number) if number >= 0 else None
    done = Ordered()
    if part is not None and not isinstance(target.order, Undo):
        done = undo(desk, target.order, part, operation.actor, operation.id)
    after = _further(shelf, operation, done, parts=operation.parts + 1)
    if number <= 0:
        after = _ended(shelf, after, OperationState.DONE)
    shelf.replace(after)
    return Advance(operation=after, jobs=done.jobs)


def _is_about_all(order: Order, where: JobFilter) -> bool:
    """Whether an order cancels every unfinished job: then later changes of a job do not matter."""
    return isinstance(order, CancelAll) and set(where.statuses or ()) == ABLE[CancelAll]


def _came_to_fit(
    desk: OrderDesk[H], operation: Operation, where: JobFilter, jobs: Sequence[H]
) -> Collection[str]:
    """The given jobs that may not have matched when the plan was made; only events show it."""
    events = []
    if not isinstance(operation.order, Undo) and _is_about_all(operation.order, where):
        events.append(Event.REPLAYED)  # It had ended.
    if where.priority_min is not None or where.priority_max is not None:
        events.append(Event.REPRIORITIZED)
    return desk.met_since(jobs, events, operation.planned_at) if events and jobs else ()


def _is_unmoved(job: Job, planned_at: datetime) -> bool:
    """Whether a job already had its status when the plan was made."""
    if job.is_terminal:
        return job.completed_at is not None and job.completed_at <= planned_at
    if job.status is Status.RUNNING:
        return job.lease_acquired_at is not None and job.lease_acquired_at <= planned_at
    since = job.run_at if job.status is Status.PENDING else job.updated_at
    return since <= planned_at


def _check(draft: OperationDraft) -> None:
    if not (0 < len(draft.id) <= NAME_LENGTH_MAX and draft.id.isprintable()):
        raise InvalidOrderError(
            f"an operation's id is printable text of 1 to {NAME_LENGTH_MAX} characters, "
            f"not {draft.id!r}"
        )
    if (draft.plan is None) == (draft.undoes is None):
        raise InvalidOrderError("an operation needs either a plan or an operation to undo")
    try:
        msgspec.json.encode(draft)
    except UnicodeEncodeError as error:
        raise InvalidFilterError(f"a filter is UTF-8 text ({error})") from None


def _to_undo(shelf: OperationShelf, operation_id: str) -> Operation:
    operation = known_as(operation_id, shelf.find(operation_id))
    if operation.can_be_undone and shelf.part(operation_id, 0) is not None:
        return operation
    if operation.state is OperationState.RUNNING:
        why = "it is still running: stop it first"
    elif operation.undone_by is not None:
        why = f"operation {operation.undone_by} has already undone it"
    elif not is_undoable(operation.order):
        why = "what it deleted is gone, and an undo is not undone"
    elif operation.changed == 0:
        why = "it has changed no job"
    else:
        why = "it is too old: the earlier state of its jobs is no longer kept"
    raise InvalidTransitionError(f"operation {operation_id} cannot be undone: {why}")


def _left_by(operation: Operation) -> dict[Status, int]:
    """How many jobs an operation left unchanged, under the status that most of them have."""
    left = Status.CANCELLED if isinstance(operation.order, CancelAll) else Status.PENDING
    return {left: operation.changed}


def _further(
    shelf: OperationShelf, operation: Operation, done: Ordered, *, parts: int
) -> Operation:
    return msgspec.structs.replace(
        operation,
        changed=operation.changed + done.changed,
        refused=dict(Counter(operation.refused) + Counter(done.refused)),
        parts=parts,
        active_at=from_micros(shelf.now),
    )


def _ended(shelf: OperationShelf, operation: Operation, state: OperationState) -> Operation:
    return msgspec.structs.replace(operation, state=state, ended_at=from_micros(shelf.now))
