"""What a job's end does to the jobs that wait for it.

Whoever ends a job says so by `step.job_ended`, and its dependents are dealt with in the same write.
Guard: the row in `blocker` is deleted, so each end counts once.

One write deals with so many; a job that still blocks others then has a row in `resolving`, written
with its end, and the next write goes on from there, whichever process does it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from leasehold.core.dependencies import consequence, told
from leasehold.core.status import Event, Status
from leasehold.stores.sqlite.keeping.erase import erase
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.leasing.lease import FORGET_WAITING
from leasehold.stores.sqlite.leasing.ready import Entry
from leasehold.stores.sqlite.leasing.state import JobState, end_waiting
from leasehold.stores.sqlite.schema.codes import EVENT_CODE, POLICY_OF, STATUS_CODE, STATUS_OF
from leasehold.stores.sqlite.submitting import inheritance
from leasehold.stores.sqlite.writing.step import INSERT_EVENT, Step

REMEMBER: Final = """
    INSERT OR IGNORE INTO resolving (seq)
    SELECT seq FROM job JOIN finished USING (seq)
    WHERE id IN (SELECT value FROM json_each(?))
        AND EXISTS (SELECT 1 FROM blocker WHERE needs = job.seq)
"""
NEXT_ENDED: Final = """
    SELECT seq, job.id, finished.status, finished.reason, purged
    FROM resolving CROSS JOIN job USING (seq) CROSS JOIN finished USING (seq) LIMIT 1
"""
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

Dependent = tuple[Any, ...]


def resolve(step: Step) -> None:
    """Deal with dependents of jobs that have ended, in this write or an earlier one.

    Called after every operation: where nobody waits, it looks at a few flags and is done.
    """
    _resolve(step)
    if step.lowered:
        inheritance.lower(step)


def _resolve(step: Step) -> None:
    _remember(step)
    while step.some_unresolved:
        ended = step.execute(NEXT_ENDED).fetchone()
        if ended is None:
            step.some_unresolved = False
            return
        if step.dependents_left <= 0:
            # Workers are woken, since their next exchange goes on with it.
            step.hints.unresolved = step.hints.ready = True
            return
        asked_for = step.dependents_left
        if _tell(step, ended, asked_for) < asked_for:
            step.execute(RESOLVED, (ended[0],))
            inheritance.ended(step, ended[0])
            if ended[4]:
                erase(step, ended[0])
        # Some of them may have been ended just now, and others wait for those.
        _remember(step)


def _remember(step: Step) -> None:
    """Note which of the jobs that this operation has ended block others."""
    if step.somebody_waits and step.ended:
        step.execute(REMEMBER, (msgspec.json.encode(step.ended).decode(),))
        step.some_unresolved = step.some_unresolved or step.db.changes() > 0
    step.ended.clear()


def _tell(step: Step, ended: tuple[Any, ...], limit: int) -> int:
    """Tell up to `limit` dependents of one job's end; answers how many there were."""
    needed, needed_id, code, reason, _ = ended
    status = STATUS_OF[code]
    dependents: list[Dependent] = step.execute(BLOCKED_BY, (needed, limit)).fetchall()
    # Looking counts too: whom a job blocked may have been ended by another, many times over.
    step.dependents_left -= max(1, len(dependents))
    step.executemany(UNBLOCK, [(needed, dependent[0]) for dependent in dependents])
    message = told(needed_id, status, reason)
    free: list[Dependent] = []
    for dependent in dependents:
        after = consequence(POLICY_OF[dependent[5]], status)
        if after is not None:
            _end(step, dependent, after, needed, message)
        elif not dependent[-1]:
            free.append(dependent)
    _unblock(step, free, message)
    return len(dependents)


def _end(step: Step, dependent: Dependent, after: Status, needed: int, message: str) -> None:
    seq, job_id, lane, _, _, _, due, version, attempts, events, *_ = dependent
    step.execute(ENDED_BY, (needed, seq))
    job = JobState(seq, job_id, lane, Status.BLOCKED, version, attempts, events, due)
    end_waiting(step, job, after, message)


def _unblock(step: Step, dependents: list[Dependent], message: str) -> None:
    """Nobody is in their way any more: they are pending, or scheduled until they are due."""
    if not dependents:
        return
    entries, scheduled, told_events = [], [], []
    for dependent in dependents:
        seq, _, lane, priority, parent_id, _, due, version, attempts, events, *rest = dependent
        n = events + 1
        if due <= step.now:
            after = Status.PENDING
            created_at, deadline, base, _ = rest
            state = (version, attempts, n, step.now, created_at, deadline, parent_id)
            entries.append(Entry(seq, lane, priority, base, *state))
        else:
            after = Status.SCHEDULED
            scheduled.append((seq, due, step.now, version, attempts, n))
        code = STATUS_CODE[after]
        told_events.append(
            (seq, n, step.now, _UNBLOCKED, _BLOCKED, code, attempts, None, version, message)
        )
        step.move(lane, Status.BLOCKED, after)
    step.executemany(FORGET_WAITING, [(dependent[0],) for dependent in dependents])
    ready.enter(step, entries)
    step.executemany(SCHEDULE, scheduled)
    step.executemany(INSERT_EVENT, told_events)
    step.hints.ready = True
