"""Submit: new jobs in, all or nothing, or each for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, Final, Self

import apsw
import msgspec

from leasehold.core.job import Draft
from leasehold.core.limits import IDEMPOTENCY_SECONDS
from leasehold.core.records import Submitted
from leasehold.core.refusals import id_is_taken
from leasehold.core.status import Status
from leasehold.env import to_micros
from leasehold.errors import (
    DuplicateJobError,
    LeaseholdError,
    QueueFullError,
)
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.leasing.ready import Entry
from leasehold.stores.sqlite.schema.codes import STATUS_CODE, STATUS_OF
from leasehold.stores.sqlite.submitting.gate import Gate
from leasehold.stores.sqlite.submitting.lanes import Lanes
from leasehold.stores.sqlite.writing.operation import Grouped
from leasehold.stores.sqlite.writing.step import Step

INSERT_JOB: Final = f"INSERT INTO job VALUES ({', '.join('?' * 20)})"  # noqa: S608  # placeholders
INSERT_WAITING: Final = "INSERT INTO waiting VALUES (?, ?, ?, ?, 0, 0, 1, NULL)"
JOB_EXISTS: Final = "SELECT 1 FROM job WHERE id = ?"
FIND_KEY: Final = """
    SELECT coalesce(job.id, pruned_key.id), idempotency.digest, idempotency.seq
    FROM idempotency LEFT JOIN job USING (seq) LEFT JOIN pruned_key USING (seq)
    WHERE idempotency.queue = ? AND idempotency.key = ? AND idempotency.expires_at > ?
"""
KEEP_KEY: Final = "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?)"
STATUS_NOW: Final = """
    SELECT coalesce(
        (SELECT status FROM waiting WHERE seq = :seq),
        (SELECT status FROM finished WHERE seq = :seq),
        (SELECT 3 FROM running WHERE seq = :seq),
        (SELECT status FROM pruned_key WHERE seq = :seq),
        2)
