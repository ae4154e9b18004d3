"""Submit: new jobs in, all or nothing, or each for itself; `core.rules.submitting` decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

import msgspec

from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.refusals import id_is_taken
from leasehold.core.model.settings import DraftDefaults
from leasehold.core.model.span import SUBMITTED_IN, band_of
from leasehold.core.model.status import Status
from leasehold.core.rules import submitting
from leasehold.core.rules.intake import (
    IDEMPOTENCY_MICROS,
    Answer,
    FirstUse,
    KeyName,
    NewKey,
    NewLinks,
)
from leasehold.core.rules.placing import PendingEntry
from leasehold.core.rules.submitting import due_at
from leasehold.env import to_micros
from leasehold.errors import LeaseholdError, QueueFullError
from leasehold.stores.postgres.leasing.ready import ReadyRows
from leasehold.stores.postgres.server.connection import columns, unnested
from leasehold.stores.postgres.submitting.dependencies import Linker
from leasehold.stores.postgres.submitting.gate import GateBook, LaneNumbers
from leasehold.stores.postgres.writing.step import Step, row_of

# Guard: an id that is taken ends a write that goes side by side with others. It is done again,
# alone: then the row is left out, and nothing of the call is kept.
INSERT_JOBS: Final = f"""
    INSERT INTO job SELECT * FROM {
    unnested(
        "bigint text bigint bigint bigint bigint bigint bigint float8 float8 bigint bigint float8 "
        "text text text text text bytea text"
    )
}
"""  # noqa: S608  # our own names
INSERT_AND_COUNT: Final = f"""
    WITH stored AS ({INSERT_JOBS} ON CONFLICT DO NOTHING RETURNING 1) SELECT count(*) FROM stored
"""  # noqa: S608  # our own names
INSERT_WAITING: Final = f"""
    INSERT INTO waiting SELECT *, 0, 0, 1 FROM {unnested("bigint bigint bigint bigint")}
"""  # noqa: S608  # our own names
TAKEN: Final = "SELECT id FROM job WHERE id = ANY($1)"
# A job that is in no other table is pending.
FIND_KEYS: Final = """
    SELECT idempotency.queue, idempotency.key, coalesce(job.id, pruned_key.id),
           idempotency.digest,
           coalesce(waiting.status, finished.status, CASE WHEN running.seq IS NOT NULL THEN 3 END,
                    pruned_key.status, 2),
           job.id IS NULL
    FROM idempotency LEFT JOIN job USING (seq) LEFT JOIN pruned_key USING (seq)
        LEFT JOIN waiting USING (seq) LEFT JOIN finished USING (seq) LEFT JOIN running USING (seq)
    WHERE (idempotency.queue, idempotency.key) IN (
            SELECT * FROM unnest($1::text[], $2::text[]))
        AND idempotency.expires_at > $3
"""
KEEP_KEYS: Final = f"""
    INSERT INTO idempotency SELECT * FROM {unnested("text text bigint bytea bigint")}
    ON CONFLICT (queue, key) DO UPDATE
    SET seq = excluded.seq, digest = excluded.digest, expires_at = excluded.expires_at
"""  # noqa: S608  # our own names
STATUSES: Final = """
    SELECT job.id, coalesce(waiting.status, finished.status,
                            CASE WHEN running.seq IS NULL THEN 2 ELSE 3 END)
    FROM job LEFT JOIN waiting USING (seq) LEFT JOIN finished USING (seq)
        LEFT JOIN running USING (seq)
    WHERE job.id = ANY($1)
