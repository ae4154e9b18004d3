"""Rules of people's orders, and that nothing ends without a cause."""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.outcome import Cancel, Fail
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.core.rules.operations import Advance
from leasehold.errors import InvalidJobError, InvalidTransitionError, JobNotFoundError
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.leasing import is_late
from leasehold.testing.soak.rules.settling import accepted

WAITING = (Status.PENDING, Status.SCHEDULED, Status.FAILED, Status.BLOCKED)
ENDED_BADLY = (Status.DEAD, Status.CANCELLED)


def ordered(step: JudgedCall, method: str) -> Iterator[tuple[str, Job | None, object]]:
    """The id, the job before and the answer, for each job of an order."""
    if step.method == method:
        for job_id, answer in zip(step.call.get("job_ids"), step.answer, strict=True):
            job = step.before.jobs.get(job_id)
            forgotten = isinstance(answer, JobNotFoundError) and job and step.may_forget(job)
            yield job_id, None if forgotten else job, answer


@rule("CAN-1")
def a_waiting_job_is_cancelled_at_once(step: JudgedCall) -> int:
    met = 0
    for job_id, job, _ in ordered(step, "cancel"):
        if job is not None and job.status in WAITING:
            after = step.after.jobs[job_id].status
            assert after in ENDED_BADLY, f"{job_id} is {after}"
            met += 1
    return met


@rule("CAN-2")
def a_running_job_is_asked_to_stop(step: JudgedCall) -> int:
    met = 0
    for job_id, job, _ in ordered(step, "cancel"):
        if job is not None and job.status is Status.RUNNING:
            after = step.after.jobs[job_id]
            reason = job.cancel_requested or step.call.get("reason")
            assert (after.status, after.cancel_requested) == (Status.RUNNING, reason), f"{after}"
            met += 1
    return met


@rule("CAN-3")
def what_has_ended_cannot_be_cancelled(step: JudgedCall) -> int:
    met = 0
    for job_id, job, answer in ordered(step, "cancel"):
        if job is None:
            assert isinstance(answer, JobNotFoundError), f"there is no {job_id}, yet {answer!r}"
            met += 1
        elif job.is_terminal:
            assert isinstance(answer, InvalidTransitionError), f"{job_id}: {answer!r}"
            met += 1
    return met


@rule("RPL-1")
def a_replayed_job_is_as_it_was(step: JudgedCall) -> int:
    met = 0
    for job_id, job, answer in ordered(step, "replay"):
        if job is None or not isinstance(answer, Job):
            continue
        after = step.after.jobs[job_id]
        assert job.status in ENDED_BADLY, f"{job_id} was {job.status}, and is replayed"
        kept = (after.payload_data, after.lease_version, after.start_by)
        assert kept == (job.payload_data, job.lease_version, None), f"{job_id} is {after}"
        step.book.replayed.add(job_id)
        met += 1
    return met


@rule("RPL-2")
def a_replayed_job_has_another_chance(step: JudgedCall) -> int:
    met = 0
    for job_id, job, answer in ordered(step, "replay"):
        if job is None or not isinstance(answer, Job):
            continue
        after = step.after.jobs[job_id]
        chances = (job.attempts, job.allowance + 1)
        if step.call.get("reset_attempts"):
            chances = (0, job.max_retries + 1)
        assert (after.attempts, after.allowance) == chances, f"{job_id} has {after}"
        met += 1
    return met


@rule("RPL-3")
def others_are_not_replayed(step: JudgedCall) -> int:
    met = 0
    for job_id, job, answer in ordered(step, "replay"):
        if job is None:
            assert isinstance(answer, JobNotFoundError), f"there is no {job_id}, yet {answer!r}"
        elif job.status not in ENDED_BADLY:
            assert isinstance(answer, InvalidTransitionError), f"{job_id} was {job.status}"
            met += 1
        elif not isinstance(answer, Job) and step.used_again.isdisjoint(job.depends_on):
            # DEP-6: it would wait for a dependency that has ended badly.
            bad = [
                each
                for each in step.needs(job)
                if each in step.before.jobs and step.before.jobs[each].status in ENDED_BADLY
            ]
            assert bad, f"{job_id} was {job.status}, yet {answer!r}"
            assert job.on_dependency_failure != "ignore", f"{job_id} ignores {bad}, yet {answer!r}"
            met += 1
    return met


