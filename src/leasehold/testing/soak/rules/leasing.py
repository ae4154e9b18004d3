"""Rules of leases: which jobs, in which order, under which version, for how long."""

from __future__ import annotations

from datetime import timedelta

from leasehold.core.model.job import Job
from leasehold.core.model.lease import Exchange, Lease, LeaseRequest
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.status import Event, Status
from leasehold.testing.soak.book import Bucket, LeasePromise
from leasehold.testing.soak.observing import Snapshot
from leasehold.testing.soak.rules.base import JudgedCall, rule

ROUNDING = timedelta(microseconds=2)
WAITING = (Status.PENDING, Status.SCHEDULED, Status.FAILED)
LEASE_SECONDS_BUILT_IN = 300.0
EXTENSION_SECONDS_MAX = 24 * 3600.0


def leases_of(step: JudgedCall) -> list[Lease]:
    return step.answer.leases if isinstance(step.answer, Exchange) else []


def is_late(job: Job, step: JudgedCall) -> bool:
    return job.start_by is not None and job.started_at is None and job.start_by <= step.now


def running_of_key(snapshot: Snapshot, job: Job) -> int:
    return sum(
        each.limit_key == job.limit_key for each in snapshot.of_queue(job.queue, Status.RUNNING)
    )


def fits(job: Job, request: LeaseRequest) -> bool:
    return (
        job.queue in request.queues
        and request.wants(job.queue, job.task)
        and (request.parent_id is None or job.parent_id == request.parent_id)
    )


def start_buckets(job: Job, config: QueueConfig) -> list[tuple[tuple[str, str | None], float]]:
    """The start rates that count for a job, and for whom each of them does."""
    found: list[tuple[tuple[str, str | None], float]] = []
    if config.starts_per_second is not None:
        found.append(((job.queue, None), config.starts_per_second))
    if config.key_starts_per_second is not None and job.limit_key is not None:
        found.append(((job.queue, job.limit_key), config.key_starts_per_second))
    return found


def last_start(name: tuple[str, str | None], rate: float, step: JudgedCall) -> Bucket | None:
    """When the last job started, by this call or before, and under which rate; None if none did."""
    queue, key = name
    jobs = (step.after.jobs[lease.job_id] for lease in leases_of(step))
    if any(job.queue == queue and key in (None, job.limit_key) for job in jobs):
        return Bucket(rate, [step.now])
    return step.book.starts.get(name)


def may_be_leased(job: Job, step: JudgedCall, request: LeaseRequest, *, paced: bool = True) -> bool:
    """Whether nothing stands in the way of this job after the call; or nothing but its pace."""
    if job.status not in WAITING or job.run_at > step.now or not fits(job, request):
        return False
    info = step.after.info(job.queue)
    held = job.task in info.held_until or job.task in step.before.info(job.queue).held_until
    config = info.config
    slots, keyed = config.max_concurrency, config.key_concurrency
    return (
        info.state in (QueueState.ACTIVE, QueueState.DRAINING)
        and not held
        and not is_late(job, step)
        and (slots is None or len(step.after.of_queue(job.queue, Status.RUNNING)) < slots)
        and (keyed is None or job.limit_key is None or running_of_key(step.after, job) < keyed)
        and not (paced and any(_rests(*each, step) for each in start_buckets(job, config)))
    )


def _rests(name: tuple[str, str | None], rate: float, step: JudgedCall) -> bool:
    last = last_start(name, rate, step)
    if last is None or not last.moments:
        return False
    # Tokens used under a higher rate still count, and under a lower one they may not.
    return step.now < last.moments[-1] + timedelta(seconds=1 / min(rate, last.rate)) + ROUNDING


@rule("LEA-1")
def the_best_are_leased(step: JudgedCall) -> int:
    """A job that is at least as good in everything and came first is served first."""
    request = step.call.get("request")
    left = [
        job
        for job in step.before.jobs.values()
        if job.id in step.after.jobs
        and step.after.jobs[job.id].status in WAITING
        and request is not None
        and fits(job, request)
        and job.status in WAITING
        and max(job.run_at, job.created_at) <= step.now
        and not is_late(job, step)
    ]
    met = 0
    for lease in leases_of(step):
        leased = step.before.jobs.get(lease.job_id)
        if leased is None or leased.status not in WAITING:
            continue
        for job in left:
            met += 1
            assert not _comes_before(job, leased, step), f"{leased.id} was leased, not {job.id}"
    return met


def _comes_before(job: Job, leased: Job, step: JudgedCall) -> bool:
    info = step.before.info(job.queue)
    after = step.after.info(job.queue)
    keyed = info.config.key_limits is not None and job.limit_key is not None
    changed = step.book.reordered.get(job.queue)
    unsettled = changed is not None and step.now < changed + timedelta(seconds=120)
    if (
        job.queue != leased.queue
        or keyed
        or unsettled
        or (job.task != leased.task and (info.held_until or after.held_until))
        or job.depends_on
        or leased.depends_on
    ):
        return False
    cap = 100 if info.config.max_priority is None else info.config.max_priority
    mine, theirs = (
        min(cap, max(each.priority, each.inherited_priority or 0)) for each in (job, leased)
    )
    first = step.before.place(job.id) < step.before.place(leased.id)
    if info.config.fifo_mode:
        return mine > theirs or (mine == theirs and first)
    return (
        job.deadline is None
        and leased.deadline is None
        and mine >= theirs
        and job.attempts <= leased.attempts
        and max(job.run_at, job.created_at) <= max(leased.run_at, leased.created_at)
        and first
    )


