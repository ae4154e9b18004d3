"""Lease: promote due jobs, then take the best available ones; `core.rules.leasing` says which.

A lease reads first and writes then: what cannot be read is found out before anything is granted. A
job that is met and may not be leased, because it came too late or cannot be read, is taken out in
the same write, up to a budget (`core.model.budget`); the next exchange goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PASSED_OVER_AT_ONCE, PROMOTED_AT_ONCE
from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.lives import NO_LIFE
from leasehold.core.model.priority import DEFAULT_SCORING, Scoring
from leasehold.core.model.status import Status
from leasehold.core.model.unreadable import set_aside_reason
from leasehold.core.rules import key_accounts
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.key_accounts import Account
from leasehold.core.rules.leasing import OpenLane, Verdict, Walk, open_lane
from leasehold.core.rules.placing import PendingEntry
from leasehold.core.rules.queue_limits import next_starts, open_queues
from leasehold.core.rules.serving import Lane, Row, in_order
from leasehold.stores.postgres.leasing.ends import Histories
from leasehold.stores.postgres.leasing.grant import Granted, grant, read
from leasehold.stores.postgres.leasing.order import (
    FOR_LEASING,
    FOR_LEASING_IN_GROUP,
    Candidate,
    LaneReader,
    first_jobs,
)
from leasehold.stores.postgres.leasing.parking import KeyShelf
from leasehold.stores.postgres.leasing.ready import ReadyRows
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Statement, Step
from leasehold.stores.tables import breakers
from leasehold.stores.tables.job_states import Ending
from leasehold.stores.tables.late import cancel_late, standing
from leasehold.stores.tables.parking import free_of
from leasehold.stores.tables.queue_limits import Limits
from leasehold.stores.tables.rebalance import rebalance

# A due job moves from waiting to ready, and its history says so: its status, then the columns of an
# Entry. Guard: due, not blocked.
FIND_DUE: Final = """
    SELECT waiting.status, waiting.seq, job.lane, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = waiting.seq), priority),
           version, attempts, events + 1, due, created_at, deadline, parent_id
    FROM waiting JOIN job USING (seq)
    WHERE due <= $1 ORDER BY due LIMIT $2 FOR UPDATE OF waiting SKIP LOCKED
"""
FORGET_WAITING: Final = "DELETE FROM waiting WHERE seq = ANY($1)"
RECORD_PROMOTED: Final = f"""
    INSERT INTO event (event, after, seq, n, at, before, attempts, version)
    SELECT 1, 2, * FROM {unnested("bigint bigint bigint bigint bigint bigint")}
"""  # noqa: S608  # our own names
# A due job is available; if no lease took it, its queue is paused or full.
NEXT_DUE: Final = """
    SELECT least((SELECT min(due) FROM waiting WHERE due IS NOT NULL),
                 (SELECT min(held_until) FROM lane WHERE held_until > $1
                      AND EXISTS (SELECT 1 FROM ready WHERE ready.lane = lane.id)))
"""

# With the first and the last of their tiers: most have one only.
LANES_WITH_WORK: Final = """
    SELECT queue, id, task, failures_in_row, held_until, hold_micros, spread.first, spread.last
    FROM lane, LATERAL (SELECT (SELECT min(tier) FROM ready WHERE ready.lane = lane.id) AS first,
                               (SELECT max(tier) FROM ready WHERE ready.lane = lane.id) AS last
    ) AS spread
    WHERE queue = ANY($1) AND spread.first IS NOT NULL
"""


_CANDIDATE: Final[Callable[[Row], Candidate]] = partial(tuple.__new__, Candidate)
"""What `Candidate._make` does, without a call in Python for each job."""


class Leased(NamedTuple):
    """The result of a lease."""

    granted: list[Granted]
    cut_short: bool = False
    """Whether the write's budget is used up: more may be available."""
    only_lane: int | None = None
    """The one lane that had work, if there was one only, whose jobs are all of one tier."""


