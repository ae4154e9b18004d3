"""Orders of people about jobs: one by one, by filter, or as operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import operations, queue_orders
from leasehold.core.rules.filter_orders import Order
from leasehold.core.rules.operations import Operation, Plan
from leasehold.core.rules.people import Replay
from leasehold.core.rules.undoing import OperationPart
from leasehold.env import from_micros, to_micros
from leasehold.stores.memory import dependents
from leasehold.stores.memory.holding import Histories
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.queues import QueueBook
from leasehold.stores.memory.record import Record, snapshot
from leasehold.stores.memory.state import RuleView, State
from leasehold.stores.verbs.people import PeopleVerbs


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

    def wake_holder(self, job: Record) -> None:
        if self._state.news is not None:
            self._state.news.cancel_requested.append(job.id)

    def end_waiting(self, job: Record, after: Status, reason: str) -> None:
        self._state.end_waiting(job, after, reason)

    def forget(self, jobs: Sequence[Record]) -> None:
        queue_orders.forget(QueueBook(self._state), jobs)

    def allow(self, job: Record, allowance: int) -> None:
        job.allowance = allowance

    def waits_again_for(self, handle: Record, job: Job) -> list[str]:  # noqa: ARG002  # the record has it all
        return dependents.waits_again_for(self._state, handle)

    def replay(self, job: Record, replay: Replay, waits_for: Sequence[str]) -> None:
        state = self._state
        job.attempts = replay.attempts
        job.allowance = replay.allowance
        job.available_at = state.now
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
        dependents.reprioritized(state, job)

    def replay_order(self, job_ids: Sequence[str]) -> list[int]:
        return dependents.replay_order(self._state, job_ids)


class OperationShelf(RuleView):
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


class MemoryPeopleVerbs(LockedState, PeopleVerbs):
    """What orders look for, and where operations are."""

    _desk = OrderDesk

    def _operation_shelf(self, write: State) -> OperationShelf:
        return OperationShelf(write)

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        def plan(state: State) -> Plan:
            fitting = self._jobs(state).count_by_status(where)
            return operations.plan(
                state.env.new_id(), order, where, from_micros(state.now), fitting
            )

        return self._look(plan)

    def operations(self) -> list[Operation]:
        return self._look(lambda state: list(state.operations.values())[::-1])

    def operation(self, operation_id: str) -> Operation | None:
        return self._look(lambda state: state.operations.get(operation_id))