@rule("LEA-2")
def what_a_lease_says(step: JudgedCall) -> int:
    request = step.call.get("request")
    leases = leases_of(step)
    told = [(event.job_id, event.lease_version) for event in step.happened(Event.LEASED)]
    assert sorted(told) == sorted((each.job_id, each.version) for each in leases), f"told {told}"
    for lease in leases:
        job = step.after.jobs[lease.job_id]
        known = step.book.granted.get(job.id, 0)
        assert lease.version > known, f"{job.id} had version {known}, and has {lease.version} now"
        step.book.granted[job.id] = lease.version
        assert (job.status, job.worker) == (Status.RUNNING, request.worker), f"{job.id}: {job}"
        assert (job.lease_version, job.attempts) == (lease.version, lease.attempt), f"{lease}"
        by_task = (request.lease_seconds_by_task or {}).get(job.task)
        stored = step.before.settings.values.get("lease_seconds")
        stored_max = step.before.settings.values.get("lease_extension_max")
        seconds = (
            job.lease_seconds
            or by_task
            or request.lease_seconds
            or stored
            or LEASE_SECONDS_BUILT_IN
        )
        seconds = min(seconds, stored_max or EXTENSION_SECONDS_MAX)
        expires_at = step.now + timedelta(seconds=seconds)
        assert abs(lease.expires_at - expires_at) <= ROUNDING, f"{lease} should last {seconds} s"
        step.book.kept[job.id, lease.version] = LeasePromise(
            step.after.reading.awake / 1e6, seconds
        )
    return len(leases)


@rule("LEA-4")
def nothing_is_leased_before_it_is_due(step: JudgedCall) -> int:
    met = 0
    for lease in leases_of(step):
        job = step.before.jobs.get(lease.job_id)
        if job is not None and job.status in WAITING:
            assert job.run_at <= step.now, f"{job.id} is due at {job.run_at}"
            met += job.status is not Status.PENDING
    return met


@rule("LEA-5")
def nothing_is_leased_too_late(step: JudgedCall) -> int:
    met = 0
    for lease in leases_of(step):
        job = step.before.jobs.get(lease.job_id)
        if job is not None and job.start_by is not None and job.started_at is None:
            assert job.start_by >= step.now, f"{job.id} had to start by {job.start_by}"
            met += 1
    if step.method == "recover":
        # Who was freed by this very sweep, by a late job's end, is met by the next one.
        freed = {event.job_id for event in step.happened(Event.UNBLOCKED)}
        for job in step.after.jobs.values():
            if job.id in freed:
                continue
            late = job.status is Status.PENDING and is_late(job, step)
            assert not late or job.start_by == step.now, f"{job.id} waits in vain"
    return met


@rule("LEA-6")
def as_many_as_asked_for(step: JudgedCall) -> int:
    request = step.call.get("request")
    if request is None or not isinstance(step.answer, Exchange):
        return 0
    leases, again = leases_of(step), step.answer.next_due_at
    assert len(leases) <= request.limit, f"{len(leases)} leases"
    if request.free_slots is not None:
        return 0  # It may have to wait for a slot: STA-5.
    if len(leases) == request.limit or (again is not None and again <= step.now):
        return 0
    left = [job.id for job in step.after.jobs.values() if may_be_leased(job, step, request)]
    assert not left, f"{left} could have been leased"
    return 1


@rule("LIM-2")
def a_queue_runs_no_more_than_it_may(step: JudgedCall) -> int:
    met = 0
    for queue in {lease.queue for lease in leases_of(step)}:
        limit = step.before.info(queue).config.max_concurrency
        if limit is not None:
            running = len(step.after.of_queue(queue, Status.RUNNING))
            assert running <= limit, f"{running} jobs of {queue} run, {limit} may"
            met += 1
    return met


@rule("KEY-1")
def a_key_runs_no_more_than_it_may(step: JudgedCall) -> int:
    met = 0
    for lease in leases_of(step):
        job = step.after.jobs[lease.job_id]
        limit = step.before.info(job.queue).config.key_concurrency
        if limit is not None and job.limit_key is not None:
            running = running_of_key(step.after, job)
            assert running <= limit, f"{running} jobs of {job.limit_key} run, {limit} may"
            met += 1
    return met


@rule("QUE-4")
def nothing_is_leased_from_a_paused_queue(step: JudgedCall) -> int:
    closed = (QueueState.PAUSED, QueueState.DELETING)
    for lease in leases_of(step):
        state = step.before.info(lease.queue).state
        assert state not in closed, f"{lease.job_id} was leased while {lease.queue} was {state}"
    request = step.call.get("request")
    queues = () if request is None else request.queues
    known = step.before.queues
    return sum(queue in known and known[queue].state in closed for queue in queues)


@rule("BRK-1")
def a_task_that_is_held_back_is_not_leased(step: JudgedCall) -> int:
    met = 0
    for info in step.before.queues.values():
        for task, until in info.held_until.items():
            leased = [
                lease.job_id
                for lease in leases_of(step)
                if (lease.queue, lease.task) == (info.name, task)
            ]
            completed = any(
                step.after.jobs[event.job_id].task == task
                for event in step.happened(Event.COMPLETED)
            )
            if until > step.now and not completed:
                assert not leased, f"{leased} were leased while {task} was held back"
                met += 1
            elif not completed:
                assert len(leased) <= 1, f"{leased} were leased where one probe is"
    return met
