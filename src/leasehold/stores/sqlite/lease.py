"""Lease: promote what is due, then take the best available jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from leasehold.core.lease import Lease, LeaseRequest
from leasehold.core.messages import not_started_by
from leasehold.core.priority import DEFAULT_SCORING, Scoring, default_tier
from leasehold.core.retry import RetryPolicy
from leasehold.core.status import Status
from leasehold.env import from_micros
from leasehold.stores.sqlite import parking, ready
from leasehold.stores.sqlite.finish import end_waiting
from leasehold.stores.sqlite.key_slots import KEY, KeySlots
from leasehold.stores.sqlite.order import Lane, Row, for_leasing, for_leasing_in_group, in_order
from leasehold.stores.sqlite.ready import Entry
from leasehold.stores.sqlite.rebalance import rebalance
from leasehold.stores.sqlite.slots import free_slots
from leasehold.stores.sqlite.step import Step

PROMOTE_AT_ONCE: Final = 2000
"""So that a burst of due jobs does not hold the write lock for long; the next lease goes on."""

# A due job moves from waiting to ready, and its history says so. Guard: due, not blocked.
FIND_DUE: Final = """
    SELECT waiting.seq, waiting.status, due, version, attempts, events + 1, lane, priority,
           parent_id, created_at, deadline,
           coalesce((SELECT base FROM raised WHERE raised.seq = waiting.seq), priority)
    FROM waiting JOIN job USING (seq) WHERE due <= ? ORDER BY due LIMIT ?
"""
FORGET_WAITING: Final = "DELETE FROM waiting WHERE seq = ?"
RECORD_PROMOTED: Final = "INSERT INTO event VALUES (?, ?, ?, 1, ?, 2, ?, NULL, ?, NULL)"
NEXT_DUE: Final = "SELECT min(due) FROM waiting WHERE due IS NOT NULL"
# One whose time has come is available; if nobody took it, its queue is paused or full.
NEXT_PROBE: Final = "SELECT min(held_until) FROM lane WHERE pending > 0 AND held_until > ?"

LANES_WITH_WORK: Final = """
    SELECT id, queue, task, held_until, hold_micros FROM lane WHERE queue = ? AND pending > 0
"""
HOLD: Final = "UPDATE lane SET held_until = ?, hold_micros = ? WHERE id = ?"
GRANT: Final = "INSERT INTO running VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0)"

_HOME: Final = 22
"""The position of a job's own lane in a row; a parked one stands in another."""

_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode
_decode_retry = msgspec.json.Decoder(RetryPolicy).decode


def promote(step: Step) -> int:
    """Make due jobs pending; answers how many it found (at most PROMOTE_AT_ONCE)."""
    due: list[tuple[Any, ...]] = step.execute(FIND_DUE, (step.now, PROMOTE_AT_ONCE)).fetchall()
    if not due:
        return 0
    entries, events = [], []
    for seq, status, due_at, version, attempts, n, lane, priority, parent, *rest in due:
        created_at, deadline, base = rest
        state = (version, attempts, n, due_at, created_at, deadline, parent)
        entries.append(Entry(seq, lane, priority, base, *state))
        events.append((seq, n, step.now, status, attempts, version))
        step.move(lane, Status.FAILED if status == 4 else Status.SCHEDULED, Status.PENDING)
    step.executemany(FORGET_WAITING, [(row[0],) for row in due])
    ready.enter(step, entries)
    step.executemany(RECORD_PROMOTED, events)
    return len(due)


def next_due(step: Step) -> int | None:
    """When the next waiting job is due, or the next task that is held back may be probed."""
    moments = (step.execute(NEXT_DUE).fetchone(), step.execute(NEXT_PROBE, (step.now,)).fetchone())
    return min((row[0] for row in moments if row and row[0] is not None), default=None)


