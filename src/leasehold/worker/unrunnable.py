"""Jobs that this worker cannot run: handed back, each time for longer, and never lost.

However urgent they are, runnable jobs do not wait for them: the worker first looks for runnable
ones alone, and for the others only when it finds none.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from leasehold.core.model.job import Job
from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Release
from leasehold.core.model.reason import UNRUNNABLE

DELAY_SECONDS_FIRST: Final = 1.0
DELAY_SECONDS_MAX: Final = 300.0
JOBS_MAX: Final = 10_000


def is_handed_back(job: Job) -> bool:
    """Whether a job is delayed because a worker could not run it."""
    return job.reason is not None and job.reason.startswith(UNRUNNABLE)


class Unrunnable:
    """Remembers, by job, for how long it was handed back last; forgets the oldest when full."""

    def __init__(self) -> None:
        self._delays: OrderedDict[str, float] = OrderedDict()
        self._lanes: set[tuple[str, str]] = set()
        self._is_their_turn = False
        self.tasks: dict[str, str] = {}
        """The tasks of these jobs, and why the latest of each could not be run."""

    def release(self, lease: Lease, reason: str) -> Release:
        """The outcome that hands this job back."""
        self.tasks[lease.task] = reason
        self._lanes.add((lease.queue, lease.task))
        self._is_their_turn = False
        last = self._delays.pop(lease.job_id, DELAY_SECONDS_FIRST / 2)
        delay_seconds = min(last * 2, DELAY_SECONDS_MAX)
        self._delays[lease.job_id] = delay_seconds
        if len(self._delays) > JOBS_MAX:
            self._delays.popitem(last=False)
        return Release(delay_seconds, UNRUNNABLE + reason)

    def lanes(self) -> tuple[tuple[str, str], ...]:
        """The queues and tasks of these jobs, which the next look for jobs passes over."""
        return () if self._is_their_turn else tuple(self._lanes)

    def take_turn(self) -> None:
        """Let the next look find them again, since there is nothing else to do."""
        self._is_their_turn = True

    def can_be_run(self, lease: Lease) -> None:
        """A task that was missing may be available now."""
        if self.tasks.pop(lease.task, None) is not None:
            self._lanes = {lane for lane in self._lanes if lane[1] != lease.task}