"""

_SCHEDULED = STATUS_CODE[Status.SCHEDULED]
_BLOCKED = STATUS_CODE[Status.BLOCKED]
_encode = msgspec.json.Encoder().encode


def submit(
    step: Step, lanes: Lanes, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError] | QueueFullError:
    """Store checked drafts. Without `partial`, the first bad one raises and nothing is stored.

    That a queue is full is answered, not raised: that so many were refused must be written down.
    """
    return through_gate(
        step,
        lanes,
        drafts,
        lambda gate: _submit(step, lanes, drafts, gate, partial=partial),
        partial=partial,
    )


def through_gate(
    step: Step,
    lanes: Lanes,
    drafts: Sequence[Draft],
    store: Callable[[Gate | None], list[Submitted | LeaseholdError]],
    *,
    partial: bool,
    is_pending: Callable[[Draft], bool] | None = None,
) -> list[Submitted | LeaseholdError] | QueueFullError:
    """Store what the rules of their queues let in; there is no gate where nothing is said."""
    if not step.rules and step.settings.draft_defaults is None:
        return store(None)
    gate = Gate(
        step,
        drafts,
        is_pending=is_pending or (lambda draft: due_of(draft, step.now) <= step.now),
        known=lambda draft: known_id(step, draft),
        partial=partial,
    )
    try:
        answers = store(gate)
    except QueueFullError as error:
        step.undo()
        gate.write_samples()
        for draft in drafts:
            step.count(lanes.number(step, draft.queue, draft.task), "total_rejected")
        return error
    gate.write_down()
    return answers


def _submit(
    step: Step, lanes: Lanes, drafts: Sequence[Draft], gate: Gate | None, *, partial: bool
) -> list[Submitted | LeaseholdError]:
    if partial or any(draft.idempotency_key is not None for draft in drafts):
        return [_submit_one(step, lanes, draft, gate, partial=partial) for draft in drafts]
    if gate is not None:
        drafts = _admit_all(step, drafts, gate)
    try:
        return insert(step, lanes, drafts)
    except apsw.ConstraintError:
        # Without this, the rows that went in before the clash would be taken for older jobs.
        step.undo()
        clash = _duplicate(step, drafts)
        assert clash is not None, "SQLite found a duplicate that is not there"
        raise clash from None


def _admit_all(step: Step, drafts: Sequence[Draft], gate: Gate) -> list[Draft]:
    """Ask the gate about each; what stands against the first draft that is bad is raised."""
    admitted: list[Draft] = []
    for draft in drafts:
        try:
            admitted.append(gate.admit(draft))
        except LeaseholdError as error:
            # Ids are only compared when the jobs are stored; one of them may have been bad before.
            raise _duplicate(step, drafts[: len(admitted) + 1]) or error from None
    return admitted


class PlainSubmit(Grouped[list[Submitted | LeaseholdError] | QueueFullError]):
    """A submit of jobs without idempotency keys: several that wait share their statements."""

    __slots__ = ("drafts", "lanes")

    def __init__(self, lanes: Lanes, drafts: Sequence[Draft]) -> None:
        self.lanes = lanes
        self.drafts = drafts

    def __call__(self, step: Step) -> list[Submitted | LeaseholdError] | QueueFullError:
        return submit(step, self.lanes, self.drafts, partial=False)

    @classmethod
    def together(
        cls, step: Step, operations: Sequence[Self]
    ) -> list[list[Submitted | LeaseholdError] | QueueFullError]:
        """All of them as one; raises if any of them would."""
        drafts = [draft for each in operations for draft in each.drafts]
        stored = submit(step, operations[0].lanes, drafts, partial=False)
        if isinstance(stored, QueueFullError):
            raise stored  # Together they are too many; one by one, some may still find room.
        answers = iter(stored)
        return [list(islice(answers, len(each.drafts))) for each in operations]


def _submit_one(
    step: Step, lanes: Lanes, draft: Draft, gate: Gate | None, *, partial: bool
) -> Submitted | LeaseholdError:
    try:
        known = known_key(step, draft)
        if known is not None:
            return known
        if step.execute(JOB_EXISTS, (draft.id,)).fetchone():
            raise id_is_taken(draft.id)
        if gate is not None:
            draft = gate.admit(draft)
    except LeaseholdError as error:
        if not partial:
            raise
        if isinstance(error, QueueFullError):
            step.count(lanes.number(step, draft.queue, draft.task), "total_rejected")
        return error
    seq = step.next_seq
    answer = insert(step, lanes, (draft,))[0]
    if draft.idempotency_key is not None:
        key = (draft.queue, draft.idempotency_key, seq, draft.fingerprint())
        step.execute(KEEP_KEY, (*key, step.now + IDEMPOTENCY_SECONDS * 1_000_000))
    return answer


def known_key(step: Step, draft: Draft) -> Submitted | None:
    """The answer to a draft whose idempotency key was used before; raises if for another job."""
    row = _find_key(step, draft)
    if row is None:
        return None
    first_id, digest, seq = row
    if digest != draft.fingerprint():
        raise draft.conflict_with(first_id)
    status = step.execute(STATUS_NOW, {"seq": seq}).fetchone()
    assert status is not None
    return Submitted(first_id, STATUS_OF[status[0]], is_duplicate=True)


def known_id(step: Step, draft: Draft) -> str | None:
    """The job that a draft's idempotency key stands for, if it was used before."""
    row = _find_key(step, draft)
    return None if row is None else row[0]


def _find_key(step: Step, draft: Draft) -> Any:
    if draft.idempotency_key is None:
        return None
    row = step.execute(FIND_KEY, (draft.queue, draft.idempotency_key, step.now)).fetchone()
    return None if row is None or row[0] is None else row


