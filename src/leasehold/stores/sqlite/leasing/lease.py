"""Lease: the statements for SQLite; see `tables.leasing`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PROMOTED_AT_ONCE
from leasehold.core.model.lease import Lease, LeaseRequest
from leasehold.core.model.lives import NO_LIFE
from leasehold.core.model.priority import default_tier
from leasehold.core.model.span import WAIT_OF_PRIORITY, Measure
from leasehold.core.model.stored import MOMENT_MAX, UNREADABLE, metadata_of, problem_of, retry_of
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.lease_lengths import LeaseLengths
from leasehold.core.rules.leasing import OpenQueue
from leasehold.core.rules.placing import RowKey
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing import damage
from leasehold.stores.sqlite.leasing.damage import Damaged
from leasehold.stores.sqlite.leasing.ends import Histories
from leasehold.stores.sqlite.leasing.order import (
    FOR_LEASING,
    FOR_LEASING_IN_GROUP,
    LEAVE,
    LaneReader,
    ReadyRows,
)
from leasehold.stores.sqlite.schema.rows import problem_with, seconds_of
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import leasing
from leasehold.stores.tables.leasing import Granted, Leased, TableLeaseLook, count_granted
from leasehold.stores.tables.order import Candidate

# A due job moves from waiting to ready, and its history says so: its status, then the columns of a
# PendingEntry. Guard: due, not blocked.
FIND_DUE: Final = """
    SELECT waiting.status, waiting.seq, lane.id, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = waiting.seq), priority),
           version, attempts, events + 1, due, created_at, deadline, parent_id
    FROM waiting JOIN job USING (seq) LEFT JOIN lane ON lane.id = job.lane
    WHERE due <= ? ORDER BY due LIMIT ?
"""
# A value that is not a number sorts above all numbers, and is left out.
NEXT_DUE: Final = f"SELECT min(due) FROM waiting WHERE due <= {MOMENT_MAX}"
# A due job is available; if no lease took it, its queue is paused or full.
NEXT_PROBE: Final = "SELECT min(held_until) FROM lane WHERE pending > 0 AND held_until > ?"

LANES_WITH_WORK: Final = """
    SELECT id, task, failures_in_row, held_until, hold_micros FROM lane
    WHERE queue = ? AND pending > 0
