"""Lease in the words of this database; see `tables.leasing`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PROMOTED_AT_ONCE
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.lives import NO_LIFE
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.leasing import OpenQueue
from leasehold.stores.sqlite.leasing import damage
from leasehold.stores.sqlite.leasing.damage import Damaged
from leasehold.stores.sqlite.leasing.ends import Histories
from leasehold.stores.sqlite.leasing.grant import grant, read
from leasehold.stores.sqlite.leasing.order import FOR_LEASING, FOR_LEASING_IN_GROUP, LaneReader
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import leasing
from leasehold.stores.tables.granting import Granted
from leasehold.stores.tables.leasing import Leased, TableLook
from leasehold.stores.tables.order import Candidate

# A due job moves from waiting to ready, and its history says so: its status, then the columns of an
# Entry. Guard: due, not blocked.
FIND_DUE: Final = """
    SELECT waiting.status, waiting.seq, lane.id, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = waiting.seq), priority),
           version, attempts, events + 1, due, created_at, deadline, parent_id
    FROM waiting JOIN job USING (seq) LEFT JOIN lane ON lane.id = job.lane
    WHERE due <= ? ORDER BY due LIMIT ?
"""
# A value that is no number is above all numbers, and left out.
NEXT_DUE: Final = f"SELECT min(due) FROM waiting WHERE due <= {MOMENT_MAX}"  # noqa: S608  # our own number
# A due job is available; if no lease took it, its queue is paused or full.
NEXT_PROBE: Final = "SELECT min(held_until) FROM lane WHERE pending > 0 AND held_until > ?"

LANES_WITH_WORK: Final = """
    SELECT id, task, failures_in_row, held_until, hold_micros FROM lane
    WHERE queue = ? AND pending > 0
"""


def promote(step: Step) -> int:
    """Make due jobs pending; answers how many it found (at most PROMOTED_AT_ONCE)."""
    found: list[Any] = step.execute(FIND_DUE, (step.now, PROMOTED_AT_ONCE)).fetchall()
    return leasing.enter_due(step, Histories, [row for row in found if _has_lane(step, row)])


def _has_lane(step: Step, row: tuple[Any, ...]) -> bool:
    """Whether a due job belongs anywhere; one that does not is set aside."""
    _, seq, lane, *_ = row
    if lane is None:
        damage.set_aside(step, Damaged(seq, "it belongs to no queue and task"))
    return lane is not None


def next_due(step: Step, queues: Iterable[str]) -> int | None:
    """When the next waiting job is due, the next task that is held back may be probed, or the next
    job of these queues may start.
    """
    rows = (step.execute(NEXT_DUE).fetchone(), step.execute(NEXT_PROBE, (step.now,)).fetchone())
    return leasing.next_moment(step, [row[0] for row in rows if row], queues)


def lease(step: Step, request: LeaseRequest, rounds: GroupRounds, life: int = NO_LIFE) -> Leased:
    """Take up to `limit` jobs, under this life of the worker."""
    promote(step)
    return leasing.lease(step, request, rounds, life, Look)


class Look(TableLook):
    """One look at the jobs of a request."""

    __slots__ = ()
    histories = Histories
    counters_tell_of_work = True
    _step: Step

    def _find_lanes(self, queues: Mapping[str, OpenQueue]) -> None:
        for queue in queues.values():
            for number, task, *breaker in self._step.execute(LANES_WITH_WORK, (queue.name,)):
                self._open(queue, number, task, BreakerState(*breaker))

    def _reader(self, parent_id: str | None) -> LaneReader:
        if parent_id is None:
            return LaneReader(self._step.db, FOR_LEASING)
        return LaneReader(self._step.db, FOR_LEASING_IN_GROUP, (parent_id,))

    def read(self) -> tuple[list[Granted], list[tuple[Candidate, str]]]:
        return read(self._step, self._request, self.lanes, self.taken)

    def set_aside(self, job: Candidate, problem: str) -> None:
        step = self._step
        damage.set_aside(step, Damaged(job.seq, problem_with(step.db, job.seq) or problem))

    def _grant(self, granted: list[Granted], life: int) -> None:
        grant(self._step, granted, life)
