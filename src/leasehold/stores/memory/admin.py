"""What people do to jobs: cancel, replay, discard, reprioritize. Each call is one audit record."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.job import Job, priority_of
from leasehold.core.messages import replayed, reprioritized
from leasehold.core.refusals import no_job, not_ended, not_waiting
from leasehold.core.status import WAITING, Event, Status, check
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import dependents, inheritance
from leasehold.stores.memory.leasing import count_end
from leasehold.stores.memory.record import Record, snapshot
from leasehold.stores.memory.state import State


def cancel(
    state: State, job_ids: Sequence[str], reason: str, actor: str
) -> list[Job | LeaseholdError]:
    """Cancel waiting jobs at once, and ask the holders of running ones to stop."""

    def cancel_one(record: Record) -> Job:
        if record.status is Status.RUNNING:
            if record.cancel_requested is None:
                record.cancel_requested = reason
                record.updated_at = state.now
                state.tell(record, Event.CANCEL_REQUESTED, before=record.status, message=reason)
            if state.news is not None:
                state.news.cancel_requested.append(record.id)
        else:
            state.step(record, Event.CANCELLED, Status.CANCELLED, reason)
            record.reason = reason
            count_end(state, record, Event.CANCELLED)
        return snapshot(record)

    return _each(state, job_ids, cancel_one, "cancel", actor, reason=reason)


def replay(
    state: State, job_ids: Sequence[str], reset_attempts: bool, actor: str
) -> list[Job | LeaseholdError]:
    """Give dead or cancelled jobs another chance, dependencies before their dependents."""

    def replay_one(record: Record) -> Job:
        # Asked first: a refused replay must not have changed the allowance.
        check(Event.REPLAYED, record.status, Status.PENDING, record.id)
        waits_for = dependents.waits_again_for(state, record)
        if reset_attempts:
            record.attempts = 0
            record.allowance = record.draft.allowance
        else:
            record.allowance += 1
        record.run_at = state.now
        record.start_by = None
        record.reason = None
        record.ended_by = None
        message = replayed(actor, reset_attempts=reset_attempts)
        state.step(record, Event.REPLAYED, Status.BLOCKED if waits_for else Status.PENDING, message)
        if waits_for:
            state.links.block(record, waits_for)
            inheritance.raise_needed(state, [record])
        return snapshot(record)

    order = dependents.replay_order(state, job_ids)
    ordered = [job_ids[place] for place in order]
    answers = _each(state, ordered, replay_one, "replay", actor, reset_attempts=reset_attempts)
    at_place = dict(zip(order, answers, strict=True))
    return [at_place[place] for place in range(len(job_ids))]


def discard(state: State, job_ids: Sequence[str], actor: str) -> list[Job | LeaseholdError]:
    """Delete ended jobs with all their records."""

    def discard_one(record: Record) -> Job:
        if not record.status.is_terminal:
            raise not_ended(record.id, record.status)
        dependents.check_not_needed(state, record)
        last = snapshot(record)
        dependents.erase(state, record)
        return last

    return _each(state, job_ids, discard_one, "discard", actor)


def reprioritize(state: State, job_id: str, priority: int, actor: str) -> Job:
    """Change a waiting job's priority."""
    priority = priority_of(priority)
    record = _find(state, job_id)
    if record.status not in WAITING:
        raise not_waiting(job_id, record.status)
    message = reprioritized(record.priority, priority, actor)
    if record.status is Status.PENDING:
        state.queues[record.draft.queue].lanes.count_anew(record.priority, priority)
    record.priority = priority
    record.updated_at = state.now
    inheritance.reprioritized(state, record)
    state.tell(record, Event.REPRIORITIZED, before=record.status, message=message)
    state.note_action(actor, "reprioritize", {"jobs": [job_id], "priority": priority}, 1)
    return snapshot(record)


def _each(
    state: State,
    job_ids: Sequence[str],
    verb: Callable[[Record], Job],
    action: str,
    actor: str,
    **detail: str | bool,
) -> list[Job | LeaseholdError]:
    answers: list[Job | LeaseholdError] = []
    for job_id in job_ids:
        try:
            answers.append(verb(_find(state, job_id)))
        except LeaseholdError as error:
            answers.append(error)
    done = [answer.id for answer in answers if isinstance(answer, Job)]
    if done:
        # Enough ids to see what was meant; the number says how many there were.
        state.note_action(actor, action, {"jobs": done[:100], **detail}, len(done))
    return answers


def _find(state: State, job_id: str) -> Record:
    record = state.records.get(job_id)
    if record is None:
        raise no_job(job_id)
    return record
