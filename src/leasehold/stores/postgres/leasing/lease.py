"""Lease: the statements for PostgreSQL; see `tables.leasing`.

Rows have two more columns than a Candidate (`order.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from leasehold.core.contract.accelerator import LaneFront
from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PROMOTED_AT_ONCE
from leasehold.core.model.lease import Lease, LeaseRequest
from leasehold.core.model.lives import NO_LIFE
from leasehold.core.model.priority import default_tier
from leasehold.core.model.span import WAIT_OF_PRIORITY, Measure
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE, metadata_of, problem_of, retry_of
from leasehold.core.model.unreadable import set_aside_reason
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.lease_lengths import LeaseLengths
from leasehold.core.rules.leasing import OpenQueue
from leasehold.core.rules.serving import Row
from leasehold.env import from_micros
from leasehold.stores.postgres.leasing.ends import Histories
from leasehold.stores.postgres.leasing.indexed import IndexedLaneReader
from leasehold.stores.postgres.leasing.order import (
    FOR_LEASING,
    FOR_LEASING_IN_GROUP,
    LaneReader,
    ReadyRows,
    first_jobs,
)
from leasehold.stores.postgres.server.arrays import RowPlaces
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Statement, Step
from leasehold.stores.tables import leasing
from leasehold.stores.tables.job_states import Ending, standing
from leasehold.stores.tables.leasing import Granted, Leased, TableLeaseLook, count_granted
from leasehold.stores.tables.order import Candidate

# A due job moves from waiting to ready, and its history says so: its status, then the columns of a
# PendingEntry. Guard: due, not blocked.
FIND_DUE: Final = """
    SELECT waiting.status, waiting.seq, job.lane, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = waiting.seq), priority),
           version, attempts, events + 1, due, created_at, deadline, parent_id
    FROM waiting JOIN job USING (seq)
    WHERE due <= $1 ORDER BY due LIMIT $2 FOR UPDATE OF waiting SKIP LOCKED
"""
# A due job is available; if no lease took it, its queue is paused or full.
NEXT_DUE: Final = """
    SELECT least((SELECT min(due) FROM waiting WHERE due IS NOT NULL),
                 (SELECT min(held_until) FROM lane WHERE held_until > $1
                      AND EXISTS (SELECT 1 FROM ready WHERE ready.lane = lane.id)))
"""

# With the first and last of their tiers: most lanes have only one. Without OFFSET, the server would
# look for the first once to compare it and once more to return it.
LANES_WITH_WORK: Final = """
    SELECT queue, id, task, failures_in_row, held_until, hold_micros, spread.first, spread.last
    FROM lane, LATERAL (SELECT (SELECT min(tier) FROM ready WHERE ready.lane = lane.id) AS first,
                               (SELECT max(tier) FROM ready WHERE ready.lane = lane.id) AS last
        OFFSET 0) AS spread
    WHERE queue = ANY($1) AND spread.first IS NOT NULL
"""

# The same beside an index of the first jobs of some lanes: of these, it is not asked for the first
# tier, which may be behind many rows that cannot be removed. $2 are those with jobs that are known
# up to a spot only, $3 those that are known as a whole, with and without jobs.
LANES_BESIDE_INDEX: Final = """
    SELECT queue, id, task, failures_in_row, held_until, hold_micros, spread.first, spread.last
    FROM lane, LATERAL (
        SELECT CASE WHEN id <> ALL($2) AND id <> ALL($3)
                   THEN (SELECT min(tier) FROM ready WHERE ready.lane = lane.id) END AS first,
               CASE WHEN id <> ALL($3)
                   THEN (SELECT max(tier) FROM ready WHERE ready.lane = lane.id) END AS last
        OFFSET 0) AS spread
    WHERE queue = ANY($1) AND (spread.first IS NOT NULL OR id = ANY($2) OR id = ANY($3))
