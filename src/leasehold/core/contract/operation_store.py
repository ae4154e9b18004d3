"""The part of the store contract about operations, as numbered clauses."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.search import JobFilter
from leasehold.core.rules.filter_orders import ORDERED_AT_ONCE, Order
from leasehold.core.rules.operations import Advance, Operation, OperationDraft, Plan


class OperationStore(Protocol):
    """Orders to many jobs, as a plan that is counted first and carried out step by step."""

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        """Count the jobs that an order would be given to, at this moment; no job is changed.

        - OPE-1  The numbers are exact, however many jobs fit, and by status; jobs that fit and
                 cannot take the order because of their status are counted apart, as skipped. Each
                 plan has an operation id of its own, under which it is to begin.
        - OPE-2  What is no order raises InvalidJobError, as ORD-5.
        """

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        """Keep an operation that carries a plan out, or undoes another; no job is changed yet.

        - OPE-3  It leaves an audit record, in the same write. One that began already under this id
                 is answered as it is: a lost reply may be asked for again.
        - OPE-4  Undone is only what has ended, was not undone before, and whose jobs were not
                 deleted; else it raises InvalidTransitionError. An unknown operation raises
                 OperationNotFoundError.
        """

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        """Carry an operation out for at most `limit` jobs more, in one write with its record.

        - OPE-5  Whoever asks again, in any process, until it has ended, has met every job of the
                 plan once; several may ask at the same time. What has ended is answered as it is.
        - OPE-6  Only jobs of the plan are meant: not those that were submitted since, nor those
                 that have come into the status since; nor those of a transaction that was open
                 when the plan was made. Those that do not fit any more are left alone, and those
                 that refuse are counted.
        - OPE-7  An undo takes back what was done to jobs that nobody leased or changed since:
                 replayed ones are dead or cancelled again, with the allowance that they had;
                 cancelled ones are pending or blocked again, if they were; priorities are what they
                 were. The other jobs refuse.
        """

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        """Let an operation end where it is.

        - OPE-8  From then on nobody carries it on; it can be undone. What is done already raises
                 InvalidTransitionError; what was stopped is answered as it is. It leaves an audit
                 record.
        """

    def operations(self) -> list[Operation]:
        """The operations, the latest first.

        - OPE-9  OPERATIONS_KEPT (1,000) of them are kept, and can be told by every process. Of the
                 latest UNDOABLE_KEPT (50) it is kept what their jobs were before.
        """

    def operation(self, operation_id: str) -> Operation | None:
        """One operation, or None."""