"""

GRANT: Final = "INSERT INTO running VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?, ?)"


def promote(step: Step) -> int:
    """Make due jobs pending; returns how many it found (at most PROMOTED_AT_ONCE)."""
    found: list[Any] = step.execute(FIND_DUE, (step.now, PROMOTED_AT_ONCE)).fetchall()
    return leasing.enter_due(step, Histories, [row for row in found if _has_lane(step, row)])


def _has_lane(step: Step, row: tuple[Any, ...]) -> bool:
    """Whether a due job has a lane; one without is set aside."""
    _, seq, lane, *_ = row
    if lane is None:
        damage.set_aside(step, Damaged(seq, "it belongs to no queue and task"))
    return lane is not None


def next_due(step: Step, queues: Iterable[str]) -> int | None:
    """When the next waiting job is due, the next held-back task may be probed, or the next job of
    these queues may start.
    """
    rows = (step.execute(NEXT_DUE).fetchone(), step.execute(NEXT_PROBE, (step.now,)).fetchone())
    return leasing.next_moment(step, [row[0] for row in rows if row], queues)


def lease(step: Step, request: LeaseRequest, rounds: GroupRounds, life: int = NO_LIFE) -> Leased:
    """Take up to `limit` jobs, under this life of the worker."""
    promote(step)
    return leasing.lease(step, request, rounds, life, LeaseLook)


class LeaseLook(TableLeaseLook):
    """One look at the jobs of a request."""

    __slots__ = ()
    histories = Histories
    finds_lanes_by_counters = True
    _step: Step

    def _open_lanes(self, queues: Mapping[str, OpenQueue]) -> None:
        for queue in queues.values():
            for number, task, *breaker in self._step.execute(LANES_WITH_WORK, (queue.name,)):
                self._open_lane(queue, number, task, BreakerState(*breaker))

    def _lane_reader(self, parent_id: str | None) -> LaneReader:
        if parent_id is None:
            return LaneReader(self._step.db, FOR_LEASING)
        return LaneReader(self._step.db, FOR_LEASING_IN_GROUP, (parent_id,))

    def make_leases(self) -> tuple[list[Granted], list[tuple[Candidate, str]]]:
        step, request, lanes, now = self._step, self._request, self.lanes, self._step.now
        worker, acquired_at = request.worker, from_micros(now)
        lengths = LeaseLengths(request, step.settings, now)
        granted: list[Granted] = []
        unreadable: list[tuple[Candidate, str]] = []
        floor = step.version_floor
        for job in self.taken:
            # Unpacking once is faster than access by name, and this runs for every job.
            (
                _, _, _, _, available_at, version, attempts, events, job_id, payload, codec,
                priority, allowance, lease_seconds, timeout_seconds, deadline, _, retry, metadata,
                parent_id, _, limit_key, lane_number,
            ) = job  # fmt: skip
            try:
                lane = lanes[lane_number]
                queue, task = lane.queue.name, lane.task
                if lease_seconds is not None:
                    seconds_of("lease_seconds", lease_seconds)
                if timeout_seconds is not None:
                    seconds_of("timeout_seconds", timeout_seconds)
                seconds, _, expires_at = lengths[task, lease_seconds]
                lease = Lease(
                    job_id,
                    max(version, floor) + 1,
                    worker,
                    queue,
                    task,
                    payload,
                    codec or "json",
                    priority,
                    attempts + 1,
                    allowance,
                    acquired_at,
                    expires_at,
                    seconds,
                    timeout_seconds,
                    None if deadline is None else from_micros(deadline),
                    None if retry is None else retry_of(retry),
                    None if metadata is None else metadata_of(metadata),
                    parent_id,
                )
                if (
                    type(payload) is not bytes
                    or type(job_id) is not str
                    or not 0 <= priority <= 100
                    or type(allowance) is not int
                    or type(events) is not int
                    or type(available_at) is not int
                    or (limit_key is not None and type(limit_key) is not str)
                ):
                    raise ValueError("id, payload, priority, allowance, key or its past are none")
            except UNREADABLE as error:
                unreadable.append((job, problem_of(error)))
                continue
            granted.append((job, lease))
        return granted, unreadable

    def set_aside(self, job: Candidate, problem: str) -> None:
        step = self._step
        damage.set_aside(step, Damaged(job.seq, problem_with(step.db, job.seq) or problem))

    def _grant(self, granted: list[Granted], life: int) -> None:
        step, now = self._step, self._step.now
        waits: defaultdict[tuple[int, Measure], list[int]] = defaultdict(list)
        keys: list[RowKey] = []
        counted: list[tuple[int, int]] = []
        placed: list[int] = []
        """Jobs that may have a row in `place` to forget."""
        running: list[tuple[Any, ...]] = []
        for job, lease in granted:
            (
                tier, turn, seq, stands_in, available_at, _, _, events, _, _, _, priority, _, _, _,
                deadline, _, _, _, _, created_at, limit_key, lane,
            ) = job  # fmt: skip
            waits[lane, WAIT_OF_PRIORITY[priority]].append(now - available_at)
            keys.append((stands_in, tier, turn, seq))
            counted.append((lane, priority))
            if (
                turn != created_at
                or limit_key is not None
                or deadline is not None
                or tier != default_tier(priority)
            ):
                placed.append(seq)
            micros, n = round(lease.lease_seconds * 1e6), events + 1
            running.append(
                (seq, lease.version, lease.worker, now, now + micros, now, lease.attempt, n, n,
                 available_at, micros, life)
            )  # fmt: skip
        step.executemany(LEAVE, keys)
        step.executemany(GRANT, running)
        count_granted(step, ReadyRows(step), granted, waits, counted, placed)