"""

# The rows of `ready` were read and locked in this write, so they have not moved since. Columns that
# are the same in both tables stay inside the server.
GRANT: Final = f"""
    WITH leased AS (
        DELETE FROM ready USING {unnested("tid bigint bigint")} AS taken (row, version, micros)
        WHERE ready.ctid = taken.row
        RETURNING seq, taken.version, attempts, events, available_at, micros)
    INSERT INTO running
    SELECT seq, version, $4::text, $5::bigint, $5::bigint + micros, $5::bigint, attempts + 1,
           events + 1, events + 1, available_at, NULL, micros, $6::integer
    FROM leased
"""

SPOTS_MIN: Final = 10
"""How many spots of each indexed lane are asked for at least."""


def ahead(request: LeaseRequest, guess: int | None = None) -> list[Statement]:
    """A lease's first queries: which lanes have work, and the jobs of the most probable one. If the
    guess is wrong, those jobs are locked for the duration of this write.
    """
    lanes: Statement = (LANES_WITH_WORK, (list(request.queues),))
    return [lanes] if guess is None else [lanes, first_jobs(guess, request.limit)]


def promote(step: Step) -> int:
    """Make due jobs pending; returns how many it found (at most PROMOTED_AT_ONCE)."""
    found = step.execute(FIND_DUE, (step.now, PROMOTED_AT_ONCE)).fetchall()
    return leasing.enter_due(step, Histories, found)


def next_due(step: Step, queues: Iterable[str]) -> int | None:
    """When the next waiting job is due, the next held-back task may be probed, or the next job of
    these queues may start.
    """
    due = step.next_due
    if step.found.some_held or (due is not None and due <= step.now):
        row: Any = step.execute(NEXT_DUE, (step.now,)).fetchone()
        due = row[0]
    return leasing.next_moment(step, [due], queues)


def lease(step: Step, request: LeaseRequest, rounds: GroupRounds, life: int = NO_LIFE) -> Leased:
    """Take up to `limit` jobs, under this life of the worker."""
    if step.next_due is not None and step.next_due <= step.now:
        promote(step)
    return leasing.lease(step, request, rounds, life, LeaseLook)


class LeaseLook(TableLeaseLook):
    """One look at the jobs of a request."""

    __slots__ = ("_asked", "_fronts")
    histories = Histories
    finds_lanes_by_counters = False
    _step: Step

    def _open_lanes(self, queues: Mapping[str, OpenQueue]) -> None:
        self._fronts = self._known_fronts()
        for name, number, task, *breaker, first, last in self._lanes_with_work():
            if name not in queues:
                continue
            front, state = self._fronts.get(number), BreakerState(*breaker)
            if front is None:
                self._open_lane(queues[name], number, task, state, has_one_tier=first == last)
            elif front.spots:
                one_tier = front.spots[0][0] == (last if front.last is None else front.last[0])
                self._open_lane(queues[name], number, task, state, has_one_tier=one_tier)

    def _known_fronts(self) -> Mapping[int, LaneFront]:
        """The first jobs of indexed lanes; not of a group, nor if this write has moved jobs, of
        which the index is told when they are committed.
        """
        step, request = self._step, self._request
        if not step.indexed or request.parent_id is not None or step.hints.entered:
            return {}
        lanes = [lane for lane, queue in step.indexed.items() if queue in request.queues]
        # Few jobs come from each of many lanes.
        self._asked = max(SPOTS_MIN, self._limit // max(1, len(lanes)))
        return step.fronts.of(lanes, self._asked)

    def _lanes_with_work(self) -> Iterable[Row]:
        fronts, request = self._fronts, self._request
        if not fronts:
            return self._step.first(*ahead(request)[0])
        whole = [lane for lane, front in fronts.items() if front.end is None]
        values = (list(request.queues), list(fronts.keys() - set(whole)), whole)
        return self._step.execute(LANES_BESIDE_INDEX, values)

    def _lane_reader(self, parent_id: str | None) -> LaneReader:
        step = self._step
        # Rows that are read are locked, so read no more than may be taken.
        page = min(self._limit, max(lane.queue.free for lane in self.lanes.values()))
        step.fronts.leased_from.update(self.lanes.keys() - self._fronts.keys())
        if self._fronts:
            return IndexedLaneReader(step.db, step.fronts, self._fronts, self._asked, page=page)
        if parent_id is not None:
            return LaneReader(step.db, FOR_LEASING_IN_GROUP, (parent_id,), page=page)
        # A write that is alone may have changed the jobs that were queried ahead.
        first = None if step.alone else step.first
        return LaneReader(step.db, FOR_LEASING, page=page, first=first)

    def make_leases(self) -> tuple[list[Granted], list[tuple[Candidate, str]]]:
        step, request, lanes, now = self._step, self._request, self.lanes, self._step.now
        worker, acquired_at = request.worker, from_micros(now)
        lengths = LeaseLengths(request, step.settings, now)
        granted: list[Granted] = []
        unreadable: list[tuple[Candidate, str]] = []
        # With a new number of the sequence, it is above all versions ever granted.
        base = step.found.version_base
        for job in self.taken:
            # Unpacked at once: access by name takes as long as making the lease.
            columns: Row = job
            (
                _, _, _, _, _, _, attempts, _, job_id, payload, codec, priority, allowance,
                own_seconds, timeout_seconds, deadline, _, retry, metadata, parent_id, _, _,
                lane_number, number, _,
            ) = columns  # fmt: skip
            lane = lanes[lane_number]
            task = lane.task
            seconds, _, expires_at = lengths[task, own_seconds]
            try:
                lease = Lease(
                    job_id,
                    base + number,
                    worker,
                    lane.queue.name,
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
            except UNREADABLE as error:
                unreadable.append((job, problem_of(error)))
                continue
            granted.append((job, lease))
        return granted, unreadable

    def set_aside(self, job: Candidate, problem: str) -> None:
        ending = Ending(standing(job), Status.DEAD, set_aside_reason(problem))
        Histories(self._step).end([ending])

    def _grant(self, granted: list[Granted], life: int) -> None:
        if not granted:
            return
        step, now = self._step, self._step.now
        worker = granted[0][1].worker
        # Column by column: whatever can be done for all jobs at once is not done per job.
        rows: list[Row] = [job for job, _ in granted]
        leases = [lease for _, lease in granted]
        (
            tiers, turns, seqs, _, available, _, _, _, _, _, _, priorities, _, _, _, deadlines, _,
            _, _, _, created, keys, lanes, _, places,
        ) = zip(*rows, strict=True)  # fmt: skip
        counted = list(zip(lanes, priorities, strict=True))
        waits: defaultdict[tuple[int, Measure], list[int]] = defaultdict(list)
        if len(set(counted)) == 1:
            waits[lanes[0], WAIT_OF_PRIORITY[priorities[0]]] = [now - since for since in available]
        else:
            for (lane, priority), since in zip(counted, available, strict=True):
                waits[lane, WAIT_OF_PRIORITY[priority]].append(now - since)
        grants = {
            lease.version: (lease.job_id, seq, lane, lease.queue, worker, lease.attempt, now)
            for lease, seq, lane in zip(leases, seqs, lanes, strict=True)
        }
        lengths = [round(lease.lease_seconds * 1e6) for lease in leases]
        placed: list[int] = []
        """Jobs that may have a row in `place` to forget."""
        if not (
            turns == created
            and keys.count(None) == deadlines.count(None) == len(rows)
            and all(
                tier == default_tier(each) for tier, each in {*zip(tiers, priorities, strict=True)}
            )
        ):
            placed = [
                seq
                for tier, turn, seq, priority, deadline, created_at, key in zip(
                    tiers, turns, seqs, priorities, deadlines, created, keys, strict=True
                )
                if turn != created_at
                or key is not None
                or deadline is not None
                or tier != default_tier(priority)
            ]
        step.execute(GRANT, (RowPlaces(places), list(grants), lengths, worker, now, life))
        if step.indexed:
            stood = zip(lanes, tiers, turns, seqs, strict=True)
            step.hints.left += [key for key in stood if key[0] in step.indexed]
        step.push(len(rows))
        count_granted(step, ReadyRows(step), granted, waits, counted, placed)
        step.grants.add(grants)
