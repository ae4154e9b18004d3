"""Rules of what holders say: settlements, renewals, progress, logs; all fenced by the version."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.lease import Exchange, Renewed, Settled, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear, RetryPolicy
from leasehold.core.model.status import Event, Status
from leasehold.errors import (
    LeaseConflictError,
    LeaseExpiredError,
    LeaseholdError,
    LeaseLostError,
    PayloadError,
)
from leasehold.testing.soak.book import LeasePromise
from leasehold.testing.soak.calls import COMPLETE_WITHIN, STALE
from leasehold.testing.soak.observing import Snapshot
from leasehold.testing.soak.rules.base import JudgedCall, rule

ROUNDING = timedelta(microseconds=2)
EXTENSION_SECONDS_BUILT_IN = 24 * 3600.0
LINES_KEPT = 1000


def settlements_of(step: JudgedCall) -> list[tuple[Settlement, Settled | LeaseLostError]]:
    """Settlements and their answers, however they came."""
    if isinstance(step.answer, Exchange):
        return list(zip(step.call.get("settlements"), step.answer.settled, strict=True))
    if step.method == COMPLETE_WITHIN and step.answer not in (None, STALE):
        return [(step.call.get("settlement"), step.answer)]
    return []


def accepted(step: JudgedCall) -> list[tuple[Settlement, Settled]]:
    """The settlements that counted, with their answers: the first of each holder."""
    found: dict[tuple[str, int], tuple[Settlement, Settled]] = {}
    for settlement, answer in settlements_of(step):
        key = (settlement.job_id, settlement.version)
        if isinstance(answer, Settled) and holder_of(step.before, *key) is not None:
            found.setdefault(key, (settlement, answer))
    return list(found.values())


def holder_of(snapshot: Snapshot, job_id: str, version: int) -> Job | None:
    """The job, if it runs under this version."""
    job = snapshot.jobs.get(job_id)
    running = job is not None and job.status is Status.RUNNING and job.lease_version == version
    return job if running else None


@rule("SET-1")
def an_outcome_leads_where_it_must(step: JudgedCall) -> int:
    met, done = 0, set[tuple[str, int]]()
    for settlement, answer in settlements_of(step):
        key = (settlement.job_id, settlement.version)
        job = holder_of(step.before, *key)
        if job is None or key in done:
            continue
        done.add(key)
        assert isinstance(answer, Settled), f"the holder of {key} was refused: {answer}"
        event, status, attempts = _leads_to(job, settlement.outcome)
        assert (answer.event, answer.status) == (event, status), f"{settlement} led to {answer}"
        assert answer.attempts == attempts, f"{attempts} attempts are spent, not {answer.attempts}"
        earliest, latest = _again(job, settlement.outcome, event, step.now)
        if earliest is not None and latest is not None:
            assert answer.run_at is not None, f"{answer} does not say when"
            within = earliest - ROUNDING <= answer.run_at <= latest + ROUNDING
            assert within, f"{answer.run_at} is not from {earliest} to {latest}"
        met += 1
    return met


def _leads_to(job: Job, outcome: Outcome) -> tuple[Event, Status, int]:
    spent, handed_back = job.attempts, job.attempts - 1
    if isinstance(outcome, Complete):
        return Event.COMPLETED, Status.COMPLETED, spent
    if isinstance(outcome, Cancel) or job.cancel_requested is not None:
        return Event.CANCELLED, Status.CANCELLED, spent
    if isinstance(outcome, Snooze):
        return Event.SNOOZED, Status.SCHEDULED, handed_back
    if isinstance(outcome, Release):
        at_once = outcome.delay_seconds == 0
        return Event.RELEASED, Status.PENDING if at_once else Status.SCHEDULED, handed_back
    if not outcome.retryable or spent >= job.allowance:
        return Event.DEAD, Status.DEAD, spent
    return Event.FAILED, Status.FAILED, spent


def _again(
    job: Job, outcome: Outcome, event: Event, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Between which moments a job that waits may run again."""
    least = most = None
    if event is Event.SNOOZED and isinstance(outcome, Snooze):
        least = most = outcome.seconds
    elif event is Event.FAILED:
        after = getattr(outcome, "retry_after_seconds", None)
        least, most = backoff(job.retry, job.attempts) if after is None else (after, after)
    if least is None or most is None:
        return None, None
    return now + timedelta(seconds=least), now + timedelta(seconds=most)


