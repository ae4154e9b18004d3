"""The exchange: settle what was run, and lease what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from leasehold.core.lease import (
    Exchange,
    LeaseRequest,
    Settled,
    Settlement,
)
from leasehold.core.outcome import (
    Complete,
    Decision,
    Fail,
    JobError,
    decide,
    reason_after,
    within_limits,
)
from leasehold.core.status import Event, Status
from leasehold.env import from_micros, to_micros
from leasehold.errors import (
    LeaseLostError,
)
from leasehold.stores.memory import dependents
from leasehold.stores.memory.holding import held, mismatch
from leasehold.stores.memory.lease import lease, next_due, tell_breaker
from leasehold.stores.memory.record import Record, moment
from leasehold.stores.memory.schedules import fire_due
from leasehold.stores.memory.state import State


def exchange(
    state: State, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle what was run, then lease what comes next."""
    # Worked out first: a lease time that is not a number must fail before anything is settled.
    generation = state.settings.generation
    lease_micros = (
        0
        if request is None
        else round((request.lease_seconds or state.settings.lease_seconds) * 1e6)
    )
    now = from_micros(state.now)
    settled = [_settle(state, settlement, now) for settlement in settlements]
    if request is None:
        return Exchange(settled, [], settings_generation=generation)
    # First, since what was settled and what is due may make others available.
    if state.links.ended:
        dependents.resolve(state)
    if state.next_tick is not None:
        fire_due(state)
    names = request.queues if len(request.queues) == 1 else dict.fromkeys(request.queues)
    queues = [name for name in names if name in state.queues]
    leases, cut_short = lease(state, request, queues, now, lease_micros)
    tick_at = moment(state.next_tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation)
    moments = [state.now] if cut_short else next_due(state, queues)
    moments += [] if state.next_tick is None else [state.next_tick]
    return Exchange(settled, leases, moment(min(moments, default=None)), tick_at, generation)


# -- settling ----------------------------------------------------------------------------------


def _settle(state: State, settlement: Settlement, now: datetime) -> Settled | LeaseLostError:
    record = held(state, settlement.job_id, settlement.version)
    if isinstance(record, LeaseLostError):
        mismatch(state, settlement.job_id, settlement.version)
        return record
    outcome = within_limits(settlement.outcome, settlement.job_id)
    decision = decide(
        outcome,
        attempts=record.attempts,
        allowance=record.allowance,
        policy=record.draft.retry,
        cancel_reason=record.cancel_requested,
        now=now,
        random=state.random,
    )
    queue = state.queues[record.draft.queue]
    totals = queue.totals
    if queue.breakers or type(outcome) is Fail:
        tell_breaker(state, queue, record.draft.task, outcome)
    if decision.event is Event.COMPLETED:
        assert isinstance(outcome, Complete)
        record.result = outcome.result
        record.result_codec = outcome.codec
        totals.completed += 1
        queue.figures.runs.add(state.now - record.acquired_at)
    elif decision.event in (Event.FAILED, Event.DEAD):
        totals.failed += 1
        queue.figures.runs.add(state.now - record.acquired_at)
        totals.retried += decision.event is Event.FAILED
    error = outcome.error if isinstance(outcome, Fail) else None
    end_attempt(state, record, decision, error, outcome.note if type(outcome) is Complete else None)
    return Settled(
        record.id,
        settlement.version,
        decision.event,
        decision.status,
        decision.attempts,
        decision.run_at,
    )


def end_attempt(
    state: State,
    record: Record,
    decision: Decision,
    error: JobError | None,
    note: bytes | None = None,
    *,
    checkpoint: bool = False,
) -> None:
    """Close the running attempt's record and take the job where the decision says.

    The record of a lost one is a checkpoint: it tells how its lease stood.
    """
    row = record.attempt_rows[-1]
    row.ended_at = state.now
    row.outcome = decision.event
    row.error = error
    row.message = decision.message
    row.note = note
    if checkpoint:
        row.expires_at = record.expires_at
        row.heartbeat_at = record.heartbeat_at
    record.attempts = decision.attempts
    record.error = error or record.error
    record.reason = reason_after(decision)
    if decision.run_at is not None:
        record.run_at = to_micros(decision.run_at)
    elif decision.status is Status.PENDING:
        record.run_at = state.now
    count_end(state, record, decision.event)
    state.step(record, decision.event, decision.status, decision.message)


def count_end(state: State, record: Record, event: Event) -> None:
    """Keep the totals of jobs that were stopped, wherever they stood."""
    totals = state.queues[record.draft.queue].totals
    totals.dead += event is Event.DEAD
    totals.cancelled += event is Event.CANCELLED
