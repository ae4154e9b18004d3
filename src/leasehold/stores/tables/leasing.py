"""Lease: promote due jobs, then take the best available ones; `core.rules.leasing` says which.

A lease reads before it writes, so unreadable jobs are found before anything is granted. Candidates
that are late or cannot be read are removed in the same write, up to a budget (`core.model.budget`);
the next exchange continues.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar, Final, NamedTuple

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PASSED_OVER_AT_ONCE
from leasehold.core.model.codes import EVENT_CODE, STATUS_CODE
from leasehold.core.model.lease import Lease, LeaseRequest
from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.priority import DEFAULT_SCORING, Scoring
from leasehold.core.model.span import Measure
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import key_accounts
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.key_accounts import Account
from leasehold.core.rules.leasing import OpenLane, OpenQueue, Verdict, Walk, open_lane
from leasehold.core.rules.placing import PendingEntry
from leasehold.core.rules.queue_limits import next_starts, open_queues, starts_used_up
from leasehold.core.rules.serving import Lane, LaneReader, Row, in_order
from leasehold.stores.tables import gate
from leasehold.stores.tables.gate import Limits
from leasehold.stores.tables.job_states import TableHistories, cancel_late
from leasehold.stores.tables.order import (
    LIMIT_KEY,
    START_BY,
    Candidate,
    TableReady,
    as_candidate,
)
from leasehold.stores.tables.parking import free_of
from leasehold.stores.tables.rebalance import rebalance
from leasehold.stores.tables.step import TableStep

_LEASED: Final = ("leased",)

Granted = tuple[Candidate, Lease]


def count_granted(
    step: TableStep,
    ready: TableReady,
    granted: Sequence[Granted],
    waits: Mapping[tuple[int, Measure], Sequence[int]],
    counted: Sequence[tuple[int, int]],
    placed: Sequence[int],
) -> None:
    """Count as running the jobs whose rows a lease has just moved out of pending.

    `waits` has how long they waited, by lane and measure; `counted` the lane and priority of each;
    `placed` the jobs that may have a place of their own.
    """
    for (lane, measure), waited in waits.items():
        step.move(lane, Status.PENDING, Status.RUNNING, len(waited))
        step.count(lane, "total_leased", len(waited))
        step.measured.took(lane, measure, waited)
        step.worked(granted[0][1].worker, lane, _LEASED, len(waited))
    ready.left(counted, placed)
    if step.rules.paced:
        starts = [(lease.queue, job.limit_key) for job, lease in granted]
        starts_used_up(Limits(step), starts)
    if step.rules.key_limits:
        keys = Counter(
            (lease.queue, job.limit_key, job.lane)
            for job, lease in granted
            if job.limit_key is not None
        )
        key_accounts.granted(ready.shelf(step), keys)
        step.newly_shown.difference_update(placed)


class Leased(NamedTuple):
    """The result of a lease."""

    granted: list[Granted]
    cut_short: bool = False
    """Whether the write's budget is used up: more may be available."""
    only_lane: int | None = None
    """The only lane that had work, if it is known to be the only one and all of one tier."""


def enter_due(step: TableStep, histories: type[TableHistories], rows: Sequence[Any]) -> int:
    """Make jobs pending whose wait is over; returns how many.

    A row has the job's status, then the columns of a PendingEntry.
    """
    entries, events = [], []
    for code, *columns in rows:
        job = PendingEntry(*columns)
        entries.append(job)
        events.append(
            (
                job.seq, job.events, step.now, EVENT_CODE[Event.PROMOTED], code,
                STATUS_CODE[Status.PENDING], job.attempts, None, job.version, None,
            )
        )  # fmt: skip
        before = Status.FAILED if code == STATUS_CODE[Status.FAILED] else Status.SCHEDULED
        step.move(job.lane, before, Status.PENDING)
    if entries:
        histories(step).stop_waiting([job.seq for job in entries])
        histories.ready(step).enter(entries)
        step.many(step.insert_events, events)
    return len(entries)


def next_moment(
    step: TableStep, moments: Iterable[int | None], queues: Iterable[str]
) -> int | None:
    """The earliest of these times and of the times at which a job of these queues may start."""
    known = [moment for moment in moments if moment is not None]
    if step.rules.paced:
        step.write_counters()
        known += next_starts(Limits(step), queues)
    return min(known, default=None)


