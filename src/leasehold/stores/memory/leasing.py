"""The exchange: settle what was run, and lease what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from leasehold.core.budget import (
    PASSED_OVER_AT_ONCE,
    PLACED_AT_ONCE,
    PROMOTED_AT_ONCE,
    TURNED_AWAY_AT_ONCE,
)
from leasehold.core.lease import Exchange, Lease, LeaseRequest, Settlement
from leasehold.core.limits import ATTEMPT_RECORDS_MAX
from leasehold.core.messages import not_started_by
from leasehold.core.status import Event, Status
from leasehold.env import from_micros
from leasehold.stores.memory import dependents
from leasehold.stores.memory.heaps import in_order
from leasehold.stores.memory.record import AttemptRow, Record, moment
from leasehold.stores.memory.schedules import fire_due
from leasehold.stores.memory.settling import settle
from leasehold.stores.memory.state import MemoryQueue, State


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
    settled = [settle(state, settlement, now) for settlement in settlements]
    if request is None:
        return Exchange(settled, [], settings_generation=generation, at=now)
    # First, since what was settled and what is due may make others available.
    if state.links.ended:
        dependents.resolve(state)
    if state.next_tick is not None:
        fire_due(state)
    names = request.queues if len(request.queues) == 1 else dict.fromkeys(request.queues)
    queues = [state.queues[name] for name in names if name in state.queues]
    for queue in queues:
        if queue.lanes.delayed.entries:
            promote(state, queue)
        if queue.lanes.crossing.entries:
            queue.lanes.rebalance(state.now, PLACED_AT_ONCE)
    found = _lease(state, request, queues, now, lease_micros)
    leases = found.leases
    tick_at = moment(state.next_tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation, now)
    delayed = filter(None, (queue.lanes.delayed.first() for queue in queues))
    moments = [entry[0] for entry in delayed]
    moments += [at for queue in queues for at in _probes_to_come(state, queue)]
    moments += [] if state.next_tick is None else [state.next_tick]
    if found.cut_short:
        moments.append(state.now)
        state.wake()
    return Exchange(settled, leases, moment(min(moments, default=None)), tick_at, generation, now)


# -- leasing -----------------------------------------------------------------------------------


def promote(state: State, queue: MemoryQueue, limit: int = PROMOTED_AT_ONCE) -> int:
    """Make the queue's due jobs pending, so many of them; answers how many."""
    promoted = 0
    while promoted < limit:
        due = queue.lanes.delayed.first()
        if due is None or due[0] > state.now:
            break
        due[2].reason = None  # It waits for nothing any more.
        state.step(due[2], Event.PROMOTED, Status.PENDING)
        promoted += 1
    return promoted


class _Round:
    """What one exchange has leased so far, and what it may still pass over."""

    __slots__ = ("leases", "limit", "passed_over_left", "turned_away_left")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.leases: list[Lease] = []
        self.passed_over_left = PASSED_OVER_AT_ONCE
        self.turned_away_left = TURNED_AWAY_AT_ONCE

    @property
    def is_full(self) -> bool:
        return len(self.leases) >= self.limit

    @property
    def cut_short(self) -> bool:
        """Whether to leave it at that for now: the next exchange goes on."""
        return self.passed_over_left <= 0 or self.turned_away_left <= 0


def _lease(
    state: State,
    request: LeaseRequest,
    queues: list[MemoryQueue],
    now: datetime,
    lease_micros: int,
) -> _Round:
    found = _Round(request.limit)
    # Each pass leaves out what the one before has found to be closed: a breaker or a queue.
    while not found.is_full and _pass(state, request, queues, now, lease_micros, found):
        pass
    return found


