"""Recurring jobs: `queue.schedule(...)`, `@queue.every(...)`, `@queue.cron(...)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import msgspec

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.durations import Seconds
from leasehold.core.model.job import DependencyPolicy, MetadataValue, PriorityLike
from leasehold.core.model.schedule import Misfire, Overlap, Schedule, ScheduleDraft
from leasehold.core.model.text import plain
from leasehold.core.model.timing import Cron, Every, Timing
from leasehold.errors import ForbiddenError, InvalidScheduleError, LeaseholdError
from leasehold.queue.commands import command_job
from leasehold.queue.drafting import Drafting
from leasehold.queue.large import has_large
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.options import JobRef, NewJob, RetryLike, draft_safe
from leasehold.queue.orphans import is_orphan, note_declared
from leasehold.queue.task import BaseTask
from leasehold.queue.tasks import Decorator, Tasks
from leasehold.worker.executors.role import is_child_process
from leasehold.worker.modules import importable_name, module_of
from leasehold.worker.safelog import safe_logger

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

logger = safe_logger("leasehold")


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule, and of the jobs that it submits."""

    misfire: Misfire
    catch_up_max: int
    grace_seconds: Seconds
    overlap: Overlap
    declared_in: str
    queue: str
    priority: PriorityLike
    max_retries: int
    retry: RetryLike
    delay: Seconds
    timeout_seconds: Seconds
    lease_seconds: Seconds
    start_within_seconds: Seconds
    metadata: Mapping[str, MetadataValue]
    parent_id: JobRef
    on_dependency_failure: DependencyPolicy
    limit_key: str


SCHEDULE_OPTION_NAMES: Final = frozenset(ScheduleOptions.__annotations__)
_OF_THE_SCHEDULE = ("misfire", "catch_up_max", "grace_seconds", "overlap", "declared_in")


