"""Submit: new jobs in, all or nothing, or each for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from leasehold.core.job import Draft
from leasehold.core.limits import IDEMPOTENCY_SECONDS
from leasehold.core.status import Status
from leasehold.core.store import Submitted
from leasehold.env import to_micros
from leasehold.errors import (
    DuplicateJobError,
    LeaseholdError,
)
from leasehold.stores.sqlite.codes import STATUS_CODE, STATUS_OF
from leasehold.stores.sqlite.lanes import Lanes
from leasehold.stores.sqlite.step import Step

INSERT_JOB: Final = f"INSERT INTO job VALUES ({', '.join('?' * 19)})"  # noqa: S608  # placeholders
INSERT_READY: Final = "INSERT INTO ready VALUES (?, ?, ?, 0, 0, 1, ?, ?)"
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
_encode = msgspec.json.Encoder().encode


def submit(
    step: Step, lanes: Lanes, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Store checked drafts. Without `partial`, the first bad one raises and nothing is stored."""
    if partial or any(draft.idempotency_key is not None for draft in drafts):
        return [_submit_one(step, lanes, draft, partial=partial) for draft in drafts]
    try:
        return _insert(step, lanes, drafts)
    except apsw.ConstraintError:
        raise _duplicate(step, drafts) from None


def _submit_one(
    step: Step, lanes: Lanes, draft: Draft, *, partial: bool
) -> Submitted | LeaseholdError:
    try:
        known = _known_key(step, draft)
        if known is not None:
            return known
        if step.execute(JOB_EXISTS, (draft.id,)).fetchone():
            raise DuplicateJobError(_taken(draft.id))
    except LeaseholdError as error:
        if partial:
            return error
        raise
    seq = step.next_seq
    answer = _insert(step, lanes, (draft,))[0]
    if draft.idempotency_key is not None:
        key = (draft.queue, draft.idempotency_key, seq, draft.fingerprint())
        step.execute(KEEP_KEY, (*key, step.now + IDEMPOTENCY_SECONDS * 1_000_000))
    return answer


def _known_key(step: Step, draft: Draft) -> Submitted | None:
    if draft.idempotency_key is None:
        return None
    row = step.execute(FIND_KEY, (draft.queue, draft.idempotency_key, step.now)).fetchone()
    if row is None or row[0] is None:
        return None
    first_id, digest, seq = row
    if digest != draft.fingerprint():
        raise draft.conflict_with(first_id)
    status = step.execute(STATUS_NOW, {"seq": seq}).fetchone()
    assert status is not None
    return Submitted(first_id, STATUS_OF[status[0]], is_duplicate=True)


def _insert(step: Step, lanes: Lanes, drafts: Sequence[Draft]) -> list[Submitted | LeaseholdError]:
    jobs, ready, waiting = [], [], []
    answers: list[Submitted | LeaseholdError] = []
    born: Counter[tuple[int, Status]] = Counter()
    now = step.now
    seq = step.next_seq
    for draft in drafts:
        lane = lanes.number(step, draft.queue, draft.task)
        due = _due(draft, now)
        if due <= now:
            status = Status.PENDING
            ready.append((lane, 100 - draft.priority, seq, due, draft.parent_id))
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
    step.executemany(INSERT_READY, ready)
    step.executemany(INSERT_WAITING, waiting)
    # A delayed job wakes workers too: it may be due before anything they know of.
    step.hints.ready = True
    return answers


def _due(draft: Draft, now: int) -> int:
    if draft.run_at is not None:
        return max(now, to_micros(draft.run_at))
    if draft.delay_seconds:
        return now + round(draft.delay_seconds * 1e6)
    return now


def _job_row(seq: int, lane: int, status: Status, draft: Draft, now: int) -> tuple[object, ...]:
    within = draft.start_within_seconds
    return (
        seq,
        draft.id,
        lane,
        draft.priority,
        STATUS_CODE[status],
        now,
        draft.max_retries,
        draft.max_retries + 1,
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
    )


def _duplicate(step: Step, drafts: Sequence[Draft]) -> DuplicateJobError:
    # Without this, the rows that went in before the clash would be taken for older jobs.
    step.undo()
    seen: set[str] = set()
    for draft in drafts:
        if draft.id in seen or step.execute(JOB_EXISTS, (draft.id,)).fetchone():
            return DuplicateJobError(_taken(draft.id))
        seen.add(draft.id)
    raise AssertionError("SQLite found a duplicate that is not there")


def _taken(job_id: str) -> str:
    return f"a job with the id {job_id!r} exists already: choose another, or use idempotency_key"
