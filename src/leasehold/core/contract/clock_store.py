"""The part of the store contract about a clock that was wrong, as numbered clauses."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec


class ClockRepair(msgspec.Struct, frozen=True, kw_only=True):
    """What setting a store's clock back has changed."""

    before: datetime
    """The store's clock before the repair."""
    after: datetime
    """The store's clock now: the wall clock's time."""
    changed: dict[str, int]
    """How many times were set back, by the kind of row they belong to."""


class ClockStore(Protocol):
    """The operations of a store on its clock."""

    def repair_clock(self, *, actor: str) -> ClockRepair:
        """Set the store's clock back to the wall clock, which was once far ahead.

        - CLK-4  Events with a later time count as having happened now. Anything postponed from such
                 a time stays as far in the future: delays, retries, pauses of circuit breakers,
                 rate limits. Schedules continue with their next tick. Jobs keep their order, their
                 versions and their history; an idempotency key stands for 24 hours at most. Due
                 times that were set before stay. It is audited.
        - CLK-5  Raises InvalidTransitionError, and changes nothing, while a job is running or a
                 worker lives: no lease is alive when the clock is set back, and no version is ever
                 granted twice. Expired leases, and those of dead holders, are taken back first.
        - CLK-6  Every process that has the store open uses the new time from then on.
        - CLK-7  If the clock is not ahead, nothing is changed.
        """
