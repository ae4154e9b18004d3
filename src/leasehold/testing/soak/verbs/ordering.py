"""People: orders about single jobs, about many by a filter, and whole queues."""

from __future__ import annotations

from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import CancelAll, DiscardAll, ReplayAll, ReprioritizeAll
from leasehold.testing.soak.calls import Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb

ACTOR = "ada"


@verb("cancel", 5, Feature.PEOPLE)
def cancel(scene: Scene) -> Call:
    reason = scene.random.choice(("unwanted", "too late"))
    return call("cancel", job_ids=scene.some_ids(), reason=reason, actor=ACTOR)


@verb("cancel many", 2, Feature.PEOPLE)
def cancel_many(scene: Scene) -> Call:
    """All jobs that fit a filter; a program finds them first, and some have moved on meanwhile."""
    ids = _fitting(scene, job_filter(scene))
    return call("cancel", job_ids=ids, reason="all of these", actor=ACTOR)


@verb("replay", 5, Feature.PEOPLE)
def replay(scene: Scene) -> Call:
    reset = scene.luck(0.5)
    return call("replay", job_ids=scene.some_ids(6), reset_attempts=reset, actor=ACTOR)


@verb("replay many", 3, Feature.PEOPLE)
def replay_many(scene: Scene) -> Call:
    ids = _fitting(scene, JobFilter(statuses=(Status.DEAD, Status.CANCELLED)))
    scene.random.shuffle(ids)
    return call("replay", job_ids=ids, reset_attempts=scene.luck(0.5), actor=ACTOR)


@verb("discard", 5, Feature.PEOPLE)
def discard(scene: Scene) -> Call:
    return call("discard", job_ids=scene.some_ids(5), actor=ACTOR)


@verb("reprioritize", 5, Feature.PEOPLE)
def reprioritize(scene: Scene) -> Call:
    priority = scene.random.choice((0, 40, 50, 90, 100, 101))
    return call("reprioritize", job_id=scene.some_ids(1)[0], priority=priority, actor=ACTOR)


@verb("order by filter", 4, Feature.PEOPLE)
def order(scene: Scene) -> Call:
    """All jobs that fit, found by the store itself."""
    wanted = scene.random.choice(
        (
            CancelAll("all of these"),
            ReplayAll(reset_attempts=scene.luck(0.5)),
            DiscardAll(),
            ReprioritizeAll(scene.random.choice((0, 60, 101))),
        )
    )
    limit = scene.random.choice((2, 100))
    return call("order", order=wanted, where=job_filter(scene), actor=ACTOR, limit=limit)


@verb("purge a queue", 3, Feature.QUEUES)
def purge_queue(scene: Scene) -> Call:
    limit = scene.random.choice((1, 3, 1000))
    return call(
        "purge_queue", queue=scene.queue(), where=job_filter(scene), actor=ACTOR, limit=limit
    )


def job_filter(scene: Scene) -> JobFilter:
    """A filter such as people give."""
    waiting = (Status.PENDING, Status.SCHEDULED, Status.FAILED, Status.BLOCKED)
    return scene.random.choice(
        (
            JobFilter(),
            JobFilter(tasks=("work",)),
            JobFilter(statuses=(scene.random.choice(waiting),)),
            JobFilter(parent_id="group"),
            JobFilter(limit_key="tenant-a"),
            JobFilter(priority_min=50),
            JobFilter(priority_max=49),
            JobFilter(metadata={"tenant": "a"}),
            JobFilter(ids=tuple(scene.some_ids(4))),
            JobFilter(queues=(scene.queue(),)),
        )
    )


def fits(where: JobFilter, job_id: str, scene: Scene) -> bool:
    """Whether a job that was seen fits such a filter."""
    job = scene.seen.jobs[job_id]
    metadata = job.metadata or {}
    return (
        (where.ids is None or job_id in where.ids)
        and (where.queues is None or job.queue in where.queues)
        and (where.statuses is None or job.status in where.statuses)
        and (where.tasks is None or job.task in where.tasks)
        and (where.parent_id is None or job.parent_id == where.parent_id)
        and (where.limit_key is None or job.limit_key == where.limit_key)
        and (where.priority_min is None or job.priority >= where.priority_min)
        and (where.priority_max is None or job.priority <= where.priority_max)
        and all(metadata.get(name) == value for name, value in (where.metadata or {}).items())
    )


def _fitting(scene: Scene, where: JobFilter) -> list[str]:
    return [job_id for job_id in scene.seen.jobs if fits(where, job_id, scene)][:20]
