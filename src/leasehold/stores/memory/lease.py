"""Lease: promote due jobs, then take the best available ones; `rules.leasing` says which."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PROMOTED_AT_ONCE
from leasehold.core.model.lease import Lease, LeaseRequest
from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.outcome import Complete, Fail, Outcome
from leasehold.core.model.span import WAIT_OF_PRIORITY
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.lease_lengths import LeaseLengths, LeaseTerm
from leasehold.core.rules.leasing import OpenLane, Verdict, Walk, open_lane
from leasehold.core.rules.messages import not_started_by
from leasehold.core.rules.queue_limits import free_slots
from leasehold.core.rules.starting import count_starts, free_starts, next_start_at
from leasehold.env import from_micros
from leasehold.stores.memory.heaps import Stream, in_order
from leasehold.stores.memory.lanes import Lanes
from leasehold.stores.memory.queue_record import MemoryQueue, OpenedQueue, StartBook
from leasehold.stores.memory.record import KeptAttempt, Record
from leasehold.stores.memory.state import State

# Enum members are slow to look up in Python 3.11, and these are used once or twice per job.
TAKE: Final = Verdict.TAKE
CANCEL: Final = Verdict.CANCEL
PARK: Final = Verdict.PARK
LEASED: Final = Event.LEASED
RUNNING: Final = Status.RUNNING
_CLOSED: Final = BreakerState()
_LEASED: Final = ("leased",)


def lease(state: State, request: LeaseRequest) -> tuple[list[Lease], bool]:
    """Take up to `limit` jobs; whether a budget was used up: there may be more."""
    opened: dict[str, OpenedQueue] = {}
    for name in request.queues:
        queue = state.queues.get(name)
        if queue is None or name in opened:
            continue
        lanes, rule = queue.lanes, queue.rule
        if lanes.delayed.entries:
            promote(state, queue)
        if lanes.crossing.entries or lanes.to_place or lanes.shelf is not None:
            _catch_up(lanes, state.now)
        free = UNLIMITED
        if rule is not None:
            slots = free_slots(rule.state, rule.config, queue.counts[Status.RUNNING])
            free = min(slots, free_starts(StartBook(state), name, rule.config))
        looked_into = opened[name] = queue.opened
        looked_into.free = looked_into.free_before = free
        looked_into.parked = ()
        if queue.breakers:
            looked_into.lanes = {}
        if request.parent_id is not None and looked_into.limits_keys and lanes.shelf is not None:
            looked_into.parked = lanes.shelf.some_of_group(request.parent_id)
    free_of_key = partial(_free_of_key, state)
    walk = Walk(
        state.now, request.limit, opened.values(), free_of_key, free_slots=request.free_slots
    )
    leases: list[Lease] = []
    # Each pass leaves out lanes that the previous one found closed by a breaker or a queue.
    while not walk.is_over and _pass(state, request, opened, walk, leases):
        pass
    if leases:
        _count_leased(state, request.worker, opened.values())
    may_be_more = walk.is_cut_short
    if request.parent_id is not None and not walk.is_cut_short:
        may_be_more = _goes_on(opened.values(), request.parent_id, took=bool(leases))
    cut_short = may_be_more and len(leases) < request.limit
    if cut_short:
        state.wake()
    return leases, cut_short


def _count_leased(state: State, worker: str, queues: Iterable[OpenedQueue]) -> None:
    for queue in queues:
        jobs = queue.free_before - queue.free
        if jobs:
            queue.state.totals.leased += jobs
            state.worked.did(worker, queue.name, _LEASED, state.now, jobs)


def _catch_up(lanes: Lanes, now: int) -> None:
    """Move jobs to where they belong by now, and show jobs of keys that may start again."""
    if lanes.lags:
        lanes.rebalance(now)
    if lanes.shelf is not None:
        lanes.shelf.wake_rested()


def _goes_on(queues: Iterable[OpenedQueue], parent_id: str, *, took: bool) -> bool:
    """Whether the next lease narrowed to this group has more keys to look at."""
    more = [
        queue.state.lanes.shelf.looked_at(parent_id, len(queue.parked), took=took)
        for queue in queues
        if queue.state.lanes.shelf is not None
    ]
    return any(more)


def _pass(
    state: State,
    request: LeaseRequest,
    queues: dict[str, OpenedQueue],
    walk: Walk,
    leases: list[Lease],
) -> bool:
    """Lease while the same tasks and queues are open; returns whether to continue without some."""
    parent_id = request.parent_id
    streams: list[Stream] = []
    for queue in queues.values():
        if queue.free:
            tasks = _tasks_asked_for(queue, request) if request.except_lanes else request.tasks
            if queue.state.breakers:
                tasks = _tasks_let_through(state, queue, tasks)
            streams += queue.state.lanes.streams_for(tasks, parent_id)
            if queue.parked:
                free_of_key = partial(walk.free_of_key, queue.name)
                streams += queue.state.lanes.parked_streams(tasks, queue.parked, free_of_key)
    now_micros, now, worker = state.now, from_micros(state.now), request.worker
    lengths = LeaseLengths(request, state.settings, now_micros)
    for record in in_order(streams, now_micros):
        draft = record.draft
        queue = queues[draft.queue]
        lane = _lane(state, queue, draft.task) if queue.state.breakers else queue.any_lane
        verdict = walk.judge(lane, record.start_by, record.lease_version, draft.limit_key)
        if verdict is TAKE:
            if queue.is_paced:
                assert queue.state.rule is not None
                config = queue.state.rule.config
                count_starts(StartBook(state), queue.name, config, (draft.limit_key,))
            length = lengths[draft.task, draft.lease_seconds]
            waits = queue.state.meter.measures[WAIT_OF_PRIORITY[record.priority]]
            waits.add(now_micros - record.available_at)
            leases.append(_grant(state, record, worker, now, length))
            if lane.probe is not None:
                queue.state.breakers[draft.task] = lane.probe.probed(now_micros)
        elif verdict is CANCEL:
            cancel_late(state, record)
        elif verdict is PARK:
            assert queue.state.lanes.shelf is not None
            queue.state.lanes.shelf.turn_away(record)
        else:
            return True
        if walk.is_over:
            return False
    return False


def _lane(state: State, queue: OpenedQueue, task: str) -> OpenLane:
    lane = queue.lanes.get(task)
    if lane is None:
        breaker = queue.state.breakers.get(task, _CLOSED)
        # Lanes that are held back were already left out.
        lane = queue.lanes[task] = open_lane(queue, task, breaker, state.now) or queue.any_lane
    return lane


def _free_of_key(state: State, queue: str, key: str) -> int:
    shelf = state.queues[queue].lanes.shelf
    return UNLIMITED if shelf is None else shelf.free_of(key)


def _tasks_asked_for(queue: OpenedQueue, request: LeaseRequest) -> tuple[str, ...]:
    """The requested tasks that have ready jobs."""
    return tuple(task for task in queue.state.lanes.tasks() if request.wants(queue.name, task))


def _tasks_let_through(
    state: State, queue: OpenedQueue, tasks: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The tasks that may be leased, or None for all of them."""
    breakers = queue.state.breakers
    held = {
        task for task, breaker in breakers.items() if breaker.next_probe_at(state.now) is not None
    }
    if not held:
        return tasks
    return tuple(
        task
        for task in queue.state.lanes.tasks()
        if task not in held and (tasks is None or task in tasks)
    )


