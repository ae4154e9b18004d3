"""Rules of submits: all or nothing, ids, idempotency keys, defaults of queues and settings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.errors import IdempotencyConflictError, LeaseholdError, UnknownDependencyError
from leasehold.testing.soak.book import KeyInWindow
from leasehold.testing.soak.calls import SUBMIT_WITHIN
from leasehold.testing.soak.rules.base import JudgedCall, rule

KEY_WINDOW = timedelta(hours=24)


def is_submit(step: JudgedCall) -> bool:
    return step.method in ("submit", "submit_as", SUBMIT_WITHIN)


def answered(step: JudgedCall) -> Iterator[tuple[Draft, Submitted | LeaseholdError]]:
    """Each draft and its answer, of a submit that was not refused as a whole."""
    if is_submit(step) and isinstance(step.answer, list):
        yield from zip(step.call.get("drafts"), step.answer, strict=True)


def accepted(step: JudgedCall) -> Iterator[Draft]:
    """The drafts of which a job was made."""
    for draft, answer in answered(step):
        if isinstance(answer, Submitted) and not answer.is_duplicate:
            yield draft


@rule("SUB-1")
def all_or_nothing(step: JudgedCall) -> int:
    if not is_submit(step):
        return 0
    made = [draft.id for draft in accepted(step)]
    assert sorted(job.id for job in step.new) == sorted(made), f"stored are {step.new}"
    if isinstance(step.answer, list) and not step.call.get("partial"):
        errors = [each for each in step.answer if isinstance(each, Exception)]
        assert not errors, f"answered in part with {errors}"
    return int(step.refused) + len(made)


@rule("SUB-2")
def where_a_new_job_stands(step: JudgedCall) -> int:
    met = 0
    for draft, answer in answered(step):
        if not isinstance(answer, Submitted) or answer.is_duplicate:
            continue
        job = step.after.jobs[draft.id]
        expected = Status.PENDING if job.run_at <= step.now else Status.SCHEDULED
        assert answer.status is job.status, f"answered was {answer}"
        if not draft.depends_on:
            assert job.status is expected, f"{job.id} is {job.status} and due at {job.run_at}"
            met += 1
    return met


@rule("SUB-3")
def an_id_is_taken_once(step: JudgedCall) -> int:
    met = 0
    for draft, answer in answered(step):
        if draft.id in step.before.jobs:
            stored = isinstance(answer, Submitted) and not answer.is_duplicate
            assert not stored, f"{draft.id} was taken"
            met += 1
    return met


@rule("SUB-4")
def a_key_stands_for_one_job(step: JudgedCall) -> int:
    met = 0
    keys = step.book.keys
    for draft, answer in answered(step):
        name = (draft.queue, draft.idempotency_key or "")
        known = keys.get(name)
        if known is not None and known.expires_at <= step.now:
            known = None
        work = (draft.task, draft.payload, draft.codec)
        if isinstance(answer, IdempotencyConflictError):
            # Another draft of the call may have claimed it, and be refused for a dependency.
            others = [each for each, _ in answered(step) if each.id != draft.id]
            claimed = any((each.queue, each.idempotency_key) == name for each in others)
            assert known is not None or claimed, f"{name} was free, yet {answer}"
            assert known is None or known.work != work, f"{name} is of that work, yet {answer}"
            met += 1
        elif isinstance(answer, Submitted) and answer.is_duplicate:
            assert known is not None, f"{name} was free, yet {answer}"
            assert (known.job_id, known.work) == (answer.id, work), f"{known}, not {answer}"
            met += 1
        elif isinstance(answer, Submitted) and draft.idempotency_key is not None:
            assert known is None or step.book.clock_repaired, f"{name} stands for {known}"
            keys[name] = KeyInWindow(draft.id, work, step.now + KEY_WINDOW)
    return met


@rule("DIS-3")
def a_discarded_job_frees_its_key(step: JudgedCall) -> int:
    """Rule SUB-4 judges the next submit; a pruned job's key goes on answering for it (RET-6)."""
    if step.method not in ("discard", "order", "advance_operation", "purge_queue"):
        return 0
    freed = 0
    for job in step.gone:
        name = (job.queue, job.idempotency_key or "")
        known = step.book.keys.get(name)
        if known is not None and known.job_id == job.id:
            del step.book.keys[name]
            freed += 1
    return freed


@rule("LIM-6")
def defaults_come_from_the_queue_and_the_settings(step: JudgedCall) -> int:
    met = 0
    values = step.before.settings.values
    for draft in accepted(step):
        job = step.after.jobs[draft.id]
        config = step.before.info(draft.queue).config
        queue_retries = config.max_retries
        stored = values.get("max_retries")
        choices = [
            each for each in (draft.max_retries, queue_retries, stored, 3) if each is not None
        ]
        assert job.max_retries == choices[0], f"{job.id} has {job.max_retries} retries: {choices}"
        assert job.allowance == job.max_retries + 1, f"{job.id} has an allowance of {job.allowance}"
        lease_seconds = draft.lease_seconds or config.lease_seconds
        assert job.lease_seconds == lease_seconds, f"{job.id} has {job.lease_seconds} s"
        timeout = draft.timeout_seconds or values.get("timeout_seconds")
        assert job.timeout_seconds == timeout, f"{job.id} has {job.timeout_seconds} s"
        met += draft.max_retries is None
    return met


@rule("DEP-2")
def an_unknown_dependency_is_refused(step: JudgedCall) -> int:
    met = 0
    for draft, answer in answered(step):
        together = {each.id for each in step.call.get("drafts")}
        unknown = [
            each
            for each in draft.depends_on
            if each not in step.before.jobs and each not in together
        ]
        if unknown:
            stored = isinstance(answer, Submitted) and not answer.is_duplicate
            assert not stored, f"{draft.id} waits for {unknown}"
            met += isinstance(answer, UnknownDependencyError)
    return met
