"""The part of the store contract about operations, as numbered clauses."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.search import JobFilter
from leasehold.core.rules.filter_orders import ORDERED_AT_ONCE, Order
from leasehold.core.rules.operations import Advance, Operation, OperationDraft, Plan


class OperationStore(Protocol):
    """Orders to many jobs: a plan that is first counted, then carried out step by step."""

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        """Count the jobs that an order would apply to at this moment; no job is changed.

        - OPE-1  The numbers are exact, however many jobs match, and given by status; jobs that
                 match but cannot take the order because of their status are counted separately, as
                 skipped. Each plan has an operation id of its own, under which it is to begin.
        - OPE-2  An invalid order raises InvalidOrderError, as ORD-5.
        """

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        """Keep an operation that carries a plan out, or undoes another; no job is changed yet.

        - OPE-3  It leaves an audit record, in the same write. An operation that already began under
                 this id is returned unchanged: after a lost reply the caller may ask again.
        - OPE-4  An operation can be undone if it has ended, was not undone before, and its jobs
                 were not deleted; otherwise it raises InvalidTransitionError. An unknown operation
                 raises OperationNotFoundError.
        - OPE-10  A draft may resume an operation instead. Who did so is recorded, in it and in an
                 audit record, once while it goes on; one that has ended raises
                 InvalidTransitionError.
        """

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        """Carry an operation out for at most `limit` more jobs, in one write with its record.

        - OPE-5  Calls that are repeated, in any process, until the operation has ended visit every
                 job of the plan once; several processes may call at the same time. An ended
                 operation is returned unchanged.
        - OPE-6  The order applies only to jobs of the plan: not to jobs submitted since, nor to
                 jobs that reached the status since, nor to jobs of a transaction that was open when
                 the plan was made. Jobs that no longer match are left alone, and jobs that refuse
                 are counted.
        - OPE-7  An undo restores jobs that were neither leased nor changed since: replayed ones are
                 dead or cancelled again, with the allowance that they had; cancelled ones are
                 pending or blocked again, if they were; priorities are restored. The other jobs
                 refuse.
        """

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        """Let an operation end where it is.

        - OPE-8  From then on no process continues it; it can be undone. A completed operation
                 raises InvalidTransitionError; a stopped one is returned unchanged. It leaves an
                 audit record.
        """

    def operations(self) -> list[Operation]:
        """The operations, the latest first.

        - OPE-9  The latest OPERATIONS_KEPT (1,000) are kept, and visible to every process. For the
                 latest UNDOABLE_KEPT (50), the earlier state of their jobs is kept.
        """

    def operation(self, operation_id: str) -> Operation | None:
        """One operation, or None."""
