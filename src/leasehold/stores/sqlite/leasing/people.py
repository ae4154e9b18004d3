"""What people ask for: cancel, replay, discard, reprioritize. Each is audited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from leasehold.core.job import Job, priority_of
from leasehold.core.messages import replayed, reprioritized
from leasehold.core.refusals import no_job, not_ended, not_waiting
from leasehold.core.status import WAITING, Event, Status, check
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.keeping.erase import erase
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.leasing.finish import end_waiting
from leasehold.stores.sqlite.leasing.locate import Place, bump_events, locate, remove
from leasehold.stores.sqlite.leasing.settle import FIND_SEQ, JOB_RULES, enter_again
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.submitting import inheritance, linking
from leasehold.stores.sqlite.writing.step import Step

REQUEST_CANCEL: Final = "UPDATE running SET cancel_reason = ? WHERE seq = ?"
FULL_ALLOWANCE: Final = "UPDATE job SET allowance = max_retries + 1, start_by = NULL WHERE seq = ?"
ONE_MORE: Final = "UPDATE job SET allowance = allowance + 1, start_by = NULL WHERE seq = ?"
SET_PRIORITY: Final = "UPDATE job SET priority = ? WHERE seq = ?"
ADD_AUDIT: Final = "INSERT INTO audit (at, actor, action, count, detail) VALUES (?, ?, ?, ?, ?)"

Verb = Callable[[Step, int, Job, Place], None]


def for_each(
    step: Step, job_ids: Sequence[str], action: str, actor: str, verb: Verb, **detail: Any
) -> list[Job | LeaseholdError]:
    """Do something to each job; one answer each: the job as it is now (or last was), or an error.

    What was asked of many, or changes what had ended, leaves an audit record.
    """
    answers = [_one(step, job_id, verb, gone=action == "discard") for job_id in job_ids]
    done = [answer.id for answer in answers if isinstance(answer, Job)]
    if done:
        audit(step, actor, action, len(done), {"jobs": done[:100], **detail})
    return answers


def _one(step: Step, job_id: str, verb: Verb, *, gone: bool) -> Job | LeaseholdError:
    row = step.execute(FIND_SEQ, (job_id,)).fetchone()
    place = None if row is None else locate(step, row[0])
    if row is None or place is None:
        return no_job(job_id)
    job = read_job(step.db, job_id)
    assert job is not None
    try:
        verb(step, row[0], job, place)
    except LeaseholdError as error:
        return error
    return job if gone else read_job(step.db, job_id) or job


def cancel(reason: str) -> Verb:
    """Waiting jobs end at once; running ones are asked to stop."""

    def verb(step: Step, seq: int, job: Job, place: Place) -> None:
        if place.status is Status.RUNNING:
            if job.cancel_requested is None:
                step.execute(REQUEST_CANCEL, (reason, seq))
                n = bump_events(step, seq, place)
                step.record(
                    seq,
                    n,
                    Event.CANCEL_REQUESTED,
                    Status.RUNNING,
                    Status.RUNNING,
                    attempts=place.attempts,
                    worker=job.worker,
                    version=place.version,
                    message=reason,
                )
            step.hints.cancel_requested.append(job.id)
            return
        check(Event.CANCELLED, place.status, Status.CANCELLED, job.id)
        remove(step, seq, place)
        end_waiting(
            step,
            seq=seq,
            job_id=job.id,
            lane=_lane(step, seq),
            before=place.status,
            after=Status.CANCELLED,
            version=place.version,
            attempts=place.attempts,
            events=place.events,
            available_at=place.available_at,
            reason=reason,
        )

    return verb


def replay(actor: str, *, reset_attempts: bool) -> Verb:
    """Dead and cancelled jobs become pending again, or blocked by what they depend on."""

    def verb(step: Step, seq: int, job: Job, place: Place) -> None:
        check(Event.REPLAYED, place.status, Status.PENDING, job.id)
        waits_for = linking.waits_again_for(step, seq, job)
        after = Status.BLOCKED if waits_for else Status.PENDING
        remove(step, seq, place)
        attempts = 0 if reset_attempts else place.attempts
        step.execute(FULL_ALLOWANCE if reset_attempts else ONE_MORE, (seq,))
        lane = _lane(step, seq)
        n = place.events + 1
        if waits_for:
            linking.block_again(
                step, seq, waits_for, version=place.version, attempts=attempts, events=n
            )
        else:
            rules = _rules(step, seq)
            enter_again(step, seq, rules, version=place.version, attempts=attempts, events=n)
        message = replayed(actor, reset_attempts=reset_attempts)
        step.record(
            seq, n, Event.REPLAYED, place.status, after, attempts=attempts,
            version=place.version, message=message,
        )  # fmt: skip
        step.move(lane, place.status, after)
        step.hints.ready = True

    return verb


def replay_in_order(
    step: Step, job_ids: Sequence[str], actor: str, *, reset_attempts: bool
) -> list[Job | LeaseholdError]:
    """Replay each after those it depends on; the answers stand in the order of the ids."""
    order = linking.replay_order(step, job_ids)
    ordered = [job_ids[index] for index in order]
    verb = replay(actor, reset_attempts=reset_attempts)
    answers = for_each(step, ordered, "replay", actor, verb, reset_attempts=reset_attempts)
    at_index = dict(zip(order, answers, strict=True))
    return [at_index[index] for index in range(len(job_ids))]


def discard(step: Step, seq: int, job: Job, place: Place) -> None:
    """Delete a terminal job with all its records."""
    if not place.status.is_terminal:
        raise not_ended(job.id, place.status)
    linking.check_not_needed(step, seq, job.id)
    erase(step, seq)


def reprioritize(priority: int, actor: str) -> Verb:
    """A waiting job moves to its new place; nothing else about it changes."""
    priority = priority_of(priority)

    def verb(step: Step, seq: int, job: Job, place: Place) -> None:
        if place.status not in WAITING:
            raise not_waiting(job.id, place.status)
        n = bump_events(step, seq, place)
        standing = ready.find(step, seq)
        step.execute(SET_PRIORITY, (priority, seq))
        if standing is not None:
            ready.reprioritize(step, standing, priority)
        inheritance.reprioritized(step, seq, job.priority, priority)
        step.record(
            seq, n, Event.REPRIORITIZED, place.status, place.status,
            attempts=place.attempts, version=place.version,
            message=reprioritized(job.priority, priority, actor),
        )  # fmt: skip
        step.hints.ready = True

    return verb


def reprioritize_one(step: Step, job_id: str, priority: int, actor: str) -> Job:
    """Give one job another priority; raises what is wrong with that."""
    verb = reprioritize(priority, actor)
    (answer,) = for_each(step, (job_id,), "reprioritize", actor, verb, priority=priority)
    if isinstance(answer, LeaseholdError):
        raise answer
    return answer


def audit(step: Step, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
    """Write down an administrative action."""
    step.execute(ADD_AUDIT, (step.now, actor, action, count, msgspec.json.encode(detail).decode()))


def _lane(step: Step, seq: int) -> int:
    return int(_rules(step, seq)[0])


def _rules(step: Step, seq: int) -> tuple[Any, ...]:
    rules: tuple[Any, ...] | None = step.execute(JOB_RULES, (seq,)).fetchone()
    assert rules is not None
    return rules