def lease(step: Step, request: LeaseRequest) -> tuple[list[Lease], list[tuple[int, int]]]:
    """Take up to `limit` jobs. Answers the leases and, beside them, number and lane of each."""
    promote(step)
    rebalance(step)
    # The counters say which lanes have work, so they must be true now.
    step.write_counters()
    lanes: dict[int, tuple[str, str]] = {}
    probed: dict[int, int] = {}
    free = free_slots(step, request.queues) if step.rules else {}
    for queue in dict.fromkeys(request.queues):
        if free.get(queue) == 0:
            continue
        for number, name, task, held_until, pause in step.execute(LANES_WITH_WORK, (queue,)):
            if request.tasks is not None and task not in request.tasks:
                continue
            if held_until is None:
                lanes[number] = (name, task)
            elif held_until <= step.now:
                lanes[number] = (name, task)
                probed[number] = pause
    if not lanes:
        return [], []
    late: list[Row] = []
    key_slots = KeySlots(step)
    rows = list(_best(step, request, lanes, probed, free, key_slots, late))
    leases, seqs = _grant(step, request, lanes, rows)
    # Only now: to take these out or aside may move others, and those were read where they stood.
    key_slots.park_the_rest()
    for row in late:
        _, _, seq, _, available_at, version, attempts, events, job_id, *_ = row
        late_row = (seq, row[_HOME], version, attempts, events, available_at, job_id, row[16])
        cancel_late(step, late_row)
    if late and step.newly_shown and len(leases) < request.limit:
        # Others of their keys have taken the places of those that came too late.
        rest = msgspec.structs.replace(request, limit=request.limit - len(leases))
        more, more_seqs = lease(step, rest)
        return leases + more, seqs + more_seqs
    return leases, seqs


def _best(
    step: Step,
    request: LeaseRequest,
    lanes: dict[int, tuple[str, str]],
    probed: dict[int, int],
    free: dict[str, int],
    key_slots: KeySlots,
    late: list[Row],
) -> Iterator[tuple[Any, ...]]:
    """The best available jobs, best first; those never started in time are put into `late`.

    `free` and `key_slots` count down the slots of the queues and keys that are limited.
    """
    limit = _limit(request, lanes, free)
    probes: dict[int, int] = {}
    taken = 0
    for row in _in_order(step, request, lanes, free, key_slots):
        lane, version, start_by = row[_HOME], row[5], row[16]
        if start_by is not None and start_by < step.now and not version:
            late.append(row)
            continue
        queue = lanes[lane][0]
        if free.get(queue) == 0:
            continue
        if lane in probes:
            continue
        if row[KEY] is not None and not key_slots.take(queue, row):
            if key_slots.turned_too_many_away:
                break
            continue
        if lane in probed:
            probes[lane] = probed[lane]
        if queue in free:
            free[queue] -= 1
        yield row
        taken += 1
        if taken >= limit:
            break
    for lane, pause in probes.items():
        step.execute(HOLD, (step.now + pause, pause, lane))


def _limit(request: LeaseRequest, lanes: dict[int, tuple[str, str]], free: dict[str, int]) -> int:
    """How many jobs to look for: no more than there are slots, where every queue is limited."""
    queues = {queue for queue, _ in lanes.values()}
    if queues <= free.keys():
        return min(request.limit, sum(free[queue] for queue in queues))
    return request.limit


def _in_order(
    step: Step,
    request: LeaseRequest,
    lanes: dict[int, tuple[str, str]],
    free: dict[str, int],
    key_slots: KeySlots,
) -> Iterable[Row]:
    """The jobs of these lanes, best first; of a limited queue only while it has free slots."""
    rules = step.rules
    scoring: dict[str, Scoring] = {}
    looked_into = []
    for number, (queue, _) in lanes.items():
        if queue not in scoring:
            scoring[queue] = rules[queue].config.scoring if queue in rules else DEFAULT_SCORING
        is_open = partial(free.get, queue) if queue in free else None
        looked_into.append(Lane(number, scoring[queue], is_open))
    if request.parent_id is None:
        return in_order(step.db, looked_into, step.now, for_leasing())
    narrow = (request.parent_id,)
    looked_into += [
        Lane(number, scoring[queue], _both(partial(free.get, queue, 1), may_run))
        for number, queue, may_run in key_slots.lanes_of_group(request.parent_id, lanes)
    ]
    return in_order(step.db, looked_into, step.now, for_leasing_in_group(), narrow)