def backoff(policy: RetryPolicy | None, attempt: int) -> tuple[float, float]:
    """Between how many seconds the retry after this attempt may be put off."""
    policy = policy or Exponential()
    if isinstance(policy, Constant):
        return policy.seconds, policy.seconds
    if isinstance(policy, Delays):
        delay = policy.seconds[min(attempt, len(policy.seconds)) - 1]
        return delay, delay
    if isinstance(policy, Linear):
        delay = min(
            policy.initial_seconds + policy.step_seconds * (attempt - 1), policy.cap_seconds
        )
        return delay, delay
    delay = policy.initial_seconds * policy.factor ** (attempt - 1)
    return min(delay, policy.cap_seconds), min(delay * (1 + policy.jitter), policy.cap_seconds)


@rule("SET-2")
def a_stale_holder_is_refused(step: JudgedCall) -> int:
    met, done = 0, set[tuple[str, int]]()
    for said in accepted(step):
        step.book.settled[said[0].job_id, said[0].version] = said
    for settlement, answer in settlements_of(step):
        key = (settlement.job_id, settlement.version)
        if holder_of(step.before, *key) is not None and key not in done:
            done.add(key)
        elif not _may_be_repeated(step, settlement):
            check_refusal(step, settlement.job_id, answer, settled=key in done)
            met += 1
    return met


def _may_be_repeated(step: JudgedCall, settlement: Settlement) -> bool:
    """Whether the holder said the same before; similar words are left to the other rule."""
    before = step.book.settled.get((settlement.job_id, settlement.version))
    if before is None:
        return False
    said, answered = before
    cancelled = answered.status is Status.CANCELLED and not isinstance(settlement.outcome, Complete)
    alike = type(said.outcome) is type(settlement.outcome)
    return cancelled or (alike and not _has_another_result(step, settlement))


def _has_another_result(step: JudgedCall, settlement: Settlement) -> bool:
    """Whether the job was completed by this holder, with a result that is kept and is not this."""
    job, outcome = step.after.jobs.get(settlement.job_id), settlement.outcome
    if job is None or not isinstance(outcome, Complete):
        return False
    completed = (job.status, job.lease_version) == (Status.COMPLETED, settlement.version)
    return completed and job.result_data not in (None, outcome.result)


def _may_have_lost_its_result(step: JudgedCall, settlement: Settlement) -> bool:
    job = step.after.jobs.get(settlement.job_id)
    return (
        job is not None
        and isinstance(settlement.outcome, Complete)
        and job.result_data is None
        and job.result_ttl_seconds is not None
    )


@rule("SET-7")
def a_repeated_settlement_is_answered_as_the_first_time(step: JudgedCall) -> int:
    met = 0
    for settlement, answer in settlements_of(step):
        key = (settlement.job_id, settlement.version)
        if holder_of(step.before, *key) is not None or not _may_be_repeated(step, settlement):
            continue
        if not any(each.lease_version == key[1] for each in step.store.attempts(key[0])):
            check_refusal(step, settlement.job_id, answer)
            continue
        if _may_have_lost_its_result(step, settlement):
            continue  # It was compared if the result is still there, which cannot be seen.
        _, first = step.book.settled[key]
        assert isinstance(answer, Settled), f"{settlement} was {first}, and now {answer!r}"
        again = msgspec.structs.replace(answer, run_at=first.run_at)
        assert again == first, f"{settlement} was {first}, and now {answer}"
        assert answer.run_at in (first.run_at, None), f"it was {first}, and now {answer}"
        met += 1
    return met