def lease(
    step: TableStep,
    request: LeaseRequest,
    rounds: GroupRounds,
    life: int,
    look_at: type[TableLeaseLook],
) -> Leased:
    """Take up to `limit` jobs for this life of the worker; due jobs are already pending."""
    rebalance(step, look_at.histories.ready)
    granted: list[Granted] = []
    left = PASSED_OVER_AT_ONCE
    shelf = look_at.histories.ready.shelf(step)
    ruled = [queue for queue in request.queues if step.alone and queue in step.rules]
    more_rested = key_accounts.wake_rested(shelf, ruled)
    parked: Sequence[Account] = ()
    after: int | None = None
    if request.parent_id is not None and step.rules.key_limits:
        parked, after = shelf.parked_in_group(request.parent_id, rounds.after(request.parent_id))
    while True:
        look = look_at(step, request, parked, len(granted), left)
        if not look.lanes and not more_rested:
            return Leased(granted)
        look.choose()
        found, unreadable = look.make_leases()
        if unreadable:
            # Nothing is granted yet, so the next look finds the best jobs without these.
            for job, problem in unreadable[:left]:
                look.set_aside(job, problem)
            left -= len(unreadable)
            if left > 0:
                continue
            break
        look.carry_out(found, life)
        granted += found
        left -= len(look.late)
        if (look.walk.is_cut_short or more_rested) and len(granted) < request.limit:
            break
        if not (look.late and step.newly_shown and len(granted) < request.limit):
            may_be_more = request.parent_id is not None and rounds.looked(
                request.parent_id, after, took=bool(granted)
            )
            if may_be_more and len(granted) < request.limit:
                break
            return Leased(granted, only_lane=look.only_lane)
        # Other jobs of the same keys have taken the places of late ones.
    step.hints.ready = True
    return Leased(granted, cut_short=True)


