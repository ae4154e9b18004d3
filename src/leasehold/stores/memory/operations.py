"""Operations of a memory store; `core.rules.operations` decides."""

from __future__ import annotations

from typing import Any

from leasehold.core.model.search import JobFilter
from leasehold.core.rules import operations
from leasehold.core.rules.filter_orders import Order
from leasehold.core.rules.operation_shelf import JobsFound
from leasehold.core.rules.operations import Advance, Operation, OperationDraft, Plan
from leasehold.core.rules.undoing import OperationPart
from leasehold.env import from_micros
from leasehold.stores.memory import reading
from leasehold.stores.memory.admin import OrderDesk
from leasehold.stores.memory.state import State


def plan(state: State, order: Order, where: JobFilter) -> Plan:
    fitting = reading.count_by_status(state, where)
    now = from_micros(state.now)
    return operations.plan(state.env.new_id(), order, where, now, fitting)


def begin(state: State, draft: OperationDraft, actor: str) -> Operation:
    return operations.begin(OperationShelf(state), draft, actor)


def advance(state: State, asked: Operation, found: JobsFound | None) -> Advance:
    return operations.advance(OperationShelf(state), OrderDesk(state), asked, found)


def stop(state: State, operation_id: str, actor: str) -> Operation:
    return operations.stop(OperationShelf(state), operation_id, actor)


def every(state: State) -> list[Operation]:
    return list(state.operations.values())[::-1]


def find(state: State, operation_id: str) -> Operation | None:
    return state.operations.get(operation_id)


class OperationShelf:
    """See `leasehold.core.rules.operation_shelf.OperationShelf`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now

    def find(self, operation_id: str) -> Operation | None:
        return self._state.operations.get(operation_id)

    def add(self, operation: Operation) -> None:
        self._state.operations[operation.id] = operation

    def replace(self, operation: Operation) -> None:
        self._state.operations[operation.id] = operation

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

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._state.note_action(actor, action, detail, count)
