"""The jobs that wait for one that has ended; `core.rules.resolving` decides.

Whoever ends jobs says so by `step.jobs_ended`, and dependents are dealt with in the same write.
Guard: the row in `blocker` is deleted, so each end counts once.

One write deals with so many; a job that still blocks others then has a row in `resolving`, written
with its end, and the next write goes on from there, whichever process does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

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
from leasehold.stores.sqlite.keeping.removing import erase
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.leasing.lease import FORGET_WAITING
from leasehold.stores.sqlite.leasing.state import JobState, end_waiting
from leasehold.stores.sqlite.schema.rows import ENDED_STATUS
from leasehold.stores.sqlite.submitting import inheritance
from leasehold.stores.sqlite.writing.step import INSERT_EVENT, Step
from leasehold.stores.tables.inheritance import fall_back

REMEMBER: Final = """
    INSERT OR IGNORE INTO resolving (seq)
    SELECT seq FROM job JOIN finished USING (seq)
    WHERE id IN (SELECT value FROM json_each(?))
        AND EXISTS (SELECT 1 FROM blocker WHERE needs = job.seq)
"""
# Whatever its row holds: should this fail, so would every write from then on.
NEXT_ENDED: Final = f"""
    SELECT seq, CAST(job.id AS BLOB), {ENDED_STATUS}, CAST(finished.reason AS BLOB), purged IS 1
    FROM resolving CROSS JOIN job USING (seq) CROSS JOIN finished USING (seq)
    ORDER BY seq LIMIT 1
"""  # noqa: S608  # our own names
RESOLVED: Final = "DELETE FROM resolving WHERE seq = ?"
BLOCKED_BY: Final = """
    SELECT blocker.seq, job.id, job.lane, job.priority, job.parent_id, dependent.policy,
           dependent.due, waiting.version, waiting.attempts, waiting.events, job.created_at,
           job.deadline,
           coalesce((SELECT base FROM raised WHERE raised.seq = blocker.seq), job.priority),
           EXISTS (SELECT 1 FROM blocker AS other
                   WHERE other.seq = blocker.seq AND other.needs <> ?1)
    FROM blocker CROSS JOIN waiting USING (seq) CROSS JOIN dependent USING (seq)
        CROSS JOIN job USING (seq)
    WHERE blocker.needs = ?1 LIMIT ?2
"""
UNBLOCK: Final = "DELETE FROM blocker WHERE needs = ? AND seq = ?"
SCHEDULE: Final = "INSERT INTO waiting VALUES (?, 0, ?, ?, ?, ?, ?, NULL)"
ENDED_BY: Final = "UPDATE dependent SET ended_by = ? WHERE seq = ?"

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
    waits_for_others: int


class Links:
    """See `leasehold.core.rules.resolving.Links`; what has ended goes by its number."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.now = step.now

    def next_ended(self) -> Ended[Any] | None:
        step = self._step
        # Some may have ended just now, and others wait for those.
        _remember(step)
        if not step.some_unresolved:
            return None
        row: Any = step.execute(NEXT_ENDED).fetchone()
        if row is None:
            step.some_unresolved = False
            return None
        seq, job_id, code, reason, purged = row
        said = None if reason is None else reason.decode(errors="replace")
        return Ended(seq, job_id.decode(errors="replace"), STATUS_OF[code], said, bool(purged))

    def take_dependents(self, ended: Ended[Any], limit: int) -> Sequence[Dependent[Any]]:
        rows: Any = self._step.execute(BLOCKED_BY, (ended.job, limit)).fetchall()
        found = [Blocked(*row) for row in rows]
        self._step.executemany(UNBLOCK, [(ended.job, each.seq) for each in found])
        return [
            Dependent(each, POLICY_OF[each.policy], each.due, bool(each.waits_for_others))
            for each in found
        ]

    def end(self, dependent: Blocked, after: Status, ended: Ended[Any], message: str) -> None:
        self._step.execute(ENDED_BY, (ended.job, dependent.seq))
        seq, job_id, lane, _, _, _, due, version, attempts, events, *_ = dependent
        job = JobState(seq, job_id, lane, Status.BLOCKED, version, attempts, events, due)
        end_waiting(self._step, job, after, message)

    def free(self, pending: Sequence[Blocked], scheduled: Sequence[Blocked], message: str) -> None:
        step, now = self._step, self.now
        step.executemany(FORGET_WAITING, [(each.seq,) for each in (*pending, *scheduled)])
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
        step.executemany(
            SCHEDULE,
            [
                (each.seq, each.due, now, each.version, each.attempts, each.events + 1)
                for each in scheduled
            ],
        )
        for after, jobs in ((Status.PENDING, pending), (Status.SCHEDULED, scheduled)):
            step.executemany(
                INSERT_EVENT,
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
        step.execute(REMEMBER, (msgspec.json.encode(step.ended).decode(),))
        step.some_unresolved = step.some_unresolved or step.db.changes() > 0
    step.ended.clear()
