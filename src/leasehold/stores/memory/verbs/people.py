"""What people ask for: orders about jobs, one by one, by filter, or as operations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.rules import people
from leasehold.core.rules.filter_orders import (
    ORDERED_AT_ONCE,
    Order,
    Ordered,
    carry_out,
    is_oldest_first,
    narrowed,
)
from leasehold.core.rules.operation_shelf import JobsFound
from leasehold.core.rules.operations import (
    Advance,
    Operation,
    OperationDraft,
    Plan,
    known_as,
    to_look_for,
)
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import (
    operations,
    reading,
)
from leasehold.stores.memory.admin import OrderDesk
from leasehold.stores.memory.locked import LockedState


class PeopleVerbs(LockedState):
    """Orders of people."""

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._run(
            lambda state: people.cancel(OrderDesk(state), job_ids, reason=reason, actor=actor)
        )

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._run(
            lambda state: people.replay(
                OrderDesk(state), job_ids, reset_attempts=reset_attempts, actor=actor
            )
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        return self._run(lambda state: people.discard(OrderDesk(state), job_ids, actor=actor))

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._run(
            lambda state: people.reprioritize(OrderDesk(state), job_id, priority, actor=actor)
        )

    def order(
        self,
        order: Order,
        where: JobFilter,
        *,
        actor: str,
        limit: int = ORDERED_AT_ONCE,
        cursor: str | None = None,
    ) -> Ordered:
        able = narrowed(order, where, limit)
        oldest_first = is_oldest_first(order)
        job_ids, following = self._look(
            reading.find_fitting, able, limit, cursor, oldest_first=oldest_first
        )
        if not job_ids:
            return Ordered()
        done = self._run(lambda state: carry_out(OrderDesk(state), order, able, job_ids, actor))
        return msgspec.structs.replace(done, next_cursor=following)

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        return self._look(operations.plan, order, where)

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        return self._run(operations.begin, draft, actor)

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        asked = known_as(operation_id, self.operation(operation_id))
        look = to_look_for(asked, limit)
        found = None
        if look is not None:
            found = JobsFound(*self._look(reading.find_fitting, *look[:-1], oldest_first=look[-1]))
        return self._run(operations.advance, asked, found)

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        return self._run(operations.stop, operation_id, actor)

    def operations(self) -> list[Operation]:
        return self._look(operations.every)

    def operation(self, operation_id: str) -> Operation | None:
        return self._look(operations.find, operation_id)
