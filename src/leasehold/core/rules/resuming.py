"""Resuming an operation whose process is gone: who did it is recorded, as who began it is.

What is done from then on stays under the name of the one who gave the order: it is their order.
"""

from __future__ import annotations

import msgspec

from leasehold.core.rules.operation_shelf import OperationShelf
from leasehold.core.rules.operations import Operation, OperationDraft, OperationState, known_as
from leasehold.env import from_micros
from leasehold.errors import InvalidOrderError, InvalidTransitionError


def resume(shelf: OperationShelf, draft: OperationDraft, actor: str) -> Operation:
    """Record who carries an operation on; to ask again while it goes on changes nothing."""
    if draft.plan is not None or draft.undoes is not None:
        raise InvalidOrderError("an operation that is resumed has its plan already")
    operation_id = draft.resumes or ""
    operation = known_as(operation_id, shelf.find(operation_id))
    if operation.state is not OperationState.RUNNING:
        raise InvalidTransitionError(
            f"operation {operation_id} is {operation.state}: there is nothing to resume"
        )
    now = from_micros(shelf.now)
    if operation.resumed_by == actor and not operation.is_interrupted(now):
        return operation
    resumed = msgspec.structs.replace(operation, resumed_by=actor, active_at=now)
    shelf.replace(resumed)
    detail = {"operation": operation_id, "planned": operation.planned, "by": operation.actor}
    shelf.audit(actor, "resume_operation", operation.changed, detail)
    return resumed