def ahead(request: LeaseRequest, guess: int | None = None) -> list[Statement]:
    """A lease's first questions: which lanes have work, and the jobs of the most probable one.
    Wrongly guessed, they are locked for the moment of this write.
    """
    lanes: Statement = (LANES_WITH_WORK, (list(request.queues),))
    return [lanes] if guess is None else [lanes, first_jobs(guess, request.limit)]


def promote(step: Step) -> int:
    """Make due jobs pending; answers how many it found (at most PROMOTED_AT_ONCE)."""
    rows: list[Any] = step.execute(FIND_DUE, (step.now, PROMOTED_AT_ONCE)).fetchall()
    entries, events = [], []
    for status, *columns in rows:
        job = PendingEntry(*columns)
        entries.append(job)
        events.append((job.seq, job.events, step.now, status, job.attempts, job.version))
        before = Status.FAILED if status == STATUS_CODE[Status.FAILED] else Status.SCHEDULED
        step.move(job.lane, before, Status.PENDING)
    if entries:
        step.execute(FORGET_WAITING, ([job.seq for job in entries],))
        ReadyRows(step).enter(entries)
        step.many(RECORD_PROMOTED, events)
    return len(entries)


def next_due(step: Step, queues: Iterable[str]) -> int | None:
    """When the next waiting job is due, the next task that is held back may be probed, or the next
    job of these queues may start.
    """
    due = step.next_due
    if step.found.some_held or (due is not None and due <= step.now):
        row: Any = step.execute(NEXT_DUE, (step.now,)).fetchone()
        due = row[0]
    moments = [] if due is None else [due]
    if step.rules.paced:
        step.write_counters()
        moments += next_starts(Limits(step), queues)
    return min(moments, default=None)


def lease(step: Step, request: LeaseRequest, rounds: GroupRounds, life: int = NO_LIFE) -> Leased:
    """Take up to `limit` jobs, under this life of the worker."""
    if step.next_due is not None and step.next_due <= step.now:
        promote(step)
    rebalance(step, ReadyRows)
    granted: list[Granted] = []
    left = PASSED_OVER_AT_ONCE
    ruled = [queue for queue in request.queues if step.alone and queue in step.rules]
    more_rested = key_accounts.wake_rested(KeyShelf(step), ruled)
    parked: Sequence[Account] = ()
    after: int | None = None
    if request.parent_id is not None and step.rules.key_limits:
        parked, after = KeyShelf(step).parked_in_group(
            request.parent_id, rounds.after(request.parent_id)
        )
    while True:
        look = _Look(step, request, parked, len(granted), left)
        if not look.lanes and not more_rested:
            return Leased(granted)
        look.along_the_jobs()
        found, unreadable = read(step, request, look.lanes, look.taken)
        if unreadable:
            # Nothing is granted yet: without these, others are the best.
            for job, problem in unreadable[:left]:
                ending = Ending(standing(job), Status.DEAD, set_aside_reason(problem))
                Histories(step).end([ending])
            left -= len(unreadable)
            if left > 0:
                continue
            break
        look.write(found, life)
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
        # Others of their keys have taken the places of jobs that came too late.
    step.hints.ready = True
    return Leased(granted, cut_short=True)