def check_refusal(step: JudgedCall, job_id: str, answer: object, *, settled: bool = False) -> None:
    """The answer must be the right error, and the history must tell of it."""
    assert isinstance(answer, LeaseLostError), f"stale for {job_id}, yet the answer is {answer}"
    assert not isinstance(answer, LeaseExpiredError), f"stale, not just expired: {answer!r}"
    job = step.before.jobs.get(job_id)
    if not settled and not any(
        each.job_id == job_id for each, given in settlements_of(step) if isinstance(given, Settled)
    ):
        running = job is not None and job.status is Status.RUNNING
        assert isinstance(answer, LeaseConflictError) == running, f"{job} runs, yet {answer!r}"
    if job is not None and job_id in step.after.jobs:
        told = [e for e in step.happened(Event.VERSION_MISMATCH) if e.job_id == job_id]
        # A history that a clean-up has dropped tells nothing any more.
        assert told or not step.store.history(job_id), (
            f"the history of {job_id} does not tell of it"
        )


@rule("REN-1")
def a_renewal_prolongs(step: JudgedCall) -> int:
    met = 0
    for renewal, answer in zip(step.call.get("renewals", ()), _answers(step), strict=True):
        job = holder_of(step.before, renewal.job_id, renewal.version)
        if job is None or not isinstance(answer, Renewed):
            continue
        assert job.lease_expires_at is not None
        assert job.lease_acquired_at is not None
        after = step.after.jobs[job.id].lease_expires_at
        assert after == answer.expires_at, f"{answer}, but the job says {after}"
        assert answer.cancel_requested == job.cancel_requested, f"{answer} hides a cancel request"
        stored = step.before.settings.values.get("lease_extension_max")
        most = timedelta(seconds=stored or EXTENSION_SECONDS_BUILT_IN)
        wished = step.now + timedelta(seconds=renewal.lease_seconds)
        if not step.book.clocks:
            assert job.lease_expires_at > step.now, f"{job.id} expired at {job.lease_expires_at}"
            until = max(job.lease_expires_at, min(wished, job.lease_acquired_at + most))
            assert abs(answer.expires_at - until) <= ROUNDING, f"{answer} should be until {until}"
        step.book.kept[job.id, renewal.version] = LeasePromise(
            step.after.reading.awake / 1e6, answer.granted_seconds
        )
        met += 1
    return met


@rule("REN-2")
def a_stale_renewal_is_refused(step: JudgedCall) -> int:
    met = 0
    for renewal, answer in zip(step.call.get("renewals", ()), _answers(step), strict=True):
        job = holder_of(step.before, renewal.job_id, renewal.version)
        if job is None:
            check_refusal(step, renewal.job_id, answer)
            met += 1
        elif not isinstance(answer, Renewed):
            assert isinstance(answer, LeaseExpiredError), f"the holder was refused: {answer!r}"
            assert job.lease_expires_at is not None
            assert job.lease_expires_at <= step.now, f"expired at {job.lease_expires_at}: {answer}"
            met += 1
    return met


def _answers(step: JudgedCall) -> list[object]:
    return step.answer if step.method == "renew" else []


@rule("PRO-1")
def progress_is_kept_for_the_holder(step: JudgedCall) -> int:
    if step.method != "report_progress" or isinstance(step.answer, PayloadError):
        return 0
    job_id, version = step.call.get("job_id"), step.call.get("version")
    if holder_of(step.before, job_id, version) is None:
        check_refusal(step, job_id, step.answer)
        return 1
    kept = step.after.jobs[job_id].progress
    assert kept == json.loads(step.call.get("progress")), f"kept is {kept}"
    return 1


@rule("LOG-1")
def lines_are_kept_for_the_holder(step: JudgedCall) -> int:
    for job in step.gone:
        step.book.lines.pop(job.id, None)
    if step.method == "log":
        lines = step.book.lines.get(step.call.get("job_id"), [])
        kept = step.answer.lines
        assert kept == lines[-LINES_KEPT:], f"{len(kept)} lines are kept of {len(lines)}"
        return 1
    if step.method != "append_log":
        return 0
    job_id = step.call.get("job_id")
    if isinstance(step.answer, LeaseholdError):
        assert holder_of(step.before, job_id, step.call.get("version")) is None, f"{step.answer!r}"
    else:
        step.book.lines.setdefault(job_id, []).extend(step.call.get("lines"))
    return 1
