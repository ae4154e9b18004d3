"""What people ask for: orders about jobs, one by one, by filter, or as operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.rules import operations, people
from leasehold.core.rules.filter_orders import (
    ORDERED_AT_ONCE,
    DiscardAll,
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
from leasehold.core.rules.people import OrderDesk
from leasehold.env import from_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.dependents import TableDependents
from leasehold.stores.tables.job_reading import TableJobs
from leasehold.stores.tables.orders import TableOperations, every_operation, find_operation
from leasehold.stores.tables.statements import Reader
from leasehold.stores.tables.step import TableStep


class PeopleVerbs:
    """A reader finds the jobs of an order by filter, one write takes them."""

    _database: TableDatabase
    _reader: Callable[[Any], Reader]
    _desk: Callable[[Any], OrderDesk[Any]]
    _dependents: type[TableDependents]
    _operations: type[TableOperations]
    _jobs: type[TableJobs]

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._database.write(
            lambda step: people.cancel(self._desk(step), job_ids, reason=reason, actor=actor)
        )

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._database.write(
            lambda step: people.replay(
                self._desk(step), job_ids, reset_attempts=reset_attempts, actor=actor
            )
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        self._dependents.look_through(self._database, job_ids)
        return self._database.write(
            lambda step: people.discard(self._desk(step), job_ids, actor=actor)
        )

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._database.write(
            lambda step: people.reprioritize(self._desk(step), job_id, priority, actor=actor)
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
        found = self._find(order, able, limit, cursor, oldest_first=is_oldest_first(order))
        if not found.job_ids:
            return Ordered()
        done = self._database.write(
            lambda step: carry_out(self._desk(step), order, able, found.job_ids, actor)
        )
        return msgspec.structs.replace(done, next_cursor=found.next_cursor)

    def _find(
        self, order: object, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
    ) -> JobsFound:
        found = self._database.look(
            lambda db: self._jobs(db).find_fitting(where, limit, cursor, oldest_first=oldest_first)
        )
        if isinstance(order, DiscardAll):
            self._dependents.look_through(self._database, found[0])
        return JobsFound(*found)

    # -- operations --------------------------------------------------------------------------

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        # A moment inside the turn: whoever has written before it has committed by now, also the
        # applications with transactions of their own. So the count sees every job of that moment.
        now = from_micros(self._database.write(lambda step: step.now))
        fitting = self._database.look(lambda db: self._jobs(db).count_by_status(where))
        return operations.plan(self._database.env.new_id(), order, where, now, fitting)

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        return self._database.write(lambda step: operations.begin(self._shelf(step), draft, actor))

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        asked = known_as(operation_id, self.operation(operation_id))
        look = to_look_for(asked, limit)
        found = (
            None
            if look is None
            else self._find(asked.order, *look[:-1], oldest_first=look.oldest_first)
        )
        return self._database.write(
            lambda step: operations.advance(self._shelf(step), self._desk(step), asked, found)
        )

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        return self._database.write(
            lambda step: operations.stop(self._shelf(step), operation_id, actor)
        )

    def operations(self) -> list[Operation]:
        return self._database.look(lambda db: every_operation(self._reader(db)))

    def operation(self, operation_id: str) -> Operation | None:
        return self._database.look(lambda db: find_operation(self._reader(db), operation_id))

    def _shelf(self, step: TableStep) -> TableOperations:
        return self._operations(step, self._reader(step.db))
