"""`queue.schedules`: reads of and changes to recurring jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from leasehold.core.model import checked
from leasehold.core.model.schedule import Schedule, not_found
from leasehold.env import Env
from leasehold.errors import ScheduleNotFoundError
from leasehold.queue.handle import JobHandle

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue


class Schedules:
    """Iterate over it, or get, pause, resume, run now and remove schedules by name.

    >>> from leasehold import Every, TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> _ = queue.schedule("ping", "net:ping", Every(60), args=("example.com",))
    >>> queue.schedules.pause("ping").paused
    True
    >>> queue.schedules.run("ping").job().metadata
    {'schedule': 'ping'}
    >>> queue.schedules.remove("ping").name, len(queue.schedules)
    ('ping', 0)
    """

    def __init__(self, queue: TaskQueue, actor: str, env: Env) -> None:
        self._queue = queue
        self._actor = actor
        self._env = env

    def __iter__(self) -> Iterator[Schedule]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self.list())

    def list(self) -> list[Schedule]:
        """Every schedule, by name."""
        return self._queue.store.schedules()

    def get(self, name: str) -> Schedule:
        """A snapshot; raises ScheduleNotFoundError for an unknown name, as all of these do."""
        schedule = self._queue.store.get_schedule(checked.text("name", name))
        if schedule is None:
            raise self._not_found(name)
        return schedule

    def pause(self, name: str) -> Schedule:
        """Pause it until `resume`: ticks that pass meanwhile are skipped."""
        return self._set_paused(name, paused=True)

    def resume(self, name: str) -> Schedule:
        """Resume it, with its next tick."""
        return self._set_paused(name, paused=False)

    def run(self, name: str, *, job_id: str | None = None) -> JobHandle[Any]:
        """Submit its job now, out of turn, even while it is paused. Its ticks do not change.

        With a `job_id` the job is submitted only once, however often this is called.
        """
        name = checked.text("name", name)
        job_id = checked.text_or_none("job_id", job_id) or self._env.new_id()
        try:
            job = self._queue.store.run_schedule(name, job_id=job_id, actor=self._actor)
        except ScheduleNotFoundError:
            raise self._not_found(name) from None
        return JobHandle(self._queue, job.id, self._queue.codec_for(job.task))

    def remove(self, name: str) -> Schedule:
        """Forget it; the jobs it has submitted stay. Returns its last snapshot."""
        name = checked.text("name", name)
        try:
            return self._queue.store.remove_schedule(name, actor=self._actor)
        except ScheduleNotFoundError:
            raise self._not_found(name) from None

    def _set_paused(self, name: str, *, paused: bool) -> Schedule:
        name = checked.text("name", name)
        try:
            return self._queue.store.pause_schedule(name, paused=paused, actor=self._actor)
        except ScheduleNotFoundError:
            raise self._not_found(name) from None

    def _not_found(self, name: str) -> ScheduleNotFoundError:
        return not_found(name, [each.name for each in self.list()])