"""

SUBMITTED_COLUMN: Final = tuple(
    f"total_{SUBMITTED_IN[band_of(priority)]}" for priority in range(101)
)
"""By priority, the column of its band."""

_SCHEDULED = STATUS_CODE[Status.SCHEDULED]
_BLOCKED = STATUS_CODE[Status.BLOCKED]
_ID = itemgetter(1)
_encode = msgspec.json.Encoder().encode


def submit(
    step: Step,
    lanes: LaneNumbers,
    drafts: Sequence[Draft],
    refused: Mapping[str, LeaseholdError] = MappingProxyType({}),
    *,
    partial: bool,
) -> Sequence[Answer] | QueueFullError:
    """See `leasehold.core.rules.submitting.submit`."""
    intake = Intake(step, lanes, drafts, partial=partial)
    return submitting.submit(intake, drafts, refused, partial=partial)


class Intake(GateBook):
    """See `leasehold.core.rules.intake.Intake`."""

    __slots__ = ("_lanes", "_numbers", "defaults", "has_rules")

    def __init__(
        self, step: Step, lanes: LaneNumbers, drafts: Sequence[Draft], *, partial: bool
    ) -> None:
        super().__init__(step, drafts, partial=partial)
        self._lanes = lanes
        self._numbers: dict[str, int] = {}
        """The dependencies that were looked for and found, and their numbers."""
        self.has_rules = bool(step.rules)
        self.defaults: DraftDefaults | None = step.settings.draft_defaults

    def crowd(self, jobs: int) -> None:
        """The disk is the only limit."""

    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]:
        found: dict[KeyName, FirstUse] = {}
        queues, texts = columns(keys)
        for queue, key, job_id, digest, status, is_gone in self.step.execute(
            FIND_KEYS, (queues, texts, self.now)
        ):
            if job_id is not None:
                found[queue, key] = FirstUse(job_id, digest, STATUS_OF[status], is_gone)
        return found

    def taken(self, job_ids: Collection[str]) -> Collection[str]:
        rows: Any = self.step.execute(TAKEN, (list(job_ids),))
        return {job_id for (job_id,) in rows}

    def endings(self, job_ids: Collection[str]) -> Mapping[str, Status | None]:
        found = Linker(self.step).find_dependencies(job_ids)
        self._numbers = {job_id: seq for job_id, (seq, _) in found.items()}
        return {job_id: ended for job_id, (_, ended) in found.items()}

    def add(
        self, drafts: Sequence[Draft], links: Mapping[str, NewLinks], keys: Sequence[NewKey]
    ) -> list[Submitted]:
        step = self.step
        numbers = step.take_numbers(len(drafts))
        blocked = {job_id for job_id, each in links.items() if each.blocked_by} if links else ()
        answers = insert(step, self._lanes, drafts, numbers, blocked)
        if answers is None:
            # Without this, the rows that went in before the clash would be taken for older jobs.
            step.undo()
            raise submitting.first_taken(self, drafts) or id_is_taken(drafts[0].id)
        if keys:
            until = self.now + IDEMPOTENCY_MICROS
            rows = [
                (each.queue, each.key, numbers[each.place], each.digest, until) for each in keys
            ]
            step.many(KEEP_KEYS, rows)
        if links:
            Linker(step).link(numbers, drafts, links, self._numbers)
        return answers

    def tell_again(self, ended: Collection[str]) -> None:
        Linker(self.step).tell_again([self._numbers[job_id] for job_id in ended])

    def statuses(self, job_ids: Collection[str]) -> Mapping[str, Status]:
        rows: Any = self.step.execute(STATUSES, (list(job_ids),))
        return {job_id: STATUS_OF[status] for job_id, status in rows}

    def count_rejected(self, drafts: Sequence[Draft], *, rate_limited: bool) -> None:
        names = [(draft.queue, draft.task) for draft in drafts]
        numbers = self._lanes.numbers(self.step, names)
        for name in names:
            self.step.count(numbers[name], "total_rejected")
            if rate_limited:
                self.step.count(numbers[name], "total_rate_limited")


def insert(
    step: Step,
    lanes: LaneNumbers,
    drafts: Sequence[Draft],
    numbers: Sequence[int],
    blocked: Collection[str] = (),
) -> list[Submitted] | None:
    """Make jobs of drafts that nothing stands against; those in `blocked` are born so.

    None if the id of one of them is taken.
    """
    jobs, newcomers, entries = [], [], []
    capped, key_limits = step.rules.capped, step.rules.key_limits
    waiting: list[tuple[int, int, int | None, int]] = []
    answers: list[Submitted] = []
    born: Counter[tuple[int, Status, str]] = Counter()
    now = step.now
    lane_of = lanes.numbers(step, {(draft.queue, draft.task) for draft in drafts})
    for seq, draft in zip(numbers, drafts, strict=True):
        lane = lane_of[draft.queue, draft.task]
        due = due_at(draft, now)
        if blocked and draft.id in blocked:
            status = Status.BLOCKED
            waiting.append((seq, _BLOCKED, None, now))
        elif due <= now:
            status = Status.PENDING
            if (
                draft.deadline is None
                and draft.queue not in capped
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
        born[lane, status, SUBMITTED_COLUMN[draft.priority]] += 1
    for (lane, status, in_band), count in born.items():
        step.count_new(lane, status, in_band, count)
    # In one order, or two submits of the same ids could wait for each other.
    jobs.sort(key=_ID)
    stored = step.many(INSERT_AND_COUNT if step.alone else INSERT_JOBS, jobs)
    ReadyRows(step).enter_new(newcomers)
    if entries:
        ReadyRows(step).enter(entries)
    if waiting:
        step.many(INSERT_WAITING, waiting)
        step.due_at(due for _, _, due, _ in waiting if due is not None)
    if step.alone and stored is not None and row_of(stored)[0] < len(jobs):
        return None
    # A delayed job wakes workers too: it may be due before anything they know of.
    step.hints.ready = True
    return answers


def _entry(seq: int, lane: int, draft: Draft, now: int) -> PendingEntry:
    return PendingEntry(
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
        _float(draft.timeout_seconds),
        _float(draft.lease_seconds),
        None if draft.deadline is None else to_micros(draft.deadline),
        None if within is None else now + round(within * 1e6),
        _float(draft.result_ttl_seconds),
        None if draft.retry is None else _encode(draft.retry).decode(),
        None if draft.metadata is None else _encode(draft.metadata).decode(),
        draft.idempotency_key,
        draft.parent_id,
        None if draft.codec == "json" else draft.codec,
        draft.payload,
        draft.limit_key,
    )


def _float(seconds: float | None) -> float | None:
    """A column's values are all of one type."""
    return None if seconds is None else float(seconds)
