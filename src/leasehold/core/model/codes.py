"""Statuses and events as the small numbers that are stored. Never renumber: append."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.job import DependencyPolicy
from leasehold.core.model.status import Event, Status

STATUS_CODE: Final[dict[Status, int]] = {
    Status.SCHEDULED: 0,
    Status.BLOCKED: 1,
    Status.PENDING: 2,
    Status.RUNNING: 3,
    Status.FAILED: 4,
    Status.COMPLETED: 5,
    Status.DEAD: 6,
    Status.CANCELLED: 7,
}
STATUS_OF: Final = {code: status for status, code in STATUS_CODE.items()}

EVENT_CODE: Final[dict[Event, int]] = {
    Event.CREATED: 0,
    Event.PROMOTED: 1,
    Event.UNBLOCKED: 2,
    Event.LEASED: 3,
    Event.COMPLETED: 4,
    Event.FAILED: 5,
    Event.DEAD: 6,
    Event.SNOOZED: 7,
    Event.RELEASED: 8,
    Event.RECOVERED: 9,
    Event.CANCELLED: 10,
    Event.REPLAYED: 11,
    Event.CANCEL_REQUESTED: 12,
    Event.REPRIORITIZED: 13,
    Event.HEARTBEAT_FAILED: 14,
    Event.ABANDONED: 15,
    Event.VERSION_MISMATCH: 16,
}
EVENT_OF: Final = {code: event for event, code in EVENT_CODE.items()}

POLICY_CODE: Final[dict[DependencyPolicy, int]] = {"cancel": 0, "fail": 1, "ignore": 2}
POLICY_OF: Final = {code: policy for policy, code in POLICY_CODE.items()}

DELETED_BY: Final = " by "
"""Separates a queue's state `deleting` from the name of the actor who deletes it."""
