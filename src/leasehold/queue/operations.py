"""Operations for people: plan, carry out, watch, stop, undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Unpack

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.rules.filter_orders import Order, narrowed
from leasehold.core.rules.operations import (
    Advance,
    Operation,
    OperationDraft,
    OperationState,
    Plan,
    known_as,
)
from leasehold.env import Env
from leasehold.queue.filters import FilterFields, filter_of

SAMPLES: Final = 5
"""How many jobs of a plan are shown before it is confirmed."""


class Operations:
    """`queue.operations`: orders to many jobs, counted first, then carried out step by step.

    >>> from leasehold import CancelAll, TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> jobs = queue.submit_many([queue.task(print, name="print").job(n) for n in range(3)])
    >>> plan = queue.operations.plan(CancelAll("wrong printer"), task="print")
    >>> plan.counts
    {<Status.PENDING: 'pending'>: 3}
    >>> operation = queue.operations.carry_out(queue.operations.begin(plan))
    >>> operation.state, operation.changed
    (<OperationState.DONE: 'done'>, 3)
    >>> queue.operations.carry_out(queue.operations.undo(operation.id)).changed
    3
    """

    def __init__(self, store: Store, actor: str, env: Env, blobs: Blobs | None = None) -> None:
        self._store = store
        self._actor = actor
        self._env = env
        self._blobs = blobs

    def __iter__(self) -> Iterator[Operation]:
        """All operations, the latest first."""
        return iter(self._store.operations())

    def plan(
        self, order: Order, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> Plan:
        """Count the jobs that an order would apply to, by status; nothing is changed.

        The plan is for this moment: jobs that match only later are not included. It waits for open
        transactions of applications that have submitted jobs.
        """
        return self._store.plan_operation(order, filter_of(where, fields))

    def samples(self, plan: Plan, limit: int = SAMPLES) -> list[Job]:
        """Some of the jobs of a plan, last submitted first, without payload and result."""
        checked.instance("plan", plan, Plan)
        limit = checked.at_least(0, "limit", limit)
        where = narrowed(plan.order, plan.where, 1)
        found = self._store.search(where, limit=limit, without=("payload", "result"))
        return list(islice(found.jobs, limit))

    def begin(self, plan: Plan) -> Operation:
        """Begin an operation; no job is changed until it is carried out.

        One plan is one operation: if the answer was lost, call this again.
        """
        checked.instance("plan", plan, Plan)
        draft = OperationDraft(id=plan.operation_id, plan=plan)
        return self._store.begin_operation(draft, actor=self._actor)

    def undo(self, operation_id: str) -> Operation:
        """Begin to undo an operation; carry out the operation that this returns.

        Replayed jobs become dead or cancelled again, cancelled ones wait again if they were pending
        or blocked, and priorities are restored, except for jobs leased or changed since. Raises
        InvalidTransitionError for an operation that is running, was already undone, or has deleted
        its jobs.
        """
        draft = OperationDraft(
            id=self._env.new_id(), undoes=checked.text("operation_id", operation_id)
        )
        return self._store.begin_operation(draft, actor=self._actor)

    def carry_out(
        self, operation: Operation, *, on_progress: Callable[[Advance], None] | None = None
    ) -> Operation:
        """Block until an operation has ended, wherever it is carried out.

        If it began in another process that is gone, this continues it from there.
        """
        checked.instance("operation", operation, Operation)
        checked.function_or_none("on_progress", on_progress)
        while operation.state is OperationState.RUNNING:
            advance = self._store.advance_operation(operation.id)
            if self._blobs is not None:
                self._blobs.forget_jobs(advance.blobs_left)
            if on_progress is not None:
                on_progress(advance)
            operation = advance.operation
        return operation

    def stop(self, operation_id: str) -> Operation:
        """Stop an operation where it is; its changes stay, and can be undone."""
        return self._store.stop_operation(
            checked.text("operation_id", operation_id), actor=self._actor
        )

    def resume(self, operation_id: str) -> Operation:
        """Take over an operation whose process is gone, to be carried out from where it is.

        It is recorded who did so. One that has ended raises InvalidTransitionError.
        """
        draft = OperationDraft(
            id=self._env.new_id(), resumes=checked.text("operation_id", operation_id)
        )
        return self._store.begin_operation(draft, actor=self._actor)

    def get(self, operation_id: str) -> Operation:
        """An operation as it is now; raises OperationNotFoundError for an unknown id."""
        return known_as(
            operation_id, self._store.operation(checked.text("operation_id", operation_id))
        )
