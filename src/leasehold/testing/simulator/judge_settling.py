"""Judges settlements, and the refusal of stale ones: S2, S5, S6 and S7."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear
from leasehold.core.model.status import Event, Status
from leasehold.errors import LeaseConflictError, LeaseExpiredError, LeaseLostError
from leasehold.testing.simulator.model import ENDED, Model, ModelJob, broken

ROUNDING: Final = timedelta(microseconds=2)


def judge_settlement(
    model: Model, settlement: Settlement, answer: Settled | LeaseLostError
) -> None:
    key = (settlement.job_id, settlement.version)
    job = held(model, *key)
    if job is None:
        before = model.settled.get(key)
        there = model.jobs.get(key[0])
        if before is not None and there is not None and _is_alike(settlement, there, *before):
            _judge_repeated(model, settlement, before[1], answer)
        else:
            judge_refusal(model, *key, answer)
        return
    if not isinstance(answer, Settled):
        raise broken("S5", job.id, f"the holder of the current lease was refused: {answer}")
    if job.expires_at is not None and job.expires_at <= model.now:
        model.seen["settled after expiry"] += 1
    event, status, attempts, earliest, latest = _verdict(job, settlement.outcome, model.now)
    if (answer.event, answer.status) != (event, status):
        raise broken("S2", job.id, f"{settlement.outcome} led to {answer}, not to {status}")
    if answer.attempts != attempts:
        raise broken("S6", job.id, f"{attempts} attempts should be spent, not {answer.attempts}")
    if earliest is not None:
        within = answer.run_at is not None and (
            earliest - ROUNDING <= answer.run_at <= latest + ROUNDING
        )
        if not within or answer.run_at is None:
            raise broken("S7", job.id, f"{answer.run_at} is not within {earliest} to {latest}")
        job.run_at = answer.run_at
    elif status is Status.PENDING:
        job.run_at = model.now
    job.attempts = attempts
    if event in (Event.FAILED, Event.DEAD):
        model.totals["failed"] += 1
        model.totals["retried"] += event is Event.FAILED
    model.settled[key] = (settlement.outcome, answer)
    model.move(job, event, status)


def _is_alike(settlement: Settlement, job: ModelJob, said: Outcome, answered: Settled) -> bool:
    """Whether an outcome may have led to the same end as an earlier one."""
    outcome = settlement.outcome
    if isinstance(outcome, Complete) and isinstance(said, Complete):
        is_kept = (job.status, job.version) == (Status.COMPLETED, settlement.version)
        return not is_kept or outcome.result == said.result
    if answered.status is Status.CANCELLED:
        return not isinstance(outcome, Complete)
    return type(outcome) is type(said)


def _judge_repeated(
    model: Model, settlement: Settlement, first: Settled, answer: Settled | LeaseLostError
) -> None:
    """A settlement that was accepted before is answered as it was then."""
    if not isinstance(answer, Settled):
        raise broken("S5", settlement.job_id, f"it was {first} before, and now {answer!r}")
    alike = msgspec.structs.replace(answer, run_at=first.run_at) == first
    if not alike or answer.run_at not in (first.run_at, None):
        raise broken("S2", settlement.job_id, f"it was {first} before, and now {answer}")
    model.seen["settled again"] += 1


def _verdict(
    job: ModelJob, outcome: Outcome, now: datetime
) -> tuple[Event, Status, int, datetime | None, datetime]:
    """The end that an outcome must lead to: event, status, attempts, and bounds of the next run."""
    spent, handed_back = job.attempts, job.attempts - 1
    if isinstance(outcome, Complete):
        return Event.COMPLETED, Status.COMPLETED, spent, None, now
    if isinstance(outcome, Cancel) or job.cancel_reason is not None:
        return Event.CANCELLED, Status.CANCELLED, spent, None, now
    if isinstance(outcome, Snooze):
        run_at = now + timedelta(seconds=outcome.seconds)
        return Event.SNOOZED, Status.SCHEDULED, handed_back, run_at, run_at
    if isinstance(outcome, Release):
        run_at = now + timedelta(seconds=outcome.delay_seconds)
        if outcome.delay_seconds == 0:
            return Event.RELEASED, Status.PENDING, handed_back, None, now
        return Event.RELEASED, Status.SCHEDULED, handed_back, run_at, run_at
    if not outcome.retryable or spent >= job.allowance:
        return Event.DEAD, Status.DEAD, spent, None, now
    least = most = outcome.retry_after_seconds
    if least is None or most is None:
        least, most = backoff_bounds(job.draft, spent)
    earliest, latest = now + timedelta(seconds=least), now + timedelta(seconds=most)
    return Event.FAILED, Status.FAILED, spent, earliest, latest


def backoff_bounds(draft: Draft, attempt: int) -> tuple[float, float]:
    """Between how many seconds the retry after this attempt may be put off."""
    policy = draft.retry or Exponential()
    if isinstance(policy, Constant):
        return policy.seconds, policy.seconds
    if isinstance(policy, Delays):
        delay = policy.seconds[min(attempt, len(policy.seconds)) - 1]
        return delay, delay
    if isinstance(policy, Linear):
        delay = policy.initial_seconds + policy.step_seconds * (attempt - 1)
        return min(delay, policy.cap_seconds), min(delay, policy.cap_seconds)
    delay = policy.initial_seconds * policy.factor ** (attempt - 1)
    return min(delay, policy.cap_seconds), min(delay * (1 + policy.jitter), policy.cap_seconds)


# -- the fence ---------------------------------------------------------------------------------


def held(model: Model, job_id: str, version: int) -> ModelJob | None:
    """The job, if it runs under this version."""
    job = model.jobs.get(job_id)
    if job is None or job.status is not Status.RUNNING or job.version != version:
        return None
    return job


def judge_refusal(
    model: Model, job_id: str, version: int, answer: object, *, tells: bool = True
) -> None:
    """A stale caller must be told so. `tells`: the history must say so too, not only may."""
    job = model.jobs.get(job_id)
    running = job is not None and job.status is Status.RUNNING
    if not isinstance(answer, LeaseLostError):
        promise = "S2" if job is not None and job.status in ENDED else "S5"
        raise broken(promise, job_id, f"version {version} is stale, yet the answer is {answer}")
    if isinstance(answer, LeaseConflictError) != running:
        raise broken("S5", job_id, f"refused with {answer!r}; running elsewhere: {running}")
    if isinstance(answer, LeaseExpiredError):
        raise broken("S5", job_id, f"version {version} is stale, not just expired: {answer!r}")
    model.seen["refused as stale"] += 1
    if job is not None:
        model.tell(job, Event.VERSION_MISMATCH, version, optional=not tells)
