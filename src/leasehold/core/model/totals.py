"""The counters of queues: the same thirteen numbers for a minute, a day and for ever."""

from __future__ import annotations

import msgspec


class Totals(msgspec.Struct, frozen=True):
    """How often each event happened, in some period, to the jobs of one queue or of several."""

    submitted: int = 0
    leased: int = 0
    """Attempts that were started."""
    completed: int = 0
    failed: int = 0
    """Attempts that failed, retried or not."""
    retried: int = 0
    """Failed attempts followed (or to be followed) by another one."""
    dead: int = 0
    cancelled: int = 0
    lost: int = 0
    """Leases taken from their holders: expired, dead, or by order."""
    recovered: int = 0
    """Lost leases whose jobs run again."""
    renewed: int = 0
    """Renewals of leases."""
    rejected: int = 0
    """Jobs refused because the queue was full or they came too fast."""
    rate_limited: int = 0
    """Rejected jobs that came too fast."""
    cleaned: int = 0
    """Jobs discarded or pruned after they had ended."""
