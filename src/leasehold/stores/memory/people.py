"""What people ask for: orders about jobs, one by one, by filter, or as operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import operations, people, queue_orders
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
from leasehold.core.rules.people import Replay
from leasehold.core.rules.undoing import OperationPart
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import dependents, reading
from leasehold.stores.memory.holding import Histories
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.queues import QueueBook
from leasehold.stores.memory.record import Record, snapshot
from leasehold.stores.memory.state import Shelf, State


class PeopleVerbs(LockedState):
    """Orders of people."""

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._write(
            lambda state: people.cancel(OrderDesk(state), job_ids, reason=reason, actor=actor)
        )

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._write(
            lambda state: people.replay(
                OrderDesk(state), job_ids, reset_attempts=reset_attempts, actor=actor
            )
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        return self._write(lambda state: people.discard(OrderDesk(state), job_ids, actor=actor))

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._write(
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
        done = self._write(lambda state: carry_out(OrderDesk(state), order, able, job_ids, actor))
        return msgspec.structs.replace(done, next_cursor=following)

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        def plan(state: State) -> Plan:
            fitting = reading.count_by_status(state, where)
            return operations.plan(
                state.env.new_id(), order, where, from_micros(state.now), fitting
            )

        return self._look(plan)

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        return self._write(lambda state: operations.begin(OperationShelf(state), draft, actor))

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        asked = known_as(operation_id, self.operation(operation_id))
        look = to_look_for(asked, limit)
        found = None
        if look is not None:
            found = JobsFound(*self._look(reading.find_fitting, *look[:-1], oldest_first=look[-1]))
        return self._write(
            lambda state: operations.advance(OperationShelf(state), OrderDesk(state), asked, found)
        )

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        return self._write(
            lambda state: operations.stop(OperationShelf(state), operation_id, actor)
        )

    def operations(self) -> list[Operation]:
        return self._look(lambda state: list(state.operations.values())[::-1])

    def operation(self, operation_id: str) -> Operation | None:
        return self._look(lambda state: state.operations.get(operation_id))


class OrderDesk(Histories):
    """See `leasehold.core.rules.people.OrderDesk`."""

    def find_all(self, job_ids: Sequence[str]) -> dict[str, tuple[Record, Job]]:
        found = map(self._state.records.get, dict.fromkeys(job_ids))
        return {record.id: (record, snapshot(record)) for record in found if record is not None}

    def met_since(
        self, jobs: Sequence[Record], events: Collection[Event], at: datetime
    ) -> set[str]:
        since = to_micros(at)
        return {
            job.id
            for job in jobs
            if any(row.event in events and row.at > since for row in job.history)
        }

    def request_cancel(self, job: Record, reason: str) -> None:
        job.cancel_requested = reason
        job.updated_at = self._state.now

    def wake_holder(self, job: Record) -> None:
        if self._state.news is not None:
            self._state.news.cancel_requested.append(job.id)

    def end_waiting(self, job: Record, after: Status, reason: str) -> None:
        self._state.end_waiting(job, after, reason)

    def forget(self, jobs: Sequence[Record]) -> None:
        queue_orders.forget(QueueBook(self._state), [job.id for job in jobs])

    def allow(self, job: Record, allowance: int) -> None:
        job.allowance = allowance

    def waits_again_for(self, handle: Record, job: Job) -> list[str]:  # noqa: ARG002  # the record has it all
        return dependents.waits_again_for(self._state, handle)

    def replay(self, job: Record, replay: Replay, waits_for: Sequence[str]) -> None:
        state = self._state
        job.attempts = replay.attempts
        job.allowance = replay.allowance
        job.run_at = state.now
        job.start_by = job.reason = job.ended_by = None
        state.step(job, Event.REPLAYED, replay.status, replay.message)
        if waits_for:
            state.links.block(job, set(waits_for))
            dependents.raise_needed(state, [job])

    def needed_by(self, job: Record) -> str | None:
        return dependents.needed_by(self._state, job)

    def erase(self, job: Record) -> None:
        dependents.erase(self._state, job)

    def reprioritize(self, job: Record, before: int, after: int) -> None:
        state = self._state
        if job.status is Status.PENDING:
            state.queues[job.draft.queue].lanes.count_anew(before, after)
        job.priority = after
        job.updated_at = state.now
        dependents.reprioritized(state, job)

    def replay_order(self, job_ids: Sequence[str]) -> list[int]:
        return dependents.replay_order(self._state, job_ids)


class OperationShelf(Shelf):
    """See `leasehold.core.rules.operation_shelf.OperationShelf`."""

    def find(self, operation_id: str) -> Operation | None:
        return self._state.operations.get(operation_id)

    def add(self, operation: Operation) -> None:
        self._state.operations[operation.id] = operation

    replace = add

    def add_part(self, operation_id: str, number: int, part: OperationPart) -> None:
        self._state.operation_parts.setdefault(operation_id, {})[number] = part

    def part(self, operation_id: str, number: int) -> OperationPart | None:
        return self._state.operation_parts.get(operation_id, {}).get(number)

    def forget_all_but(self, operations: int, with_parts: int) -> None:
        ids = list(self._state.operations)
        for operation_id in ids[:-operations]:
            del self._state.operations[operation_id]
        for operation_id in ids[:-with_parts]:
            self._state.operation_parts.pop(operation_id, None)
