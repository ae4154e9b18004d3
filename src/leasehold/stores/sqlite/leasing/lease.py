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
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import key_accounts
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.key_accounts import Account
from leasehold.core.rules.leasing import OpenLane, Verdict, Walk, open_lane
from leasehold.core.rules.placing import PendingEntry
from leasehold.core.rules.queue_limits import next_starts, open_queues
from leasehold.core.rules.serving import Lane, Row, in_order
from leasehold.stores.sqlite.leasing import damage
from leasehold.stores.sqlite.leasing.damage import Damaged
from leasehold.stores.sqlite.leasing.ends import Histories
from leasehold.stores.sqlite.leasing.grant import Granted, grant, read
from leasehold.stores.sqlite.leasing.order import (
    FOR_LEASING,
    FOR_LEASING_IN_GROUP,
    Candidate,
    LaneReader,
)
from leasehold.stores.sqlite.leasing.parking import KeyShelf
from leasehold.stores.sqlite.leasing.ready import ReadyRows
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import breakers
from leasehold.stores.tables.late import cancel_late
from leasehold.stores.tables.parking import free_of
from leasehold.stores.tables.queue_limits import Limits
from leasehold.stores.tables.rebalance import rebalance

# A due job moves from waiting to ready, and its history says so: its status, then the columns of an
# Entry. Guard: due, not blocked.
FIND_DUE: Final = """
    SELECT waiting.status, waiting.seq, lane.id, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = waiting.seq), priority),
           version, attempts, events + 1, due, created_at, deadline, parent_id
    FROM waiting JOIN job USING (seq) LEFT JOIN lane ON lane.id = job.lane
    WHERE due <= ? ORDER BY due LIMIT ?
"""
FORGET_WAITING: Final = "DELETE FROM waiting WHERE seq = ?"
RECORD_PROMOTED: Final = "INSERT INTO event VALUES (?, ?, ?, 1, ?, 2, ?, NULL, ?, NULL)"
# A value that is no number is above all numbers, and left out.
NEXT_DUE: Final = f"SELECT min(due) FROM waiting WHERE due <= {MOMENT_MAX}"  # noqa: S608  # our own number
# A due job is available; if no lease took it, its queue is paused or full.
NEXT_PROBE: Final = "SELECT min(held_until) FROM lane WHERE pending > 0 AND held_until > ?"

LANES_WITH_WORK: Final = """
    SELECT id, task, failures_in_row, held_until, hold_micros FROM lane
    WHERE queue = ? AND pending > 0
"""


class Leased(NamedTuple):
    """The result of a lease."""

    granted: list[Granted]
    cut_short: bool = False
    """Whether the write's budget is used up: more may be available."""


def promote(step: Step) -> int:
    """Make due jobs pending; answers how many it found (at most PROMOTED_AT_ONCE)."""
    rows: list[Any] = step.execute(FIND_DUE, (step.now, PROMOTED_AT_ONCE)).fetchall()
    entries, events = [], []
    for status, *columns in rows:
        job = PendingEntry(*columns)
        if job.lane is None:
            damage.set_aside(step, Damaged(job.seq, "it belongs to no queue and task"))
            continue
        entries.append(job)
        events.append((job.seq, job.events, step.now, status, job.attempts, job.version))
        before = Status.FAILED if status == STATUS_CODE[Status.FAILED] else Status.SCHEDULED
        step.move(job.lane, before, Status.PENDING)
    if entries:
        step.executemany(FORGET_WAITING, [(job.seq,) for job in entries])
        ReadyRows(step).enter(entries)
        step.executemany(RECORD_PROMOTED, events)
    return len(entries)


def next_due(step: Step, queues: Iterable[str]) -> int | None:
    """When the next waiting job is due, the next task that is held back may be probed, or the next
    job of these queues may start.
    """
    rows = (step.execute(NEXT_DUE).fetchone(), step.execute(NEXT_PROBE, (step.now,)).fetchone())
    moments = [row[0] for row in rows if row and row[0] is not None]
    if step.rules.paced:
        step.write_counters()
        moments += next_starts(Limits(step), queues)
    return min(moments, default=None)


def lease(step: Step, request: LeaseRequest, rounds: GroupRounds, life: int = NO_LIFE) -> Leased:
    """Take up to `limit` jobs, under this life of the worker."""
    promote(step)
    rebalance(step, ReadyRows)
    granted: list[Granted] = []
    left = PASSED_OVER_AT_ONCE
    ruled = [queue for queue in request.queues if queue in step.rules]
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
            for seq, problem in unreadable[:left]:
                damage.set_aside(step, Damaged(seq, problem_with(step.db, seq) or problem))
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
            return Leased(granted)
        # Others of their keys have taken the places of jobs that came too late.
    step.hints.ready = True
    return Leased(granted, cut_short=True)


# As `_make`, but nothing of it is Python code: it is done for every job.
_AS_CANDIDATE: Final = partial(tuple.__new__, Candidate)


class _Look:
    """One look at the jobs of a request: the candidates, and their treatment."""

    __slots__ = ("_parked", "_request", "_step", "lanes", "late", "taken", "turned_away", "walk")

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
        self.lanes: dict[int, OpenLane] = {}
        """The lanes that have work, by number."""
        self.taken: list[Candidate] = []
        self.late: list[Candidate] = []
        self.turned_away: list[Candidate] = []
        # The counters say which lanes have work, so they must be true now.
        step.write_counters()
        queues = list(open_queues(Limits(step), request.queues))
        for queue in queues:
            for number, task, *breaker in step.execute(LANES_WITH_WORK, (queue.name,)):
                if request.wants(queue.name, task):
                    lane = open_lane(queue, task, BreakerState(*breaker), step.now)
                    if lane is not None:
                        self.lanes[number] = lane
        with_work = {lane.queue for lane in self.lanes.values()}
        free_of_key = partial(free_of, step)
        self.walk = Walk(
            step.now,
            request.limit - granted,
            with_work,
            free_of_key,
            late_max,
            None if request.free_slots is None else request.free_slots - granted,
        )

    def along_the_jobs(self) -> None:
        """Look at the jobs, the best first; nothing is written."""
        walk, lanes = self.walk, self.lanes
        if walk.is_over:
            return
        take, cancel, park = Verdict.TAKE, Verdict.CANCEL, Verdict.PARK
        for job in map(_AS_CANDIDATE, self._in_order()):
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
        looked_into = [
            Lane(number, self._scoring_of(lane), _asked_of(lane))
            for number, lane in self.lanes.items()
        ]
        if parent_id is None:
            return in_order(LaneReader(step.db, FOR_LEASING), looked_into, step.now)
        # A job parked behind jobs of other groups is the best of its own.
        for account in self._parked:
            home = self.lanes.get(account.lane)
            if home is not None and self._may_run(account, home):
                may_run = partial(self._may_run, account, home)
                looked_into.append(Lane(account.parked_lane, self._scoring_of(home), may_run))
        group = LaneReader(step.db, FOR_LEASING_IN_GROUP, (parent_id,))
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