class Scheduling:
    """The part of a TaskQueue that submits jobs again and again."""

    def __init__(
        self,
        store: Store,
        actor: str,
        blobs: Blobs | None,
        tasks: Tasks,
        drafting: Drafting,
        lifecycle: Lifecycle,
    ) -> None:
        self.store = store
        self.blobs = blobs
        self._actor = actor
        self._tasks = tasks
        self._drafting = drafting
        self._check_open = lifecycle.check_open
        self._ensure_workers = lifecycle.ensure_workers

    def schedule(
        self,
        name: str,
        task: BaseTask[..., Any] | Callable[..., Any] | str,
        timing: Timing,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Run a task at every tick of `timing`: `Cron(...)` or `Every(...)`.

        The name identifies the schedule: declaring it again, at every start of a program, is
        harmless, and declaring it differently changes it. Ticks are fired by the workers on this
        store, each tick once. `misfire` decides about ticks that were missed while no worker ran;
        `overlap="skip"` skips a tick while the job of the one before has not ended. With
        `declared_in=__name__` the schedule belongs to the code of that module, as those of `every`
        and `cron` do: once the module no longer declares it, it is shown as orphaned. The other
        options are those of `submit`, for each tick's job.

        >>> from leasehold import Cron, TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> schedule = queue.schedule("nightly", print, Cron("0 3 * * *", zone="Europe/Berlin"))
        >>> [known.name for known in queue.schedules]
        ['nightly']
        """
        return self._schedule(name, timing, NewJob(task, args, kwargs), options)

    def schedule_command(
        self,
        name: str,
        command: str | Sequence[str],
        timing: Timing,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """`schedule` for a command, given as in `submit_command`.

        >>> from leasehold import Every, TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.schedule_command("tidy", ["find", "/tmp", "-delete"], Every(3600)).task
        'command'
        """
        job = command_job(command, cwd=cwd, env=env, stdin=stdin)
        return self._schedule(name, timing, job, options)

    def every(
        self,
        seconds: Seconds,
        *,
        starting: datetime | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Decorator:
        """Make a function a task that runs at an interval: `@queue.every(60)`, `every("1h")`.

        It may stand above `@queue.task(...)`. The schedule has the task's name by default, and is
        stored as soon as the function is defined; options as in `schedule`.
        """
        return self._decorator(name, Every(seconds, starting), args, kwargs, options, ("starting",))

    def cron(
        self,
        expression: str,
        *,
        zone: str | ZoneInfo = "UTC",
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Decorator:
        """Make a function a task that runs by a cron expression; see `every` and `Cron`."""
        return self._decorator(name, Cron(expression, zone), args, kwargs, options, ("zone",))

    def prune_schedules(self) -> list[Schedule]:
        """Remove the schedules that code declared and no longer declares; returns them.

        Call it when everything is declared. It removes those that are shown as orphaned, and those
        of modules that this process has loaded or that are gone from a package it has loaded.
        Their jobs stay. See docs/schedules.md.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.prune_schedules()
        []
        """
        self._check_open()
        if is_child_process():  # A child process imports the application only to run a job.
            return []
        return [
            self.store.remove_schedule(each.name, actor=self._actor)
            for each in self.store.schedules()
            if each.draft.orphaned or is_orphan(each, is_all_declared=True)
        ]

    def mark_orphans(self) -> None:
        """Record which schedules the code of this process no longer declares."""
        try:
            self._mark_orphans()
        except LeaseholdError:
            logger.debug("orphaned schedules were not looked for", exc_info=True)

    def _mark_orphans(self) -> None:
        for schedule in self.store.schedules():
            draft = schedule.draft
            if draft.orphaned or not is_orphan(schedule, is_all_declared=False):
                continue
            orphaned = msgspec.structs.replace(draft, orphaned=True)
            self.store.set_schedule(orphaned, actor=self._actor)
            logger.warning(
                "schedule %r is orphaned: %s no longer declares it, but it still ticks. "
                "queue.prune_schedules() or `queuectl schedule prune` removes it",
                schedule.name,
                draft.declared_in,
            )

    def _decorator(
        self,
        name: str | None,
        timing: Timing,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        options: ScheduleOptions,
        own: Iterable[str],
    ) -> Decorator:
        offered = {*SCHEDULE_OPTION_NAMES, "name", "args", "kwargs", *own}

        def make(function: Callable[..., Any]) -> BaseTask[..., Any]:
            self._check_open()
            made = function if isinstance(function, BaseTask) else self._tasks.task(function)
            task: BaseTask[..., Any] = made
            # A child process imports this only to run a job; its worker has already recorded it.
            if not is_child_process():
                where = ScheduleOptions(declared_in=module_of(task.definition.func))
                call = NewJob(task, args, kwargs)
                schedule = name or task.name
                try:
                    self._declare(schedule, timing, call, {**where, **options}, offered)
                except ForbiddenError as refused:
                    # A client whose token only runs jobs need not be allowed to change schedules.
                    logger.warning(
                        "schedule %r was not declared from here, and stays as the store has it: %s",
                        schedule,
                        refused,
                    )
            return task

        return Decorator(make)

    def _schedule(
        self, name: str, timing: Timing, job: NewJob, options: ScheduleOptions
    ) -> Schedule:
        self._check_open()
        schedule = self._declare(name, timing, job, options)
        self._ensure_workers()
        return schedule

    def _declare(
        self,
        name: str,
        timing: Timing,
        job: NewJob,
        options: ScheduleOptions,
        offered: Iterable[str] = SCHEDULE_OPTION_NAMES,
    ) -> Schedule:
        for_each_job: dict[str, Any] = dict(options)
        own: dict[str, Any] = {
            key: plain(for_each_job.pop(key)) for key in _OF_THE_SCHEDULE if key in for_each_job
        }
        module = checked.text_or_none("declared_in", own.pop("declared_in", None))
        # An interactive session has no code that could declare the schedule again.
        if module is not None and (module := importable_name(module)) != "__main__":
            own["declared_in"] = module
            note_declared(module, name)
        if "job_id" in for_each_job:
            raise InvalidScheduleError("job_id fits one job only: every tick's job has its own id")
        job.options = draft_safe({**for_each_job, "job_id": name}, offered)
        _, draft = self._drafting.draft_of(job)
        if self.blobs is not None and has_large([draft]):
            known = self.store.get_schedule(name)
            known_job = None if known is None else known.draft.job
            draft = self.blobs.keep_schedule_payload(name, draft, known_job)
        return self.store.set_schedule(
            ScheduleDraft(name=name, timing=timing, job=draft, **own), actor=self._actor
        )
