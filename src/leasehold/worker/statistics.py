"""The figures of one worker."""

from __future__ import annotations

import msgspec

from leasehold.worker.pruner import PrunerStatistics
from leasehold.worker.sweep import SweepStatistics


class WorkerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one worker so far, and the jobs it has in hand."""

    running: int
    """Jobs it holds, including those that wait for a slot."""
    stuck: int
    """Slots filled by abandoned code that does not stop."""
    completed: int
    failed: int
    dead: int
    cancelled: int
    handed_back: int
    leases_lost: int
    exchanges: int
    """How often it called the store to settle and lease."""
    sweep: SweepStatistics | None
    pruner: PrunerStatistics
