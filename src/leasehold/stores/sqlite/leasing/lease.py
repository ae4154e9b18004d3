"""Lease: promote what is due, then take the best available jobs.

A lease reads first and writes then: what cannot be read is found out before anything is granted. A
job that is met and may not be leased, because it came too late or cannot be read, is taken out in
the same write, up to a budget (`core.budget`); the next exchange goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from leasehold.core.budget import PASSED_OVER_AT_ONCE, PROMOTED_AT_ONCE
from leasehold.core.lease import Lease, LeaseRequest
from leasehold.core.messages import not_started_by
from leasehold.core.priority import DEFAULT_SCORING, Scoring, default_tier
from leasehold.core.status import Status
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing import damage, parking, ready
from leasehold.stores.sqlite.leasing.damage import Damaged
from leasehold.stores.sqlite.leasing.key_slots import KEY, KeySlots
from leasehold.stores.sqlite.leasing.order import (
    Lane,
    Row,
    for_leasing,
    for_leasing_in_group,
    in_order,
)
from leasehold.stores.sqlite.leasing.ready import Entry
from leasehold.stores.sqlite.leasing.rebalance import rebalance
from leasehold.stores.sqlite.leasing.slots import free_slots
from leasehold.stores.sqlite.leasing.state import JobState, end_waiting
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.schema.rows import (
    MOMENT_MAX,
    UNREADABLE,
    metadata_of,
    problem_of,
    retry_of,
    seconds_of,
)
from leasehold.stores.sqlite.writing.step import Step

# A due job moves from waiting to ready, and its history says so. Guard: due, not blocked.
FIND_DUE: Final = """
    SELECT waiting.seq, waiting.status, due, version, attempts, events + 1, lane.id, priority,
           parent_id, created_at, deadline,
           coalesce((SELECT base FROM raised WHERE raised.seq = waiting.seq), priority)
    FROM waiting JOIN job USING (seq) LEFT JOIN lane ON lane.id = job.lane
    WHERE due <= ? ORDER BY due LIMIT ?
"""
FORGET_WAITING: Final = "DELETE FROM waiting WHERE seq = ?"
RECORD_PROMOTED: Final = "INSERT INTO event VALUES (?, ?, ?, 1, ?, 2, ?, NULL, ?, NULL)"
# What is no number is above all numbers, and left out.
NEXT_DUE: Final = f"SELECT min(due) FROM waiting WHERE due <= {MOMENT_MAX}"  # noqa: S608  # our own number
# One whose time has come is available; if nobody took it, its queue is paused or full.
NEXT_PROBE: Final = "SELECT min(held_until) FROM lane WHERE pending > 0 AND held_until > ?"

LANES_WITH_WORK: Final = """
    SELECT id, queue, task, held_until, hold_micros FROM lane WHERE queue = ? AND pending > 0
"""
HOLD: Final = "UPDATE lane SET held_until = ?, hold_micros = ? WHERE id = ?"
GRANT: Final = "INSERT INTO running VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0)"

_HOME: Final = 22
"""The position of a job's own lane in a row; a parked one stands in another."""


class Leased(NamedTuple):
    """The leases and, beside them, number and lane of each."""

    leases: list[Lease]
    numbers: list[tuple[int, int]]
    cut_short: bool = False
    """Whether the write's budget is used up: more may be available."""


def promote(step: Step) -> int:
    """Make due jobs pending; answers how many it found (at most PROMOTED_AT_ONCE)."""
    due: list[tuple[Any, ...]] = step.execute(FIND_DUE, (step.now, PROMOTED_AT_ONCE)).fetchall()
    if not due:
        return 0
    entries, events = [], []
    for row in due:
        if row[6] is None:
            damage.set_aside(step, Damaged(row[0], "it belongs to no queue and task"))
    due = [row for row in due if row[6] is not None]
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


