"""Schedules; `core.rules.scheduling` decides."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from leasehold.core.model.job import Job
from leasehold.core.model.schedule import Fired, Schedule, ScheduleDraft
from leasehold.core.model.stored import moment
from leasehold.core.rules import scheduling
from leasehold.core.rules.scheduling import FiringShelf
from leasehold.errors import QueueFullError
from leasehold.stores.verbs.atomic import AtomicStore


class ScheduleVerbs(AtomicStore):
    """Changes of schedules, and the firing of those that are due."""

    @abstractmethod
    def _schedule_shelf(self, write: Any) -> FiringShelf: ...

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        draft.check()
        return self._write(
            lambda write: scheduling.set_schedule(self._schedule_shelf(write), draft, actor)
        )

    def remove_schedule(self, name: str, *, actor: str) -> Schedule:
        return self._write(
            lambda write: scheduling.remove_schedule(self._schedule_shelf(write), name, actor)
        )

    def pause_schedule(self, name: str, *, paused: bool, actor: str) -> Schedule:
        return self._write(
            lambda write: scheduling.pause_schedule(
                self._schedule_shelf(write), name, paused, actor
            )
        )

    def run_schedule(self, name: str, *, job_id: str, actor: str) -> Job:
        def run(write: Any) -> Job | QueueFullError | None:
            shelf = self._schedule_shelf(write)
            refusal = scheduling.run_schedule(shelf, name, job_id, actor)
            return shelf.read_job(job_id) if refusal is None else refusal

        answer = self._write(run)
        if isinstance(answer, QueueFullError):
            raise answer
        assert answer is not None
        return answer

    def fire_schedules(self) -> Fired:
        jobs, look_at = self._write(lambda write: self._schedule_shelf(write).fire_due())
        return Fired(jobs, moment(look_at))
