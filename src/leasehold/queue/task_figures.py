"""How long the jobs of each task waited and ran, from jobs that have ended.

The store measures by queue. A task's figures are those of its latest jobs, of which a bounded
number is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from leasehold.core.model.histogram import Durations, measured
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status


class TaskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of some jobs of one task."""

    task: str
    completed: int
    dead: int
    failures: int
    """How many of their attempts failed."""
    wait: Durations
    """The time from when each job was due until its latest start."""
    run: Durations
    """How long the latest attempt of each ran."""
    run_max_seconds: float

    @property
    def jobs(self) -> int:
        return self.completed + self.dead


def figures_by_task(ended: Iterable[Job]) -> list[TaskFigures]:
    """The same for each task of these jobs, the busiest first."""
    by_task: dict[str, list[Job]] = {}
    for job in ended:
        by_task.setdefault(job.task, []).append(job)
    found = [_figures(task, jobs) for task, jobs in by_task.items()]
    return sorted(found, key=lambda each: -each.jobs)


def _figures(task: str, jobs: Sequence[Job]) -> TaskFigures:
    ran = [job.run_seconds(job.updated_at) or 0.0 for job in jobs]
    return TaskFigures(
        task=task,
        completed=sum(job.status is Status.COMPLETED for job in jobs),
        dead=sum(job.status is Status.DEAD for job in jobs),
        failures=sum(job.failure_count for job in jobs),
        wait=measured(job.wait_seconds(job.updated_at) for job in jobs).summary(),
        run=measured(ran).summary(),
        run_max_seconds=max(ran),
    )
