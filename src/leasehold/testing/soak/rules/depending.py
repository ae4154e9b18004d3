"""Rules of dependencies: no job waits in vain, or goes first; dependents lend their priority."""

from __future__ import annotations

from leasehold.core.model.job import Job
from leasehold.core.model.status import Event, Status
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.ordering import ENDED_BADLY


def _is_satisfied(dependency: Job | None, waiting: Job) -> bool:
    """Whether this dependency blocks nothing: completed, gone, or its bad end is ignored."""
    if dependency is None or dependency.status is Status.COMPLETED:
        return True
    return dependency.status in ENDED_BADLY and waiting.on_dependency_failure == "ignore"


@rule("DEP-1")
def nobody_stays_blocked_for_nothing(step: JudgedCall) -> int:
    met = 0
    jobs = step.after.jobs
    for job in jobs.values():
        if job.status is Status.BLOCKED:
            left = [each for each in step.needs(job) if not _is_satisfied(jobs.get(each), job)]
            unknown = len(step.needs(job)) < len(job.depends_on)
            assert left or unknown, f"{job.id} is blocked, and {job.depends_on} are all done"
            met += 1
    for event in step.events:
        if event.event is Event.UNBLOCKED or (
            event.event is Event.CREATED and event.after is not Status.BLOCKED
        ):
            job = jobs[event.job_id]
            ignored = job.is_terminal or job.id in step.book.replayed
            left = [each for each in step.needs(job) if not _is_satisfied(jobs.get(each), job)]
            left = [each for each in left if each not in step.book.replayed]
            assert ignored or not left, f"{job.id} goes on while {left} have not ended"
            met += bool(job.depends_on)
    return met


@rule("DEP-4")
def a_bad_end_is_told_to_all_that_wait(step: JudgedCall) -> int:
    met = 0
    for job in step.after.jobs.values():
        if job.status is not Status.BLOCKED or job.on_dependency_failure == "ignore":
            continue
        for each in step.needs(job):
            needed = step.after.jobs.get(each)
            bad = needed is not None and needed.status in ENDED_BADLY
            assert not bad, f"{job.id} still waits for {each}, which has ended badly"
            met += 1
    for event in step.happened(Event.CANCELLED, Event.DEAD):
        if event.before is Status.BLOCKED and event.message.startswith("dependency"):
            job = step.after.jobs[event.job_id]
            assert job.reason == event.message, f"{job.id} gives {job.reason!r} as its reason"
            met += 1
    return met


@rule("INH-1")
def a_job_counts_with_the_priority_of_those_that_wait_for_it(step: JudgedCall) -> int:
    jobs = step.after.jobs
    waiting = [job for job in jobs.values() if job.status is Status.BLOCKED]
    # Who was submitted when a dependency had ended does not wait for it once that is replayed.
    replayed = step.book.replayed or step.happened(Event.REPLAYED)
    if not waiting or replayed or step.used_again:
        return 0
    bases: dict[str, int] = {job.id: job.priority for job in jobs.values() if not job.is_terminal}
    for _ in range(len(waiting)):
        for job in waiting:
            for each in step.needs(job):
                if each in bases:
                    bases[each] = max(bases[each], bases[job.id])
    met = 0
    for job_id, base in bases.items():
        job = jobs[job_id]
        if job.status is not Status.RUNNING:
            raised = base if base > job.priority else None
            assert job.inherited_priority == raised, (
                f"{job_id} has {job.inherited_priority} from others, not {raised}"
            )
            met += raised is not None
    return met
