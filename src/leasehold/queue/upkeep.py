"""What an operator asks of a store: to sweep, who is silent or lost, what time it is there."""

from __future__ import annotations

from datetime import datetime

from leasehold.core.lease import StuckJob, SweepReport
from leasehold.queue.base import QueueBase


class Upkeep(QueueBase):
    """The part of a TaskQueue that finds and takes back what was lost."""

    def now(self) -> datetime:
        """The store's clock, which never steps back; every time in a job is one of its times."""
        return self.store.now()

    def sweep(self) -> SweepReport:
        """Take back every job whose lease expired or whose holder is proved dead, once, now.

        Workers do it by themselves all the time; this is for when there are none, or for a person
        who does not want to wait.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.sweep().recovered
        0
        """
        return self.store.recover()

    def stuck(self, silent_seconds: float = 120.0) -> list[StuckJob]:
        """Running jobs without a heartbeat for that long, longest first."""
        return self.store.stuck(silent_seconds)

    def lost_workers(self) -> list[str]:
        """Workers that are proved dead and whose jobs the next sweep takes back, by id.

        Empty on a store that cannot prove death: there, jobs wait for their lease to end.
        """
        from leasehold.worker.sweep import ProvesDeath

        return sorted(self.store.dead_workers()) if isinstance(self.store, ProvesDeath) else []
