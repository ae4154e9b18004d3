"""Judges what producers and people were answered: S1, S10, S11 and S13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.records import Stats, Submitted
from leasehold.core.model.status import Event, Status
from leasehold.errors import (
    DuplicateJobError,
    IdempotencyConflictError,
    InvalidJobError,
    InvalidTransitionError,
    JobNotFoundError,
    LeaseholdError,
)
from leasehold.testing.simulator.model import ENDED, WAITING, Model, ModelJob, broken

Answers = Sequence[Job | LeaseholdError]


def judge_submit(
    model: Model,
    answer: Sequence[Submitted | LeaseholdError] | LeaseholdError,
    drafts: Sequence[Draft],
    partial: bool,
) -> None:
    expected = _admit(model, drafts)
    errors = {each for each in expected if isinstance(each, type)}
    if isinstance(answer, LeaseholdError):
        if partial or type(answer) not in errors:
            raise broken("S1", drafts[0].id, f"refused with {answer!r}, expected {errors}")
        model.seen["batch refused as a whole"] += len(drafts) > 1
        return
    if errors and not partial:
        raise broken("S1", drafts[0].id, f"{errors} should have stopped the whole batch")
    for draft, wanted, got in zip(drafts, expected, answer, strict=True):
        if isinstance(wanted, type):
            if type(got) is not wanted:
                raise broken("S10", draft.id, f"answered {got!r} instead of {wanted.__name__}")
        elif not isinstance(got, Submitted) or (got.id, got.is_duplicate) != wanted:
            raise broken("S10", draft.id, f"answered {got!r} instead of {wanted}")
        elif got.is_duplicate:
            model.seen["duplicate found by its key"] += 1
        else:
            model.add(draft)
            if got.status is not model.jobs[draft.id].status:
                raise broken("S7", draft.id, f"submitted as {got.status}")


def _admit(model: Model, drafts: Sequence[Draft]) -> list[type[LeaseholdError] | tuple[str, bool]]:
    """For each draft its error, or the id of its job and whether that was there before."""
    new: dict[str, Draft] = {}
    keys: dict[tuple[str, str], Draft] = {}
    expected: list[type[LeaseholdError] | tuple[str, bool]] = []
    for draft in drafts:
        known = model.key_of(draft) if draft.idempotency_key is not None else None
        same = keys.get((draft.queue, draft.idempotency_key or ""))
        work = (draft.task, draft.payload, draft.codec)
        if draft.priority > 100:
            expected.append(InvalidJobError)
        elif known is not None or same is not None:
            first = known.work if known else (same.task, same.payload, same.codec) if same else work
            job_id = known.job_id if known else same.id if same else draft.id
            expected.append((job_id, True) if first == work else IdempotencyConflictError)
        elif draft.id in model.jobs or draft.id in new:
            expected.append(DuplicateJobError)
        else:
            new[draft.id] = draft
            if draft.idempotency_key is not None:
                keys[draft.queue, draft.idempotency_key] = draft
            expected.append((draft.id, False))
    return expected


# -- people ------------------------------------------------------------------------------------


def judge_cancel(
    model: Model, answers: Answers, job_ids: Sequence[str], reason: str, **_: Any
) -> None:
    def cancel(job: ModelJob) -> None:
        if job.status is not Status.RUNNING:
            model.move(job, Event.CANCELLED, Status.CANCELLED)
        elif job.cancel_reason is None:
            job.cancel_reason = reason
            model.tell(job, Event.CANCEL_REQUESTED)

    _each(model, answers, job_ids, "S13", (*WAITING, Status.RUNNING), cancel)


def judge_replay(
    model: Model, answers: Answers, job_ids: Sequence[str], reset_attempts: bool, **_: Any
) -> None:
    def replay(job: ModelJob) -> None:
        if reset_attempts:
            job.attempts = 0
            job.allowance = job.draft.allowance
        else:
            job.allowance += 1
        job.run_at = model.now
        job.start_by = None
        model.move(job, Event.REPLAYED, Status.PENDING)

    _each(model, answers, job_ids, "S2", (Status.DEAD, Status.CANCELLED), replay)


def judge_discard(model: Model, answers: Answers, job_ids: Sequence[str], **_: Any) -> None:
    def discard(job: ModelJob) -> None:
        del model.jobs[job.id]
        model.discarded.add(job.id)
        model.totals["cleaned"] += 1
        model.seen["discarded"] += 1
        key = (job.draft.queue, job.draft.idempotency_key or "")
        if key in model.keys and model.keys[key].job_id == job.id:
            del model.keys[key]

    _each(model, answers, job_ids, "S1", ENDED, discard)


def judge_reprioritize(
    model: Model, answer: Job | LeaseholdError, job_id: str, priority: int, **_: Any
) -> None:
    def reprioritize(job: ModelJob) -> None:
        job.priority = priority
        model.tell(job, Event.REPRIORITIZED)

    _each(model, [answer], [job_id], "S9", WAITING, reprioritize)


def _each(
    model: Model,
    answers: Answers,
    job_ids: Sequence[str],
    promise: str,
    allowed: Sequence[Status],
    change: Callable[[ModelJob], None],
) -> None:
    """One answer per id: the job after the change, or the right error."""
    for job_id, answer in zip(job_ids, answers, strict=True):
        job = model.jobs.get(job_id)
        if job is None:
            if not isinstance(answer, JobNotFoundError):
                raise broken(promise, job_id, f"there is no such job, yet the answer is {answer!r}")
            continue
        accepted = isinstance(answer, Job)
        if job.may_be_late(model.now) and accepted != (job.status in allowed):
            model.reveal_late(job)
        if accepted != (job.status in allowed):
            raise broken(promise, job_id, f"it is {job.status}, yet the answer is {answer!r}")
        if not accepted and not isinstance(answer, InvalidTransitionError):
            raise broken(promise, job_id, f"refused with the wrong error: {answer!r}")
        if isinstance(answer, Job):
            change(job)
            if job_id in model.jobs:
                judge_job(model, job, answer)


# -- reading -----------------------------------------------------------------------------------


def judge_get(model: Model, answer: Job | None, job_id: str) -> None:
    job = model.jobs.get(job_id)
    if (job is None) != (answer is None):
        raise broken("S1", job_id, f"should be {job}, but the store says {answer}")
    if job is not None and answer is not None:
        judge_job(model, job, answer)


def judge_job(model: Model, job: ModelJob, answer: Job) -> None:
    """Whether a snapshot is the expected job."""
    if answer.status is not job.status and answer.status in job.possible(model.now):
        if answer.status is Status.CANCELLED:
            model.reveal_late(job)
        else:
            job.status = answer.status  # promoted
    expected = {
        "status": job.status,
        "attempts": job.attempts,
        "allowance": job.allowance,
        "lease_version": job.version,
        "priority": job.priority,
        "payload_data": job.draft.payload,
        "queue": job.draft.queue,
        "cancel_requested": job.cancel_reason,
        "worker": job.worker if job.status is Status.RUNNING else None,
    }
    if job.status is Status.RUNNING:
        expected["lease_expires_at"] = job.expires_at
    wrong = {
        name: (getattr(answer, name), value)
        for name, value in expected.items()
        if getattr(answer, name) != value
    }
    if wrong:
        raise broken("S5", job.id, f"is, and should be: {wrong}")


def judge_stats(model: Model, answer: Stats, queue: str | None) -> None:
    jobs = [job for job in model.jobs.values() if queue in (None, job.draft.queue)]
    for status in (Status.RUNNING, Status.COMPLETED, Status.DEAD):
        count = sum(job.status is status for job in jobs)
        if answer.counts.get(status, 0) != count:
            raise broken("STATS", None, f"{count} jobs are {status}, the store counts {answer}")
    if sum(answer.counts.values()) != len(jobs):
        raise broken("STATS", None, f"there are {len(jobs)} jobs, the store counts {answer}")
