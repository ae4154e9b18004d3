"""The operations of operators on queues, schedules and settings."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field, structs

from leasehold.core.model.budget import PURGE_AT_ONCE
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.refusals import no_queue
from leasehold.core.model.schedule import Misfire, Overlap, ScheduleDraft, not_found
from leasehold.core.model.settings import DEFINITIONS, SettingValue
from leasehold.core.model.timing import Cron, Every
from leasehold.core.model.tokens import LOOKING
from leasehold.documents.jobs import job_document
from leasehold.documents.queues import queue_document
from leasehold.documents.schedules import schedule_document
from leasehold.service.answers import QueueDocument
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Name, NewJob
from leasehold.service.operation import Answer, Request, operation
from leasehold.service.operators import GivenFilter, Nothing
from leasehold.service.producers import JobAnswer
from leasehold.service.scope import check_schedule


class NamedQueue(Request):
    """One queue."""

    queue: Name


class CreateQueue(Request):
    """A queue, with its rules."""

    queue: Name
    config: QueueConfig = QueueConfig()


class UpdateQueue(Request):
    """The rules of a queue to change; null removes a rule."""

    queue: Name
    changes: dict[str, Any]


class DeleteQueue(Request):
    """Delete a queue's rules and state."""

    queue: Name
    force: bool = False
    """Whether to delete it even while jobs wait in it; they become dead letters."""


class PurgeQueue(Request):
    """Which waiting jobs of a queue to delete, at most `limit` per write."""

    queue: Name
    where: GivenFilter = field(default_factory=GivenFilter)
    limit: Annotated[int, Meta(ge=1, le=PURGE_AT_ONCE)] = PURGE_AT_ONCE


class Queues(Answer):
    """The queues by name, with their state, rules and number of jobs in each status."""

    queues: list[QueueDocument]


class QueueAnswer(Answer):
    """A queue as it is now."""

    queue: QueueDocument


class Deleted(Answer):
    """The number of jobs that became dead letters because their queue was deleted."""

    dead: int


class PurgeAnswer(Answer):
    """The number of deleted jobs, and whether there are more to delete."""

    purged: int
    more: bool
    dependents: int


class NamedSchedule(Request):
    """One schedule."""

    name: Name


class RunSchedule(NamedSchedule):
    """One schedule, and the id of the request."""

    request_id: Name | None = None
    """A request that is sent again under the same id submits nothing more, and is answered with the
    same job."""


class SetSchedule(Request):
    """A job that is submitted repeatedly, and when."""

    name: Name
    timing: Cron | Every
    job: NewJob
    misfire: Misfire = "run_once"
    catch_up_max: int = 100
    grace_seconds: float = 300.0
    overlap: Overlap = "allow"


class Schedules(Answer):
    """The schedules by name, with their next runs."""

    schedules: list[dict[str, Any]]


class ScheduleAnswer(Answer):
    """A schedule as it is now."""

    schedule: dict[str, Any]


class SetSetting(Request):
    """A setting's new value; seconds, a count or a number, or null where that means something."""

    name: Name
    value: SettingValue | UnsetType = UNSET


class NamedSetting(Request):
    """One setting."""

    name: Name


class Settings(Answer):
    """The settings of the store, and the default values."""

    values: dict[str, SettingValue]
    defaults: dict[str, SettingValue]
    generation: int