class _Look:
    """One look at the lanes: where to look, and what was met that is not to be leased."""

    __slots__ = ("free", "key_slots", "lanes", "late", "late_max", "probed", "probes")

    def __init__(self, step: Step, request: LeaseRequest, late_max: int) -> None:
        self.lanes: dict[int, tuple[str, str]] = {}
        """Queue and task by number."""
        self.probed: dict[int, int] = {}
        """Lanes whose breaker lets one job through, and the pause until the next."""
        self.probes: set[int] = set()
        """Those of them of which that job was found."""
        self.late: list[Row] = []
        """Jobs that were never started in time, at most `late_max` of them."""
        self.late_max = late_max
        self.key_slots = KeySlots(step)
        self.free = free_slots(step, request.queues) if step.rules else {}
        """How many jobs more may run in the queues that are limited."""
        for queue in dict.fromkeys(request.queues):
            if self.free.get(queue) == 0:
                continue
            for number, name, task, held_until, pause in step.execute(LANES_WITH_WORK, (queue,)):
                if request.tasks is not None and task not in request.tasks:
                    continue
                if held_until is None:
                    self.lanes[number] = (name, task)
                elif held_until <= step.now:
                    self.lanes[number] = (name, task)
                    self.probed[number] = pause

    @property
    def cut_short(self) -> bool:
        """Whether to leave it at that for now: the next lease goes on."""
        return len(self.late) >= self.late_max or self.key_slots.turned_too_many_away

    def is_open(self, lane: int, queue: str) -> Callable[[], object] | None:
        """What is asked before each further row of a lane is read; None if all may be."""
        if lane in self.probed:
            return lambda: lane not in self.probes and self.free.get(queue, 1)
        return partial(self.free.get, queue) if queue in self.free else None


def lease(step: Step, request: LeaseRequest) -> Leased:
    """Take up to `limit` jobs."""
    promote(step)
    rebalance(step)
    leases: list[Lease] = []
    numbers: list[tuple[int, int]] = []
    left = PASSED_OVER_AT_ONCE
    while True:
        # The counters say which lanes have work, so they must be true now.
        step.write_counters()
        look = _Look(step, request, left)
        if not look.lanes:
            return Leased(leases, numbers)
        rows = list(_best(step, request, look, request.limit - len(leases)))
        grants, unreadable = _read(step, request, look.lanes, rows)
        if unreadable:
            # Nothing is granted yet: without these, others are the best.
            for row, problem in unreadable[:left]:
                seq = row[2]
                damage.set_aside(step, Damaged(seq, problem_with(step.db, seq) or problem))
            left -= len(unreadable)
            if left > 0:
                continue
            break
        leases += grants.leases
        numbers += grants.numbers
        _grant(step, look, grants)
        # Only now: to take these out or aside may move others, and those were read where they were.
        look.key_slots.park_the_rest()
        for row in look.late:
            _, _, seq, _, available_at, version, attempts, events, job_id, *_ = row
            late_row = (seq, row[_HOME], version, attempts, events, available_at, job_id, row[16])
            cancel_late(step, late_row)
        left -= len(look.late)
        if look.cut_short and len(leases) < request.limit:
            break
        if not (look.late and step.newly_shown and len(leases) < request.limit):
            return Leased(leases, numbers)
        # Others of their keys have taken the places of those that came too late.
    step.hints.ready = True
    return Leased(leases, numbers, cut_short=True)


def _best(step: Step, request: LeaseRequest, look: _Look, limit: int) -> Iterator[Row]:
    """The best available jobs, best first; those never started in time are put into `late`."""
    free, key_slots = look.free, look.key_slots
    limit = _limit(limit, look)
    taken = 0
    for row in _in_order(step, request, look):
        lane, version, start_by = row[_HOME], row[5], row[16]
        if start_by is not None and start_by < step.now and not version:
            look.late.append(row)
            if len(look.late) >= look.late_max:
                return
            continue
        queue = look.lanes[lane][0]
        if free.get(queue) == 0 or lane in look.probes:
            continue
        if row[KEY] is not None and not key_slots.take(queue, row):
            if key_slots.turned_too_many_away:
                return
            continue
        if lane in look.probed:
            look.probes.add(lane)
        if queue in free:
            free[queue] -= 1
        yield row
        taken += 1
        if taken >= limit:
            return


def _limit(limit: int, look: _Look) -> int:
    """How many jobs to look for: no more than there are slots, where every queue is limited."""
    queues = {queue for queue, _ in look.lanes.values()}
    if queues <= look.free.keys():
        return min(limit, sum(look.free[queue] for queue in queues))
    return limit


def _in_order(step: Step, request: LeaseRequest, look: _Look) -> Iterable[Row]:
    """The jobs of these lanes, best first; of a limited queue only while it has free slots."""
    rules = step.rules
    scoring: dict[str, Scoring] = {}
    looked_into = []
    for number, (queue, _) in look.lanes.items():
        if queue not in scoring:
            scoring[queue] = rules[queue].config.scoring if queue in rules else DEFAULT_SCORING
        looked_into.append(Lane(number, scoring[queue], look.is_open(number, queue)))
    if request.parent_id is None:
        return in_order(step.db, looked_into, step.now, for_leasing())
    narrow = (request.parent_id,)
    groups = look.key_slots.lanes_of_group(request.parent_id, look.lanes)
    looked_into += [
        Lane(number, scoring[queue], _both(look.is_open(home, queue), may_run))
        for number, home, queue, may_run in groups
    ]
    return in_order(step.db, looked_into, step.now, for_leasing_in_group(), narrow)