class _Look:
    """One look at the jobs of a request: the candidates, and their treatment."""

    __slots__ = (
        "_limit",
        "_of_one_tier",
        "_parked",
        "_request",
        "_step",
        "lanes",
        "late",
        "taken",
        "turned_away",
        "walk",
    )

    def __init__(
        self,
        step: Step,
        request: LeaseRequest,
        parked: Sequence[Account],
        granted: int,
        late_max: int,
    ) -> None:
        """With the parked jobs of these accounts; so many jobs were granted already."""
        self._parked = parked
        self._step = step
        self._request = request
        self._limit = request.limit - granted
        self.lanes: dict[int, OpenLane] = {}
        """The lanes that have work, by number."""
        self._of_one_tier: set[int] = set()
        self.taken: list[Candidate] = []
        self.late: list[Candidate] = []
        self.turned_away: list[Candidate] = []
        # The counters say how many slots are free, so they must be true now.
        if step.rules:
            step.write_counters()
        queues = {queue.name: queue for queue in open_queues(Limits(step), request.queues)}
        for name, number, task, *breaker, first, last in step.first(*ahead(request)[0]):
            if name in queues and request.wants(name, task):
                state = BreakerState(*breaker)
                if state.held_until is not None:
                    step.must_be_alone()
                lane = open_lane(queues[name], task, state, step.now)
                if lane is not None:
                    self.lanes[number] = lane
                    if first == last:
                        self._of_one_tier.add(number)
        with_work = {lane.queue for lane in self.lanes.values()}
        free_of_key = partial(free_of, step)
        self.walk = Walk(
            step.now,
            self._limit,
            with_work,
            free_of_key,
            late_max,
            None if request.free_slots is None else request.free_slots - granted,
        )

    @property
    def only_lane(self) -> int | None:
        """The lane of all jobs that were looked at, if their order is that of the index."""
        numbers = list(self.lanes)
        return numbers[0] if len(numbers) == 1 and self._of_one_tier else None

    def along_the_jobs(self) -> None:
        """Look at the jobs, the best first; nothing is written."""
        walk, lanes = self.walk, self.lanes
        if walk.is_over:
            return
        take, cancel, park = Verdict.TAKE, Verdict.CANCEL, Verdict.PARK
        for job in map(_CANDIDATE, self._in_order()):
            verdict = walk.judge(lanes[job.lane], job.start_by, job.version, job.limit_key)
            if verdict is take:
                self.taken.append(job)
            elif verdict is cancel:
                self.late.append(job)
            elif verdict is park:
                self.turned_away.append(job)
            if walk.is_over:
                return

    def write(self, granted: list[Granted], life: int) -> None:
        """Grant the taken jobs, and see to the rest."""
        step = self._step
        for number, lane in self.lanes.items():
            if lane.probe is not None and lane.is_over:
                breakers.keep(step, number, lane.probe.probed(step.now))
        grant(step, granted, life)
        # Only now: to take these out or aside may move others, and those were read where they were.
        key_accounts.turn_away(
            KeyShelf(step),
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
        cancel_late(Histories(step), self.late)

    def _in_order(self) -> Iterable[Row]:
        """The jobs of the lanes, best first; of a limited queue only while it has free slots."""
        step, parent_id = self._step, self._request.parent_id
        # Rows that are read are locked: no more than may be taken.
        page = min(self._limit, max(lane.queue.free for lane in self.lanes.values()))
        looked_into = [
            Lane(number, self._scoring_of(lane), _asked_of(lane), number in self._of_one_tier)
            for number, lane in self.lanes.items()
        ]
        if parent_id is None:
            # A write that is alone may have changed the jobs that were asked for ahead.
            first = None if step.alone else step.first
            reader = LaneReader(step.db, FOR_LEASING, page=page, first=first)
            return in_order(reader, looked_into, step.now)
        # A job parked behind jobs of other groups is the best of its own.
        for account in self._parked:
            home = self.lanes.get(account.lane)
            if home is not None and self._may_run(account, home):
                may_run = partial(self._may_run, account, home)
                looked_into.append(Lane(account.parked_lane, self._scoring_of(home), may_run))
        group = LaneReader(step.db, FOR_LEASING_IN_GROUP, (parent_id,), page=page)
        return in_order(group, looked_into, step.now)

    def _may_run(self, account: Account, home: OpenLane) -> bool:
        return home.is_open and self.walk.free_of_key(account.queue, account.key) > 0

    def _scoring_of(self, lane: OpenLane) -> Scoring:
        rule = self._step.rules.get(lane.queue.name)
        return DEFAULT_SCORING if rule is None else rule.config.scoring


def _asked_of(lane: OpenLane) -> Callable[[], object] | None:
    """The question before each further row of a lane is read; None if all may be read."""
    unlimited = lane.probe is None and lane.queue.free >= UNLIMITED
    return None if unlimited else lambda: lane.is_open
