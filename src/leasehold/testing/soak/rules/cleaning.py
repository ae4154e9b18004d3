"""Rules of clean-ups: only jobs that are old enough go, and they are archived."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import UNSET

from leasehold.core.model.job import Job
from leasehold.core.model.retention import PruneReport
from leasehold.core.model.status import Status
from leasehold.testing.soak.calls import CLEAN_UP
from leasehold.testing.soak.rules.base import JudgedCall, rule

_FIELDS = {
    Status.COMPLETED: "completed_seconds",
    Status.CANCELLED: "cancelled_seconds",
    Status.DEAD: "dead_seconds",
}


def cleans_up(step: JudgedCall) -> bool:
    return step.method in ("prune", CLEAN_UP) and isinstance(step.answer, PruneReport)


def kept_seconds(step: JudgedCall, job: Job) -> float | None:
    """How long a job is kept after its end; None for ever."""
    scope, policy = step.call.get("scope"), step.call.get("policy")
    if scope.emergency and (job.status is not Status.DEAD or scope.dead):
        return 0.0
    name = _FIELDS[job.status]
    own = step.before.info(job.queue).config.retention
    if own is not None and getattr(own, name) is not UNSET:
        seconds: Any = getattr(own, name)
        return None if seconds is None else float(seconds)
    if policy is not None:
        seconds = getattr(policy, name)
    else:
        seconds = step.before.settings.values[f"retention_{name}"]
    return None if seconds is None else float(seconds)


def is_old(step: JudgedCall, job: Job) -> bool:
    if not job.is_terminal or job.completed_at is None:
        return False
    seconds = kept_seconds(step, job)
    return seconds is not None and job.completed_at + timedelta(seconds=seconds) <= step.now


def is_needed(step: JudgedCall, job: Job) -> bool:
    return any(
        job.id in step.needs(each) and not each.is_terminal for each in step.before.jobs.values()
    )


@rule("RET-1")
def only_what_is_old_is_pruned(step: JudgedCall) -> int:
    if not cleans_up(step):
        return 0
    for job in step.gone:
        assert is_old(step, job), f"{job.id} was pruned: {job.status} since {job.completed_at}"
        assert not is_needed(step, job), f"{job.id} was pruned, and others need it"
    report, limit = step.answer, step.call.get("limit", 1000)
    assert len(step.gone) == report.pruned <= limit, f"{len(step.gone)} are gone: {report}"
    return len(step.gone)


@rule("RET-2")
def dead_letters_stay_unless_somebody_says_so(step: JudgedCall) -> int:
    if not cleans_up(step):
        return 0
    dead = [job for job in step.before.jobs.values() if job.status is Status.DEAD]
    kept = [job for job in dead if kept_seconds(step, job) is None]
    for job in kept:
        assert job.id in step.after.jobs, f"{job.id} was dead, and is gone"
    return len(kept)


@rule("RET-10")
def a_clean_up_that_is_over_has_left_nothing(step: JudgedCall) -> int:
    # A long clean-up may miss jobs that grow old meanwhile.
    whole = step.method == CLEAN_UP and step.call.get("policy") is not None
    if not whole or not cleans_up(step) or step.answer.run is None:
        return 0
    # Whether the first or the second job of an id is needed, its name does not say.
    left = [
        job.id
        for job in step.after.jobs.values()
        if job.id not in step.used_again and is_old(step, job) and not is_needed(step, job)
    ]
    assert not left, f"{left} are old, and the clean-up is over"
    return 1


@rule("RET-12")
def what_is_pruned_is_archived(step: JudgedCall) -> int:
    if not cleans_up(step):
        return 0
    for job in step.gone:
        kept = step.store.archived(job.id)
        assert kept is not None, f"{job.id} left no trace"
        told = (kept.task, kept.queue, kept.status, kept.attempts, kept.created_at, kept.parent_id)
        was = (job.task, job.queue, job.status, job.attempts, job.created_at, job.parent_id)
        assert told == was, f"the archive says {kept} of {job}"
    return len(step.gone)
