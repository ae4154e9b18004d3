"""Observing: everything a store shows, after every call, and the changes since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from leasehold.core.contract.store import Store
from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.records import Stats
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.search import JobFilter
from leasehold.core.model.settings import StoredSettings
from leasehold.core.model.status import Status
from leasehold.env import ClockReading

PAGE = 500


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole store at one moment."""

    now: datetime
    reading: ClockReading
    jobs: dict[str, Job]
    """By id, the first submitted first."""
    queues: dict[str, QueueInfo]
    schedules: dict[str, Schedule]
    settings: StoredSettings
    stats: Stats

    def info(self, queue: str) -> QueueInfo:
        """A queue; an unknown one has no rules."""
        return self.queues.get(queue) or QueueInfo(name=queue)

    def of_queue(self, queue: str, *statuses: Status) -> list[Job]:
        return [job for job in self.jobs.values() if job.queue == queue and job.status in statuses]

    def of_queue_any(self, *statuses: Status) -> list[str]:
        """The ids of jobs in these statuses, in whichever queue."""
        return [job.id for job in self.jobs.values() if job.status in statuses]

    def may_forget(self, job: Job) -> bool:
        """Whether a store may forget a job by itself: its queue's own retention lets go."""
        return job.is_terminal and self.info(job.queue).config.retention is not None

    def place(self, job_id: str) -> int:
        """The job's place in the order of submission."""
        return list(self.jobs).index(job_id)


def observe(store: Store, reading: ClockReading) -> Snapshot:
    """Look at everything."""
    found: list[Job] = []
    page = store.search(JobFilter(), limit=PAGE)
    found += page.jobs
    while page.next_cursor is not None:
        page = store.search(JobFilter(), limit=PAGE, cursor=page.next_cursor)
        found += page.jobs
    return Snapshot(
        now=store.now(),
        reading=reading,
        jobs={job.id: job for job in reversed(found)},
        queues={info.name: info for info in store.list_queues()},
        schedules={schedule.name: schedule for schedule in store.schedules()},
        settings=store.settings(),
        stats=store.stats(),
    )


@dataclass(slots=True)
class HistoryReader:
    """Reads the new events of jobs, of which it knows how far it has read."""

    read: dict[str, int] = field(default_factory=dict)
    """By job id, the number of its latest event that was read."""

    def news(
        self, store: Store, before: Snapshot, after: Snapshot, named: Collection[str]
    ) -> list[HistoryEvent]:
        """The new events of jobs that have changed, or that the call has named."""
        for job_id in [each for each in self.read if each not in after.jobs]:
            del self.read[job_id]
        found: list[HistoryEvent] = []
        for job_id, job in after.jobs.items():
            if job_id not in self.read or job_id in named or before.jobs.get(job_id) != job:
                known = self.read.get(job_id, 0)
                events = [e for e in store.history(job_id) if e.sequence > known]
                self.read[job_id] = events[-1].sequence if events else known
                found += events
        return found