@rule("DIS-1")
def only_what_has_ended_is_discarded(step: JudgedCall) -> int:
    met = 0
    for job_id, job, answer in ordered(step, "discard"):
        if job is None:
            assert isinstance(answer, JobNotFoundError), f"there is no {job_id}, yet {answer!r}"
            continue
        if job_id in step.used_again:
            continue
        needed = [
            each.id
            for each in step.before.jobs.values()
            if job_id in step.needs(each) and not each.is_terminal
        ]
        gone = job_id not in step.after.jobs
        assert gone == (job.is_terminal and not needed), f"{job.status}, needed by {needed}"
        assert gone == isinstance(answer, Job), f"{job_id} is gone: {gone}, yet {answer!r}"
        met += 1
    named = set(step.call.get("job_ids", ()))
    if step.method == "discard":
        sent_away = {job.id for job in step.gone if not step.may_forget(job)}
        assert sent_away <= named, f"{step.gone} are gone"
    return met


@rule("DEP-7")
def what_is_needed_stays(step: JudgedCall) -> int:
    """Rules DIS-1 and RET-1 say it of their own verbs; here it is said of all but a purge."""
    if step.is_purge:
        return 0
    gone = {job.id for job in step.gone}
    for job in step.after.jobs.values():
        missing = gone.intersection(step.needs(job))
        assert job.is_terminal or not missing, f"{job.id} depends on {missing}"
    return sum(not job.is_terminal and bool(job.depends_on) for job in step.after.jobs.values())


@rule("PRI-1")
def a_waiting_job_gets_its_priority(step: JudgedCall) -> int:
    if step.method != "reprioritize":
        return 0
    job_id, priority = step.call.get("job_id"), step.call.get("priority")
    job = step.before.jobs.get(job_id)
    if not 0 <= priority <= 100:
        assert isinstance(step.answer, InvalidJobError), f"{priority}: {step.answer!r}"
    elif job is None:
        assert isinstance(step.answer, JobNotFoundError), f"{step.answer!r}"
    elif job.status not in WAITING:
        assert isinstance(step.answer, InvalidTransitionError), f"{job.status}: {step.answer!r}"
    else:
        assert step.after.jobs[job_id].priority == priority, f"{step.after.jobs[job_id]}"
    return 1


# -- causes ------------------------------------------------------------------------------------


@rule("CAUSE")
def nothing_ends_without_a_cause(step: JudgedCall) -> int:
    ends = step.happened(Event.CANCELLED, Event.DEAD)
    for event in ends:
        caused = _is_ordered(step, event) or _is_by_its_holder(step, event)
        assert caused or _is_by_a_dependency(step, event), f"{event} has no cause"
    return len(ends)


def _is_ordered(step: JudgedCall, event: HistoryEvent) -> bool:
    """By a person, by its own time to live, or because its holder was lost."""
    if _is_by_an_operation(step, event):
        return True
    job = step.before.jobs.get(event.job_id) or step.after.jobs[event.job_id]
    if event.event is Event.DEAD:
        lost = (
            step.method in ("recover", "recover_one", "repair_clock")
            and event.before is Status.RUNNING
        )
        return lost or step.method == "delete_queue"
    return (
        event.job_id in step.call.get("job_ids", ())
        or isinstance(step.call.get("order"), CancelAll)
        or (job.cancel_requested is not None and event.before is Status.RUNNING)
        or (is_late(job, step) and event.before is not Status.RUNNING)
        # Before the clock is set back, late jobs are swept.
        or (step.method == "repair_clock" and job.start_by is not None)
    )


def _is_by_an_operation(step: JudgedCall, event: HistoryEvent) -> bool:
    """A part of an operation, or of an undo: who it was done to is told."""
    return isinstance(step.answer, Advance) and any(
        job.id == event.job_id for job in step.answer.jobs
    )


def _is_by_its_holder(step: JudgedCall, event: HistoryEvent) -> bool:
    kind = Cancel if event.event is Event.CANCELLED else Fail
    return any(
        settlement.job_id == event.job_id and isinstance(settlement.outcome, kind)
        for settlement, _ in accepted(step)
    )


def _is_by_a_dependency(step: JudgedCall, event: HistoryEvent) -> bool:
    job = step.after.jobs[event.job_id]
    wanted = Event.CANCELLED if job.on_dependency_failure == "cancel" else Event.DEAD
    if event.before is not Status.BLOCKED and event.event is wanted:
        return False
    named = event.message.partition("dependency ")[2].split(" ")[0]
    ended = step.after.jobs.get(named)
    needs = step.before.jobs[job.id].depends_on if job.id in step.before.jobs else job.depends_on
    return (
        event.event is wanted
        and job.on_dependency_failure != "ignore"
        and (named in needs or job.id not in step.before.jobs)
        and (ended is None or ended.status in ENDED_BADLY)
    )
