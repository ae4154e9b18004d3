"""The ends of attempts: a decision about a running job is written to its record."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.failure import FailedAttempt
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, within_limits
from leasehold.core.model.span import RETRY_ATTEMPT_MAX, Measure
from leasehold.core.model.status import Status
from leasehold.core.rules import failures
from leasehold.core.rules.decision import Decision, completed, decide
from leasehold.core.rules.fence import is_held, settle_stale
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.memory.holding import Histories
from leasehold.stores.memory.lease import tell_breaker
from leasehold.stores.memory.record import FailureCount, Record
from leasehold.stores.memory.state import State

# Enum members are slow to look up in Python 3.11, and these are used once per job.
RUN: Final = Measure.RUN
NO_RUN: Final = Measure.NO_RUN
RETRY: Final = Measure.RETRY
FAILED: Final = Status.FAILED
PENDING: Final = Status.PENDING


def settle(state: State, settlement: Settlement) -> Settled | LeaseLostError:
    """Settle a job that is still held, or refuse its former holder."""
    record = state.records.get(settlement.job_id)
    if record is None or not is_held(record, settlement.version):
        return settle_stale(Histories(state), settlement)
    outcome = within_limits(settlement.outcome, settlement.job_id)
    draft = record.draft
    queue = state.queues[draft.queue]
    if type(outcome) is Complete:
        if queue.breakers:
            tell_breaker(state, queue, draft.task, outcome)
        record.result = outcome.result
        record.result_codec = outcome.codec
        record.attempt_rows[-1].note = outcome.note
        return end_attempt(state, record, completed(record.attempts))
    decision = decide(
        outcome,
        attempts=record.attempts,
        allowance=record.allowance,
        policy=draft.retry,
        cancel_reason=record.cancel_requested,
        now=from_micros(state.now),
        random=state.random,
    )
    if queue.breakers or type(outcome) is Fail:
        tell_breaker(state, queue, draft.task, outcome)
    return end_attempt(state, record, decision)


def note_failure(record: Record, now: int) -> None:
    """Count a failed attempt; the job keeps the count longer than the attempt's record."""
    if record.failures is None:
        record.failures = FailureCount(0, now, now)
    record.failures.count += 1
    record.failures.last_at = now


def end_attempt(
    state: State, record: Record, decision: Decision, *, checkpoint: bool = False
) -> Settled:
    """Close the running attempt's record and apply the decision to the job.

    The record of a lost attempt is a checkpoint: it has the state of its lease.
    """
    row, now, queue = record.attempt_rows[-1], state.now, record.draft.queue
    row.ended_at = now
    row.outcome = decision.event
    row.message = decision.message
    if checkpoint:
        row.expires_at = record.expires_at
        row.heartbeat_at = record.heartbeat_at
    if decision.run_at is not None:
        record.available_at = to_micros(decision.run_at)
    elif decision.status is PENDING:
        record.available_at = now
    measures = state.queues[queue].meter.measures
    measures[RUN if decision.has_run else NO_RUN].add(now - record.acquired_at)
    if decision.status is FAILED:
        measures[RETRY].count(min(decision.attempts, RETRY_ATTEMPT_MAX))
    if decision.error is not None:
        row.error = record.error = decision.error
        if decision.is_failure:
            note_failure(record, now)
            failed = FailedAttempt(queue, record.draft.task, record.id, decision.error)
            failures.note(state.failures, [failed], from_micros(now))
    state.worked.did(row.worker, queue, decision.totals, now)
    state.follow(record, decision)
    return Settled(
        record.id,
        record.lease_version,
        decision.event,
        decision.status,
        decision.attempts,
        decision.run_at,
    )
