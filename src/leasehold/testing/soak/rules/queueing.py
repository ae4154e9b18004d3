"""Rules of queues: depth, rates, states, purges and deletions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.records import Purged
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.errors import QueueClosedError, QueueFullError, QueueNotEmptyError, RateLimitedError
from leasehold.testing.soak.book import Bucket
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.ordering import WAITING
from leasehold.testing.soak.rules.submitting import accepted, answered, is_submit

_ORDERING = (
    "aging_factor",
    "max_aging_bonus",
    "retry_penalty",
    "deadline_weight",
    "fifo_mode",
    "max_priority",
)


def fits(where: JobFilter, job: Job) -> bool:
    """Whether a job fits a filter such as people give here."""
    metadata = job.metadata or {}
    return (
        (where.ids is None or job.id in where.ids)
        and (where.queues is None or job.queue in where.queues)
        and (where.statuses is None or job.status in where.statuses)
        and (where.tasks is None or job.task in where.tasks)
        and (where.parent_id is None or job.parent_id == where.parent_id)
        and (where.limit_key is None or job.limit_key == where.limit_key)
        and (where.priority_min is None or job.priority >= where.priority_min)
        and (where.priority_max is None or job.priority <= where.priority_max)
        and all(metadata.get(name) == value for name, value in (where.metadata or {}).items())
    )


def config_of(step: JudgedCall, queue: str) -> QueueConfig:
    return step.before.info(queue).config


@rule("LIM-1")
def a_queue_takes_no_more_than_it_holds(step: JudgedCall) -> int:
    if not is_submit(step):
        return 0
    met = 0
    # A job that is freed by the end of another job of the call is not refused.
    freed = {event.job_id for event in step.happened(Event.UNBLOCKED)}
    made = {job.queue for job in step.new if job.status is Status.PENDING and job.id not in freed}
    for queue in made:
        depth = config_of(step, queue).max_depth
        waiting = step.after.of_queue(queue, Status.PENDING)
        pending = sum(job.id not in freed for job in waiting)
        assert depth is None or pending <= depth, f"{pending} pending in {queue}, {depth} may be"
        met += depth is not None
    for draft, answer in answered(step):
        if type(answer) is QueueFullError:
            depth = config_of(step, draft.queue).max_depth
            pending = len(step.after.of_queue(draft.queue, Status.PENDING))
            assert depth is not None, f"{draft.queue} has no limit, yet {answer}"
            assert pending >= depth, f"{pending} of {depth} pending in {draft.queue}, yet {answer}"
            met += 1
    return met


@rule("LIM-3")
def jobs_come_no_faster_than_they_may(step: JudgedCall) -> int:
    met = 0
    if step.method == "repair_clock":
        step.book.buckets.clear()
    if step.method == "delete_queue" and not step.refused:
        # A queue that is made anew begins with full buckets.
        for key in [each for each in step.book.buckets if each[0] == step.call.get("queue")]:
            del step.book.buckets[key]
    for draft in _let_in(step):
        for kind, name, rate in _rates(config_of(step, draft.queue), draft):
            key = (draft.queue, kind, name)
            bucket = step.book.buckets.get(key)
            if bucket is None or bucket.rate != rate:
                bucket = step.book.buckets[key] = Bucket(rate)
            bucket.moments.append(step.now)
            _check_bucket(key, bucket)
            met += 1
    for _, answer in answered(step):
        met += isinstance(answer, RateLimitedError)
    return met


def _check_bucket(key: tuple[str, str, str], bucket: Bucket) -> None:
    """In no stretch of time came more than its burst and its rate allow."""
    burst = max(1, math.floor(2 * bucket.rate))
    now = bucket.moments[-1]
    for index, moment in enumerate(bucket.moments):
        came = len(bucket.moments) - index
        most = burst + bucket.rate * (now - moment).total_seconds() + 1e-6
        assert came <= most, f"{came} jobs came to {key} since {moment}, at most {most} may"


def _let_in(step: JudgedCall) -> Iterator[Draft]:
    """Every new job as a draft, from any submitter."""
    if is_submit(step):
        yield from accepted(step)
        return
    for job in step.new:
        yield Draft(id=job.id, task=job.task, queue=job.queue, limit_key=job.limit_key)


def _rates(config: QueueConfig, draft: Draft) -> Iterator[tuple[str, str, float]]:
    if config.rate_per_second is not None:
        yield "queue", "", config.rate_per_second
    if config.client_rate_per_second is not None:
        yield "client", draft.client or "", config.client_rate_per_second
    if config.key_rate_per_second is not None and draft.limit_key is not None:
        yield "key", draft.limit_key, config.key_rate_per_second


@rule("QUE-1")
def a_new_queue_has_its_rules(step: JudgedCall) -> int:
    if step.method != "create_queue" or step.refused:
        return 0
    info = step.after.queues[step.call.get("queue")]
    assert info.config == step.call.get("config"), f"it has {info.config}"
    return 1


@rule("QUE-2")
def a_change_changes_what_it_names(step: JudgedCall) -> int:
    if step.method not in ("update_queue", "create_queue"):
        return 0
    queue, changes = step.call.get("queue"), step.call.get("changes", {})
    before, after = step.before.queues.get(queue), step.after.queues.get(queue)
    if step.refused or before is None or after is None:
        assert before == after or not step.refused, f"refused, yet {after}"
        step.book.reordered[queue] = step.now
        return int(step.refused)
    for name in msgspec.structs.asdict(before.config):
        was, now = getattr(before.config, name), getattr(after.config, name)
        expected = changes.get(name, was)
        assert step.method == "create_queue" or now == expected, f"{name} is {now!r}"
        if name in _ORDERING and now != was:
            step.book.reordered[queue] = step.now
    return 1


@rule("QUE-5")
def a_draining_queue_accepts_nothing(step: JudgedCall) -> int:
    met = 0
    closed = (QueueState.DRAINING, QueueState.DELETING)
    for job in step.new:
        info = step.before.queues.get(job.queue)
        assert info is None or info.state not in closed, f"{job.id} came in while {info}"
    for draft, answer in answered(step):
        if isinstance(answer, QueueClosedError):
            info = step.before.queues.get(draft.queue)
            assert info is not None, f"nobody knows {draft.queue}, yet {answer}"
            assert info.state in closed, f"{draft.queue} is {info.state}, yet {answer}"
            met += 1
    return met + isinstance(step.answer, QueueClosedError)


@rule("QUE-7")
def a_purge_deletes_what_waits_and_fits(step: JudgedCall) -> int:
    if step.method != "purge_queue" or not isinstance(step.answer, Purged):
        return 0
    queue, where = step.call.get("queue"), step.call.get("where")
    for job in step.gone:
        wanted = job.queue == queue and job.status in WAITING and fits(where, job)
        assert wanted, f"{job.id} was purged, and is {job}"
    assert len(step.gone) == step.answer.purged, f"{len(step.gone)} are gone: {step.answer}"
    assert step.answer.purged <= step.call.get("limit"), f"{step.answer}"
    return len(step.gone)


@rule("QUE-12")
def a_purge_says_whether_there_is_more(step: JudgedCall) -> int:
    if step.method != "purge_queue" or not isinstance(step.answer, Purged) or step.answer.more:
        return 0
    queue, where = step.call.get("queue"), step.call.get("where")
    left = [
        job.id
        for job in step.after.of_queue(queue, *WAITING)
        if fits(where, job) and fits(where, step.before.jobs[job.id])
    ]
    assert not left, f"{left} are left, and it says that nothing is"
    return 1


@rule("QUE-8")
def a_queue_with_jobs_is_deleted_by_force_only(step: JudgedCall) -> int:
    if step.method != "delete_queue":
        return 0
    queue, force = step.call.get("queue"), step.call.get("force")
    waiting = step.before.of_queue(queue, *WAITING)
    running = step.before.of_queue(queue, Status.RUNNING)
    if isinstance(step.answer, QueueNotEmptyError):
        assert waiting or running, f"nothing is in {queue}, yet {step.answer}"
        assert not force, f"by force, yet {step.answer}"
        return 1
    if step.refused:
        return 0
    assert force or not (waiting or running), f"{waiting} were in {queue}"
    assert not step.after.of_queue(queue, *WAITING), f"jobs still wait in {queue}"
    dead = [e for e in step.happened(Event.DEAD) if "was deleted" in e.message]
    assert step.answer >= len([e for e in dead if e.message.startswith("its queue")]), f"{dead}"
    config = step.after.info(queue).config
    assert config == QueueConfig(), f"{queue} still has {config}"
    return 1


@rule("QUE-14")
def a_deleted_queue_is_told_as_deleted(step: JudgedCall) -> int:
    met = 0
    if step.method == "delete_queue" and not step.refused:
        queue = step.call.get("queue")
        info = step.after.queues.get(queue)
        jobs = any(job.queue == queue for job in step.after.jobs.values())
        assert (info is not None) == jobs, f"of {queue} with jobs: {jobs}, it says {info}"
        assert info is None or info.state is QueueState.DELETED, f"it says {info}"
        met += 1
    for job in step.new:
        info = step.after.info(job.queue)
        assert info.state is not QueueState.DELETED, f"{job.id} is new, and yet {info}"
    return met


@rule("QUE-10")
def the_figures_of_a_queue_are_a_recount(step: JudgedCall) -> int:
    if step.method == "queues":
        assert step.answer == sorted(step.after.queues), f"there are {sorted(step.after.queues)}"
    for name, info in step.after.queues.items():
        counts = {status: len(step.after.of_queue(name, status)) for status in Status}
        shown = {status: info.counts.get(status, 0) for status in Status}
        assert shown == counts, f"{name} shows {shown}, there are {counts}"
        assert info.pending == counts[Status.PENDING], f"{name} shows {info.pending} pending"
        assert info.running == counts[Status.RUNNING], f"{name} shows {info.running} running"
    return len(step.after.queues)
