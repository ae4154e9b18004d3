"""The jobs that wait for one that has ended; `core.rules.resolving` decides.

Whoever ends jobs says so by `step.jobs_ended`, and dependents are dealt with in the same write.
Guard: the row in `blocker` is deleted, so each end counts once.

One write deals with so many; a job that still blocks others then has a row in `resolving`, written
with its end, and the next write goes on from there, whichever process does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from leasehold.core.model.codes import (
    EVENT_CODE,
    POLICY_OF,
    STATUS_CODE,
    STATUS_OF,
)
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import resolving
from leasehold.core.rules.placing import PendingEntry
from leasehold.core.rules.resolving import Dependent, Ended
from leasehold.stores.postgres.keeping.erase import erase
from leasehold.stores.postgres.leasing import ready
from leasehold.stores.postgres.leasing.lease import FORGET_WAITING
from leasehold.stores.postgres.leasing.state import Ending, JobState, end_all_waiting
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.submitting import inheritance
from leasehold.stores.postgres.writing.step import INSERT_EVENTS, Step
from leasehold.stores.tables.inheritance import fall_back

REMEMBER: Final = """
    INSERT INTO resolving (seq)
    SELECT seq FROM job JOIN finished USING (seq)
    WHERE id = ANY($1)
        AND EXISTS (SELECT 1 FROM blocker WHERE needs = job.seq)
    ON CONFLICT DO NOTHING
"""
NEXT_ENDED: Final = """
    SELECT seq, job.id, finished.status, finished.reason, purged
    FROM resolving JOIN job USING (seq) JOIN finished USING (seq)
    ORDER BY seq LIMIT 1
"""
RESOLVED: Final = "DELETE FROM resolving WHERE seq = $1"
BLOCKED_BY: Final = """
    SELECT blocker.seq, job.id, job.lane, job.priority, job.parent_id, dependent.policy,
           dependent.due, waiting.version, waiting.attempts, waiting.events, job.created_at,
           job.deadline,
           coalesce((SELECT base FROM raised WHERE raised.seq = blocker.seq), job.priority),
           EXISTS (SELECT 1 FROM blocker AS other
                   WHERE other.seq = blocker.seq AND other.needs <> $1)
    FROM blocker JOIN waiting USING (seq) JOIN dependent USING (seq)
        JOIN job USING (seq)
    WHERE blocker.needs = $1 LIMIT $2
"""
UNBLOCK: Final = "DELETE FROM blocker WHERE needs = $1 AND seq = ANY($2)"
SCHEDULE: Final = f"""
    INSERT INTO waiting (status, seq, due, since, version, attempts, events)
    SELECT 0, * FROM {unnested("bigint bigint bigint bigint bigint bigint")}
"""  # noqa: S608  # our own names
ENDED_BY: Final = f"""
    UPDATE dependent SET ended_by = ending.by
    FROM {unnested("bigint bigint")} AS ending (seq, by) WHERE dependent.seq = ending.seq