def _both(one: Callable[[], object] | None, other: Callable[[], object]) -> Callable[[], object]:
    return other if one is None else lambda: one() and other()


def cancel_late(step: Step, row: tuple[Any, ...]) -> None:
    """A job that was not started in time is cancelled, with that reason."""
    seq, lane, version, attempts, events, available_at, job_id, start_by = row
    stood = (Status.PENDING, version, attempts, events, available_at)
    reason = not_started_by(from_micros(start_by))
    end_waiting(step, JobState(seq, job_id, lane, *stood), Status.CANCELLED, reason)


class _Grants:
    """What the rows of a lease come to: the leases, and what is to be written for them."""

    __slots__ = ("granted", "leases", "left", "numbers", "of_keys", "placed", "taken", "waits")

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.numbers: list[tuple[int, int]] = []
        self.taken: list[ready.Key] = []
        self.granted: list[tuple[Any, ...]] = []
        self.placed: list[int] = []
        self.left: list[tuple[int, int]] = []
        self.of_keys: Counter[tuple[str, str, int]] = Counter()
        self.waits: dict[int, list[int]] = {}


def _read(
    step: Step, request: LeaseRequest, lanes: dict[int, tuple[str, str]], rows: list[Row]
) -> tuple[_Grants, list[tuple[Row, str]]]:
    """Make leases of rows; beside them, the rows of which none can be made, and why."""
    now, floor, worker = step.now, step.version_floor, request.worker
    acquired_at = from_micros(now)
    expiries: dict[float, tuple[int, Any]] = {}
    grants = _Grants()
    unreadable: list[tuple[Row, str]] = []
    by_task = request.lease_seconds_by_task or {}
    default_seconds = request.lease_seconds or step.settings.lease_seconds
    for row in rows:
        (
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
        ) = row
        try:
            queue, task = lanes[home]
            if lease_seconds is not None:
                seconds_of("lease_seconds", lease_seconds)
            if timeout_seconds is not None:
                seconds_of("timeout_seconds", timeout_seconds)
            seconds = lease_seconds or by_task.get(task) or default_seconds
            expiry = expiries.get(seconds)
            if expiry is None:
                micros = now + round(seconds * 1e6)
                expiry = expiries[seconds] = (micros, from_micros(micros))
            lease = Lease(
                job_id=job_id,
                version=max(before, floor) + 1,
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
                retry=None if retry is None else retry_of(retry),
                metadata=None if metadata is None else metadata_of(metadata),
                parent_id=parent_id,
            )
            if (
                type(payload) is not bytes
                or type(job_id) is not str
                or not 0 <= priority <= 100
                or type(allowance) is not int
            ):
                raise ValueError("id, payload, priority or allowance are none")
            n = events + 1
            waited = now - available_at
        except UNREADABLE as error:
            unreadable.append((row, problem_of(error)))
            continue
        grants.leases.append(lease)
        grants.taken.append((lane, tier, turn, seq))
        if limit_key is not None:
            grants.placed.append(seq)
            grants.of_keys[queue, limit_key, home] += 1
        elif deadline is not None or turn != created_at or tier != default_tier(priority):
            grants.placed.append(seq)
        grants.granted.append(
            (seq, lease.version, worker, now, expiry[0], now, attempts + 1, n, n, available_at)
        )
        grants.numbers.append((seq, home))
        grants.left.append((home, priority))
        if home in grants.waits:
            grants.waits[home].append(waited)
        else:
            grants.waits[home] = [waited]
    return grants, unreadable


def _grant(step: Step, look: _Look, grants: _Grants) -> None:
    for lane in look.probes:
        pause = look.probed[lane]
        step.execute(HOLD, (step.now + pause, pause, lane))
    for lane, waited in grants.waits.items():
        step.move(lane, Status.PENDING, Status.RUNNING, len(waited))
        step.measured.waited(step.count, lane, waited)
    ready.leave(step, grants.taken, grants.left, grants.placed)
    step.executemany(GRANT, grants.granted)
    if grants.of_keys and step.rules.key_limits:
        parking.granted(step, grants.of_keys)
        step.newly_shown.difference_update(grants.placed)