class TableLeaseLook(ABC):
    """One look at the jobs of a request: the candidates, and their treatment."""

    __slots__ = (
        "_limit", "_of_one_tier", "_parked", "_request", "_step", "lanes", "late", "taken",
        "turned_away", "walk",
    )  # fmt: skip
    histories: ClassVar[type[TableHistories]]
    finds_lanes_by_counters: ClassVar[bool]
    """Whether the store goes by the counters of lanes to find those that have work."""

    def __init__(
        self,
        step: Any,
        request: LeaseRequest,
        parked: Sequence[Account],
        granted: int,
        late_max: int,
    ) -> None:
        """Include the parked jobs of these accounts; `granted` jobs were granted already."""
        self._parked = parked
        self._step: TableStep = step
        self._request = request
        self._limit = request.limit - granted
        self.lanes: dict[int, OpenLane] = {}
        """The lanes that have work, by number."""
        self._of_one_tier: set[int] = set()
        """The lanes known to have jobs of one tier only."""
        self.taken: list[Candidate] = []
        self.late: list[Candidate] = []
        self.turned_away: list[Candidate] = []
        # The counters determine how many slots are free, so they must be up to date.
        if step.rules:
            step.write_counters()
        elif self.finds_lanes_by_counters:
            step.write_counters_of_work()
        self._open_lanes({queue.name: queue for queue in open_queues(Limits(step), request.queues)})
        self.walk = Walk(
            step.now,
            self._limit,
            {lane.queue for lane in self.lanes.values()},
            partial(free_of, step),
            late_max,
            None if request.free_slots is None else request.free_slots - granted,
        )

    # -- what each store does in its own way ---------------------------------------------------

    @abstractmethod
    def _open_lanes(self, queues: Mapping[str, OpenQueue]) -> None:
        """Open the lanes of these queues that have work."""

    @abstractmethod
    def _lane_reader(self, parent_id: str | None) -> LaneReader:
        """The reader of candidates, of one group if it is named."""

    @abstractmethod
    def make_leases(self) -> tuple[list[Granted], list[tuple[Candidate, str]]]:
        """Make leases of the taken jobs; also returns the jobs that cannot be leased, and why."""

    @abstractmethod
    def set_aside(self, job: Candidate, problem: str) -> None:
        """Make a dead letter of a job that cannot be read."""

    @abstractmethod
    def _grant(self, granted: list[Granted], life: int) -> None:
        """Let the jobs run, under this life of their worker."""

    # -- what all of them do alike -------------------------------------------------------------

    def _open_lane(
        self,
        queue: OpenQueue,
        number: int,
        task: str,
        breaker: BreakerState,
        *,
        has_one_tier: bool = False,
    ) -> None:
        """Open a lane, if the request wants its jobs and its breaker lets them through."""
        if not self._request.wants(queue.name, task):
            return
        if breaker.held_until is not None:
            self._step.must_be_alone()
        lane = open_lane(queue, task, breaker, self._step.now)
        if lane is not None:
            self.lanes[number] = lane
            if has_one_tier:
                self._of_one_tier.add(number)

    @property
    def only_lane(self) -> int | None:
        """The lane of all candidates, if they were read in the order of the index."""
        return next(iter(self._of_one_tier), None) if len(self.lanes) == 1 else None

    def choose(self) -> None:
        """Choose among the jobs, best first; nothing is written."""
        walk, lanes = self.walk, self.lanes
        if walk.is_over:
            return
        take, cancel, park = Verdict.TAKE, Verdict.CANCEL, Verdict.PARK
        rows = iter(self._in_order())
        if len(lanes) == 1:
            # The most common case: all jobs are in one lane, and none needs to be judged.
            [lane] = lanes.values()
            first = list(islice(rows, walk.plain_left(lane)))
            if any(row[START_BY] is not None or row[LIMIT_KEY] is not None for row in first):
                rows = chain(first, rows)
            elif first:
                self.taken += map(as_candidate, first)
                walk.took(lane, len(first))
                if walk.is_over:
                    return
        for job in map(as_candidate, rows):
            verdict = walk.judge(lanes[job.lane], job.start_by, job.version, job.limit_key)
            if verdict is take:
                self.taken.append(job)
            elif verdict is cancel:
                self.late.append(job)
            elif verdict is park:
                self.turned_away.append(job)
            if walk.is_over:
                return

    def carry_out(self, granted: list[Granted], life: int) -> None:
        """Grant the taken jobs, and remove or park the others."""
        step = self._step
        for number, lane in self.lanes.items():
            if lane.probe is not None and lane.is_over:
                gate.keep_breaker(step, number, lane.probe.probed(step.now))
        self._grant(granted, life)
        # This comes last: removing or parking jobs may move others, which were read at their old
        # places.
        key_accounts.turn_away(
            self.histories.ready.shelf(step),
            [
                (
                    self.lanes[job.lane].queue.name,
                    job.limit_key,
                    (job.lane, job.tier, job.turn, job.seq),
                )
                for job in self.turned_away
                if job.stands_in == job.lane and job.limit_key is not None
            ],
        )
        cancel_late(self.histories(step), self.late)

    def _in_order(self) -> Iterable[Row]:
        """The jobs of the lanes, best first; of a limited queue only while it has free slots."""
        looked_into = [
            Lane(number, self._scoring_of(lane), _asked_of(lane), number in self._of_one_tier)
            for number, lane in self.lanes.items()
        ]
        # Within a group, a job parked behind jobs of other groups may be the best.
        for account in self._parked:
            home = self.lanes.get(account.lane)
            if home is not None and self._may_run(account, home):
                may_run = partial(self._may_run, account, home)
                looked_into.append(Lane(account.parked_lane, self._scoring_of(home), may_run))
        return in_order(self._lane_reader(self._request.parent_id), looked_into, self._step.now)

    def _may_run(self, account: Account, home: OpenLane) -> bool:
        return home.is_open and self.walk.free_of_key(account.queue, account.key) > 0

    def _scoring_of(self, lane: OpenLane) -> Scoring:
        rule = self._step.rules.get(lane.queue.name)
        return DEFAULT_SCORING if rule is None else rule.config.scoring


def _asked_of(lane: OpenLane) -> Callable[[], object] | None:
    """The question before each further row of a lane is read; None if all may be read."""
    unlimited = lane.probe is None and lane.queue.free >= UNLIMITED
    return None if unlimited else lambda: lane.is_open