def insert(
    step: Step, lanes: Lanes, drafts: Sequence[Draft], blocked: Collection[str] = ()
) -> list[Submitted | LeaseholdError]:
    """Make jobs of drafts that nothing stands against; those in `blocked` are born so."""
    jobs, newcomers, entries = [], [], []
    lowered = _with_max_priority(step)
    key_limits = step.rules.key_limits
    waiting: list[tuple[int, int, int | None, int]] = []
    answers: list[Submitted | LeaseholdError] = []
    born: Counter[tuple[int, Status]] = Counter()
    now = step.now
    seq = step.next_seq
    for draft in drafts:
        lane = lanes.number(step, draft.queue, draft.task)
        due = due_of(draft, now)
        if blocked and draft.id in blocked:
            status = Status.BLOCKED
            waiting.append((seq, _BLOCKED, None, now))
        elif due <= now:
            status = Status.PENDING
            if (
                draft.deadline is None
                and draft.queue not in lowered
                and (draft.limit_key is None or draft.queue not in key_limits)
            ):
                newcomers.append((lane, draft.priority, now, seq, draft.parent_id))
            else:
                entries.append(_entry(seq, lane, draft, now))
        else:
            status = Status.SCHEDULED
            waiting.append((seq, _SCHEDULED, due, now))
        jobs.append(_job_row(seq, lane, status, draft, now))
        answers.append(Submitted(draft.id, status))
        born[lane, status] += 1
        seq += 1
    step.next_seq = seq
    for (lane, status), count in born.items():
        step.count(lane, status.value, count)
        step.count(lane, "total_submitted", count)
    step.executemany(INSERT_JOB, jobs)
    ready.enter_new(step, newcomers)
    if entries:
        ready.enter(step, entries)
    if waiting:
        step.executemany(INSERT_WAITING, waiting)
    # A delayed job wakes workers too: it may be due before anything they know of.
    step.hints.ready = True
    return answers


def _with_max_priority(step: Step) -> Collection[str]:
    """The queues in which even a new job may not stand where its own priority says."""
    if not step.rules:
        return ()
    return {name for name, rule in step.rules.items() if rule.config.max_priority is not None}


def _entry(seq: int, lane: int, draft: Draft, now: int) -> Entry:
    return Entry(
        seq=seq,
        lane=lane,
        priority=draft.priority,
        base=draft.priority,
        version=0,
        attempts=0,
        events=1,
        available_at=now,
        created_at=now,
        deadline=None if draft.deadline is None else to_micros(draft.deadline),
        parent_id=draft.parent_id,
    )


def due_of(draft: Draft, now: int) -> int:
    """When a job that is submitted now may run at the earliest."""
    if draft.run_at is not None:
        return max(now, to_micros(draft.run_at))
    if draft.delay_seconds:
        return now + round(draft.delay_seconds * 1e6)
    return now


def _job_row(seq: int, lane: int, status: Status, draft: Draft, now: int) -> tuple[object, ...]:
    within = draft.start_within_seconds
    allowance = draft.allowance
    return (
        seq,
        draft.id,
        lane,
        draft.priority,
        STATUS_CODE[status],
        now,
        allowance - 1,
        allowance,
        draft.timeout_seconds,
        draft.lease_seconds,
        None if draft.deadline is None else to_micros(draft.deadline),
        None if within is None else now + round(within * 1e6),
        draft.result_ttl_seconds,
        None if draft.retry is None else _encode(draft.retry).decode(),
        None if draft.metadata is None else _encode(draft.metadata).decode(),
        draft.idempotency_key,
        draft.parent_id,
        None if draft.codec == "json" else draft.codec,
        draft.payload,
        draft.limit_key,
    )


def _duplicate(step: Step, drafts: Sequence[Draft]) -> DuplicateJobError | None:
    """The error for the first draft whose id is taken; None if none is."""
    seen: set[str] = set()
    for draft in drafts:
        if draft.id in seen or step.execute(JOB_EXISTS, (draft.id,)).fetchone():
            return id_is_taken(draft.id)
        seen.add(draft.id)
    return None