def next_due(state: State, names: Iterable[str]) -> int | None:
    """When the next delayed job is due, or a task that is held back may be probed."""
    moments: list[int] = []
    for name in names:
        queue = state.queues.get(name)
        if queue is None:
            continue
        first = queue.lanes.delayed.first()
        moments += [] if first is None else [first[0]]
        waiting = queue.lanes.tasks() if queue.breakers else ()
        probes = [queue.breakers.get(task, _CLOSED).next_probe_at(state.now) for task in waiting]
        moments += [at for at in probes if at is not None]
        moments += _next_starts(state, name, queue)
    return min(moments, default=None)


def _next_starts(state: State, name: str, queue: MemoryQueue) -> list[int]:
    """When the next jobs of a queue and of its keys may start, if a start rate delays them."""
    rule, shelf = queue.rule, queue.lanes.shelf
    moments = [] if shelf is None else [shelf.next_moment()]
    if rule is not None and rule.state.is_leased_from and queue.counts[Status.PENDING]:
        moments.append(next_start_at(StartBook(state), name, rule.config))
    return [at for at in moments if at is not None]


def promote(state: State, queue: MemoryQueue, limit: int = PROMOTED_AT_ONCE) -> int:
    """Make a bounded number of the queue's due jobs pending; returns how many."""
    promoted = 0
    while promoted < limit:
        due = queue.lanes.delayed.first()
        if due is None or due[0] > state.now:
            break
        due[2].reason = None  # It no longer waits for anything.
        state.step(due[2], Event.PROMOTED, Status.PENDING)
        promoted += 1
    return promoted


def cancel_late(state: State, record: Record) -> None:
    """Cancel a job that was not started in time, with that reason."""
    assert record.start_by is not None
    state.end_waiting(record, Status.CANCELLED, not_started_by(from_micros(record.start_by)))


def tell_breaker(state: State, queue: MemoryQueue, task: str, outcome: Outcome) -> None:
    """Report the end of an attempt to its task's breaker."""
    breaker = queue.breakers.get(task, _CLOSED)
    if isinstance(outcome, Complete):
        if queue.breakers.pop(task, _CLOSED).held_until is not None:
            state.wake()
    elif isinstance(outcome, Fail) and outcome.breaker is not None:
        queue.breakers[task] = breaker.failed(outcome.breaker, state.now)


def _grant(state: State, record: Record, worker: str, now: datetime, length: LeaseTerm) -> Lease:
    draft, now_micros = record.draft, state.now
    version = record.lease_version
    if version < state.version_floor:
        version = state.version_floor
    record.lease_version = version = version + 1
    record.worker = worker
    record.attempts = attempt = record.attempts + 1
    record.acquired_at = record.heartbeat_at = now_micros
    record.expires_at = expires_at = now_micros + length.micros
    if record.moved_by:
        record.moved_by = 0
    if record.reason is not None:
        record.reason = None
    row = KeptAttempt(version, attempt, worker, now_micros)
    before = record.attempt_rows
    if before:
        record.attempt_rows = (*before, row)[-state.settings.attempt_records_max :]
    else:
        record.attempt_rows = (row,)
    state.step(record, LEASED, RUNNING, expires_at)
    return Lease(
        record.id,
        version,
        worker,
        draft.queue,
        draft.task,
        draft.payload,
        draft.codec,
        record.priority,
        attempt,
        record.allowance,
        now,
        length.expires_at,
        length.seconds,
        draft.timeout_seconds,
        draft.deadline,
        draft.retry,
        None if draft.metadata is None else dict(draft.metadata),
        draft.parent_id,
    )