def _pass(
    state: State,
    request: LeaseRequest,
    queues: list[MemoryQueue],
    now: datetime,
    lease_micros: int,
    found: _Round,
) -> bool:
    """Lease while the same tasks and queues may be leased from; whether to go on without some."""
    streams = [
        stream
        for queue in queues
        if queue.rule is None or queue.rule.free_slots(queue.counts)
        for stream in queue.lanes.streams_for(
            _tasks_let_through(state, queue, request.tasks), request.parent_id
        )
    ]
    by_task = request.lease_seconds_by_task or {}
    for record in in_order(streams, state.now):
        if found.cut_short:
            return False
        if record.start_by is not None and record.start_by < state.now and not record.attempt_rows:
            cancel_late(state, record)
            found.passed_over_left -= 1
            continue
        queue = state.queues[record.draft.queue]
        parking, key = queue.lanes.parking, record.draft.limit_key
        if parking is not None and key is not None and not parking.free(key):
            parking.park(record)
            found.turned_away_left -= 1
            continue
        own = record.draft.lease_seconds or by_task.get(record.draft.task)
        micros = lease_micros if own is None else round(own * 1e6)
        found.leases.append(_grant(state, record, request.worker, now, micros))
        queue.meter.waits.add(state.now - record.available_at)
        breaker = queue.breakers.get(record.draft.task)
        was_probe = breaker is not None and breaker.held_until is not None
        if breaker is not None and was_probe:
            # That was the probe: the task waits for its end, or for another pause.
            breaker.held_until = state.now + breaker.hold_micros
        if was_probe or (queue.rule is not None and not queue.rule.free_slots(queue.counts)):
            return True
        if found.is_full:
            return False
    return False


def cancel_late(state: State, record: Record) -> None:
    """A job that was not started in time is cancelled, with that reason."""
    assert record.start_by is not None
    state.end_waiting(record, Status.CANCELLED, not_started_by(from_micros(record.start_by)))


# -- circuit breakers --------------------------------------------------------------------------


def _tasks_let_through(
    state: State, queue: MemoryQueue, tasks: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The tasks that may be leased, or None for all of them."""
    if not queue.breakers:
        return tasks
    held = {
        task
        for task, breaker in queue.breakers.items()
        if breaker.held_until is not None and breaker.held_until > state.now
    }
    if not held:
        return tasks
    return tuple(
        task
        for task in queue.lanes.tasks()
        if task not in held and (tasks is None or task in tasks)
    )


def _probes_to_come(state: State, queue: MemoryQueue) -> list[int]:
    waiting = set(queue.lanes.tasks()) if queue.breakers else ()
    return [
        breaker.held_until
        for task, breaker in queue.breakers.items()
        if breaker.held_until is not None and breaker.held_until > state.now and task in waiting
    ]


def _grant(state: State, record: Record, worker: str, now: datetime, micros: int) -> Lease:
    record.lease_version = version = max(record.lease_version, state.version_floor) + 1
    record.worker = worker
    record.attempts += 1
    record.started_at = record.acquired_at = record.heartbeat_at = state.now
    record.moved_by = 0
    record.expires_at = state.now + micros
    record.reason = None
    record.attempt_rows.append(AttemptRow(version, record.attempts, worker, state.now))
    if len(record.attempt_rows) > ATTEMPT_RECORDS_MAX:
        del record.attempt_rows[0]
    state.step(record, Event.LEASED, Status.RUNNING)
    return Lease(
        job_id=record.id,
        version=version,
        worker=worker,
        queue=record.draft.queue,
        task=record.draft.task,
        payload=record.draft.payload,
        codec=record.draft.codec,
        priority=record.priority,
        attempt=record.attempts,
        allowance=record.allowance,
        acquired_at=now,
        expires_at=from_micros(record.expires_at),
        lease_seconds=micros / 1e6,
        timeout_seconds=record.draft.timeout_seconds,
        deadline=record.draft.deadline,
        retry=record.draft.retry,
        metadata=None if record.draft.metadata is None else dict(record.draft.metadata),
        parent_id=record.draft.parent_id,
    )