"""  # noqa: S608  # our own names

_UNBLOCKED: Final = EVENT_CODE[Event.UNBLOCKED]
_BLOCKED: Final = STATUS_CODE[Status.BLOCKED]


class Blocked(NamedTuple):
    """A row of BLOCKED_BY."""

    seq: int
    id: str
    lane: int
    priority: int
    parent_id: str | None
    policy: int
    due: int
    version: int
    attempts: int
    events: int
    created_at: int
    deadline: int | None
    base: int
    waits_for_others: bool


class Links:
    """See `leasehold.core.rules.resolving.Links`; what has ended goes by its number."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.now = step.now
        self._ending: list[tuple[Ending, int]] = []
        """Dependents to be ended, and by whose end; gathered until somebody looks."""

    def next_ended(self) -> Ended[Any] | None:
        step = self._step
        # Some may have ended just now, and others wait for those.
        self._end_all()
        _remember(step)
        if not step.some_unresolved:
            return None
        row: Any = step.execute(NEXT_ENDED).fetchone()
        if row is None:
            step.some_unresolved = False
            return None
        seq, job_id, code, reason, purged = row
        return Ended(seq, job_id, STATUS_OF[code], reason, bool(purged))

    def take_dependents(self, ended: Ended[Any], limit: int) -> Sequence[Dependent[Any]]:
        rows: Any = self._step.execute(BLOCKED_BY, (ended.job, limit)).fetchall()
        found = [Blocked(*row) for row in rows]
        self._step.execute(UNBLOCK, (ended.job, [each.seq for each in found]))
        return [
            Dependent(each, POLICY_OF[each.policy], each.due, bool(each.waits_for_others))
            for each in found
        ]

    def end(self, dependent: Blocked, after: Status, ended: Ended[Any], message: str) -> None:
        stood = (dependent.version, dependent.attempts, dependent.events, dependent.due, None)
        job = JobState(
            dependent.seq, dependent.id, dependent.lane, Status.BLOCKED, *stood, dependent.priority
        )
        self._ending.append((Ending(job, after, message), ended.job))

    def _end_all(self) -> None:
        if self._ending:
            self._step.many(ENDED_BY, [(each.job.seq, by) for each, by in self._ending])
            end_all_waiting(self._step, [each for each, _ in self._ending])
            self._ending = []

    def free(self, pending: Sequence[Blocked], scheduled: Sequence[Blocked], message: str) -> None:
        self._end_all()
        step, now = self._step, self.now
        step.execute(FORGET_WAITING, ([each.seq for each in (*pending, *scheduled)],))
        ready.enter(
            step,
            [
                PendingEntry(
                    each.seq, each.lane, each.priority, each.base, each.version, each.attempts,
                    each.events + 1, now, each.created_at, each.deadline, each.parent_id,
                )
                for each in pending
            ],
        )  # fmt: skip
        step.many(
            SCHEDULE,
            [
                (each.seq, each.due, now, each.version, each.attempts, each.events + 1)
                for each in scheduled
            ],
        )
        step.due_at(each.due for each in scheduled)
        for after, jobs in ((Status.PENDING, pending), (Status.SCHEDULED, scheduled)):
            step.many(
                INSERT_EVENTS,
                [
                    (
                        each.seq, each.events + 1, now, _UNBLOCKED, _BLOCKED, STATUS_CODE[after],
                        each.attempts, None, each.version, message,
                    )
                    for each in jobs
                ],
            )  # fmt: skip
            for each in jobs:
                step.move(each.lane, Status.BLOCKED, after)
        step.hints.ready = True

    def all_told(self, ended: Ended[Any]) -> None:
        self._end_all()
        self._step.execute(RESOLVED, (ended.job,))
        fall_back(self._step, ended.job)
        if ended.is_purged:
            erase(self._step, ended.job)


def resolve(step: Step) -> None:
    """Deal with dependents of jobs that have ended, in this write or an earlier one.

    Called after every operation: where nobody waits, it looks at a few flags and is done.
    """
    if step.ended or step.some_unresolved:
        links = Links(step)
        step.dependents_left = resolving.resolve(links, step.dependents_left)
        if links.next_ended() is not None:
            # Workers are woken, since their next exchange goes on with it.
            step.hints.unresolved = step.hints.ready = True
    if step.lowered or step.inheriting or step.some_inheriting:
        inheritance.Bases(step).go_on()


def some_to_tell(step: Step) -> bool:
    """Whether jobs have ended whose dependents are still to be told."""
    _remember(step)
    return step.some_unresolved


def _remember(step: Step) -> None:
    """Note which of the jobs that this operation has ended block others."""
    if step.somebody_waits and step.ended:
        found = step.db.changed(REMEMBER, (step.ended,))
        step.some_unresolved = step.some_unresolved or found > 0
    step.ended.clear()