class QueueOperators(ApiPart):
    """Operations on queues, schedules and settings."""

    # -- queues ----------------------------------------------------------------------------------

    @operation("GET", "/queues", *LOOKING)
    def list_queues(self, caller: Caller, request: Nothing) -> Queues:
        """List the queues."""
        infos = self.store.list_queues()
        visible = [each for each in infos if caller.queues is None or each.name in caller.queues]
        return Queues(queues=[queue_document(each) for each in visible])

    @operation("GET", "/queues/{queue}", *LOOKING)
    def get_queue(self, caller: Caller, request: NamedQueue) -> QueueAnswer:
        """Return a queue with its state, rules and job counts."""
        caller.check_queue(request.queue)
        info = self.store.queue_info(request.queue)
        if info is None:
            raise no_queue(request.queue)
        return _queue(info)

    @operation("POST", "/queues", "operator", status=201)
    def create_queue(self, caller: Caller, request: CreateQueue) -> QueueAnswer:
        """Create a queue with its rules; repeating the request changes nothing."""
        caller.check_queue(request.queue)
        return _queue(self.store.create_queue(request.queue, request.config, actor=caller.actor))

    @operation("PATCH", "/queues/{queue}", "operator")
    def update_queue(self, caller: Caller, request: UpdateQueue) -> QueueAnswer:
        """Change rules of a queue."""
        caller.check_queue(request.queue)
        return _queue(self.store.update_queue(request.queue, request.changes, actor=caller.actor))

    @operation("DELETE", "/queues/{queue}", "operator")
    def delete_queue(self, caller: Caller, request: DeleteQueue) -> Deleted:
        """Delete a queue's rules and state."""
        caller.check_queue(request.queue)
        dead = self.store.delete_queue(request.queue, force=request.force, actor=caller.actor)
        return Deleted(dead=dead)

    @operation("POST", "/queues/{queue}/pause", "operator")
    def pause_queue(self, caller: Caller, request: NamedQueue) -> QueueAnswer:
        """Pause a queue: it accepts jobs, but none is leased; running jobs continue."""
        return self._set_state(caller, request, QueueState.PAUSED)

    @operation("POST", "/queues/{queue}/resume", "operator")
    def resume_queue(self, caller: Caller, request: NamedQueue) -> QueueAnswer:
        """Resume a paused or draining queue."""
        return self._set_state(caller, request, QueueState.ACTIVE)

    @operation("POST", "/queues/{queue}/drain", "operator")
    def drain_queue(self, caller: Caller, request: NamedQueue) -> QueueAnswer:
        """Drain a queue: it accepts no new jobs, and the jobs in it are finished."""
        return self._set_state(caller, request, QueueState.DRAINING)

    @operation("POST", "/queues/{queue}/purge", "operator")
    def purge_queue(self, caller: Caller, request: PurgeQueue) -> PurgeAnswer:
        """Delete waiting jobs of a queue; repeat the request while `more` is true in the answer."""
        caller.check_queue(request.queue)
        if self.store.queue_info(request.queue) is None:
            raise no_queue(request.queue)
        where = structs.replace(request.where.job_filter(caller), queues=(request.queue,))
        purged = self.store.purge_queue(
            request.queue, where, actor=caller.actor, limit=request.limit
        )
        return PurgeAnswer(**structs.asdict(purged))

    def _set_state(self, caller: Caller, request: NamedQueue, state: QueueState) -> QueueAnswer:
        caller.check_queue(request.queue)
        return _queue(self.store.set_queue_state(request.queue, state, actor=caller.actor))

    # -- schedules -------------------------------------------------------------------------------

    @operation("GET", "/schedules", "operator", "observer")
    def list_schedules(self, caller: Caller, request: Nothing) -> Schedules:
        """List the schedules."""
        now = self.store.now()
        known = self.store.schedules()
        visible = [each for each in known if caller.queues is None or each.queue in caller.queues]
        return Schedules(schedules=[schedule_document(each, now) for each in visible])

    @operation("PUT", "/schedules/{name}", "operator")
    def set_schedule(self, caller: Caller, request: SetSchedule) -> ScheduleAnswer:
        """Create a schedule, or replace the one with the same name."""
        draft = ScheduleDraft(
            name=request.name,
            timing=request.timing,
            job=structs.replace(request.job.draft(caller, self.env), client=None),
            misfire=request.misfire,
            catch_up_max=request.catch_up_max,
            grace_seconds=request.grace_seconds,
            overlap=request.overlap,
        )
        check_schedule(caller, self.store, draft)
        known = self.store.set_schedule(draft, actor=caller.actor)
        return ScheduleAnswer(schedule=schedule_document(known, self.store.now()))

    @operation("DELETE", "/schedules/{name}", "operator")
    def remove_schedule(self, caller: Caller, request: NamedSchedule) -> ScheduleAnswer:
        """Delete a schedule; the jobs that it has submitted remain."""
        self._check_schedule(caller, request.name)
        gone = self.store.remove_schedule(request.name, actor=caller.actor)
        return ScheduleAnswer(schedule=schedule_document(gone, self.store.now()))

    @operation("POST", "/schedules/{name}/pause", "operator")
    def pause_schedule(self, caller: Caller, request: NamedSchedule) -> ScheduleAnswer:
        """Pause a schedule: it submits no jobs until it is resumed."""
        return self._pause(caller, request.name, paused=True)

    @operation("POST", "/schedules/{name}/resume", "operator")
    def resume_schedule(self, caller: Caller, request: NamedSchedule) -> ScheduleAnswer:
        """Resume a paused schedule, from its next tick on."""
        return self._pause(caller, request.name, paused=False)

    @operation("POST", "/schedules/{name}/run", "operator", status=201)
    def run_schedule(self, caller: Caller, request: RunSchedule) -> JobAnswer:
        """Submit a schedule's job now, in addition to its regular ticks."""
        self._check_schedule(caller, request.name)
        job_id = caller.request_id(request.request_id) or self.env.new_id()
        job = self.store.run_schedule(request.name, job_id=job_id, actor=caller.actor)
        return JobAnswer(job=job_document(job))

    def _pause(self, caller: Caller, name: str, *, paused: bool) -> ScheduleAnswer:
        self._check_schedule(caller, name)
        known = self.store.pause_schedule(name, paused=paused, actor=caller.actor)
        return ScheduleAnswer(schedule=schedule_document(known, self.store.now()))

    def _check_schedule(self, caller: Caller, name: str) -> None:
        """Refuse a schedule outside the caller's queues as if it did not exist."""
        if caller.queues is None:
            return
        known = self.store.get_schedule(name)
        if known is None or known.queue not in caller.queues:
            raise not_found(name)

    # -- settings --------------------------------------------------------------------------------

    @operation("GET", "/settings", "operator", "observer")
    def settings(self, caller: Caller, request: Nothing) -> Settings:
        """Return the settings of the store, and the default values."""
        caller.check_unscoped()
        return self._settings()

    @operation("PUT", "/settings/{name}", "operator")
    def set_setting(self, caller: Caller, request: SetSetting) -> Settings:
        """Change a setting of the store, for everyone who uses it."""
        caller.check_unscoped()
        value = None if request.value is UNSET else request.value
        self.store.set_setting(request.name, value, actor=caller.actor)
        return self._settings()

    @operation("DELETE", "/settings/{name}", "operator")
    def unset_setting(self, caller: Caller, request: NamedSetting) -> Settings:
        """Reset a setting of the store to its default value."""
        caller.check_unscoped()
        self.store.unset_setting(request.name, actor=caller.actor)
        return self._settings()

    def _settings(self) -> Settings:
        known = self.store.settings()
        defaults = {name: each.default for name, each in DEFINITIONS.items()}
        return Settings(
            values=dict(known.values),
            defaults=defaults | dict(known.defaults),
            generation=known.generation,
        )


def _queue(info: QueueInfo) -> QueueAnswer:
    return QueueAnswer(queue=queue_document(info))