def _both(one: Callable[[], object], other: Callable[[], object]) -> Callable[[], object]:
    return lambda: one() and other()


def cancel_late(step: Step, row: tuple[Any, ...]) -> None:
    """A job that was not started in time is cancelled, with that reason."""
    seq, lane, version, attempts, events, available_at, job_id, start_by = row
    ready.leave_by_number(step, seq)
    end_waiting(
        step,
        seq=seq,
        job_id=job_id,
        lane=lane,
        before=Status.PENDING,
        after=Status.CANCELLED,
        version=version,
        attempts=attempts,
        events=events,
        available_at=available_at,
        reason=not_started_by(from_micros(start_by)),
    )


def _grant(
    step: Step,
    request: LeaseRequest,
    lanes: dict[int, tuple[str, str]],
    rows: list[Row],
) -> tuple[list[Lease], list[tuple[int, int]]]:
    now, floor, worker = step.now, step.version_floor, request.worker
    acquired_at = from_micros(now)
    expiries: dict[float, tuple[int, Any]] = {}
    leases, taken, granted, seqs = [], [], [], []
    placed: list[int] = []
    left: list[tuple[int, int]] = []
    of_keys: Counter[tuple[str, str, int]] = Counter()
    waits: dict[int, list[int]] = {lane: [] for lane in lanes}
    by_task = request.lease_seconds_by_task or {}
    default_seconds = request.lease_seconds or step.settings.lease_seconds
    for (
        tier,
        turn,
        seq,
        lane,
        available_at,
        before,
        attempts,
        events,
        job_id,
        payload,
        codec,
        priority,
        allowance,
        lease_seconds,
        timeout_seconds,
        deadline,
        _,
        retry,
        metadata,
        parent_id,
        created_at,
        limit_key,
        home,
    ) in rows:
        version = max(before, floor) + 1
        queue, task = lanes[home]
        seconds = lease_seconds or by_task.get(task) or default_seconds
        expiry = expiries.get(seconds)
        if expiry is None:
            micros = now + round(seconds * 1e6)
            expiry = expiries[seconds] = (micros, from_micros(micros))
        taken.append((lane, tier, turn, seq))
        if limit_key is not None:
            placed.append(seq)
            of_keys[queue, limit_key, home] += 1
        elif deadline is not None or turn != created_at or tier != default_tier(priority):
            placed.append(seq)
        granted.append(
            (
                seq,
                version,
                worker,
                now,
                expiry[0],
                now,
                attempts + 1,
                events + 1,
                events + 1,
                available_at,
            )
        )
        seqs.append((seq, home))
        leases.append(
            Lease(
                job_id=job_id,
                version=version,
                worker=worker,
                queue=queue,
                task=task,
                payload=payload,
                codec=codec or "json",
                priority=priority,
                attempt=attempts + 1,
                allowance=allowance,
                acquired_at=acquired_at,
                expires_at=expiry[1],
                lease_seconds=seconds,
                timeout_seconds=timeout_seconds,
                deadline=None if deadline is None else from_micros(deadline),
                retry=None if retry is None else _decode_retry(retry),
                metadata=None if metadata is None else _decode_metadata(metadata),
                parent_id=parent_id,
            )
        )
        left.append((home, priority))
        waits[home].append(now - available_at)
    for lane, waited in waits.items():
        if waited:
            step.move(lane, Status.PENDING, Status.RUNNING, len(waited))
            step.measured.waited(step.count, lane, waited)
    ready.leave(step, taken, left, placed)
    step.executemany(GRANT, granted)
    if of_keys and step.rules.key_limits:
        parking.granted(step, of_keys)
        step.newly_shown.difference_update(placed)
    return leases, seqs
