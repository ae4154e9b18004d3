"""Submit: new jobs in, all or nothing, or each for itself; `core.rules.submitting` decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Self

import apsw
import msgspec

from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
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
from leasehold.stores.sqlite.leasing.ready import ReadyRows
from leasehold.stores.sqlite.submitting.dependencies import Linker
from leasehold.stores.sqlite.submitting.gate import GateBook, LaneNumbers
from leasehold.stores.sqlite.writing.step import Grouped, Step

INSERT_JOB: Final = f"INSERT INTO job VALUES ({', '.join('?' * 20)})"  # noqa: S608  # placeholders
INSERT_WAITING: Final = "INSERT INTO waiting VALUES (?, ?, ?, ?, 0, 0, 1, NULL)"
TAKEN: Final = "SELECT id FROM job WHERE id IN (SELECT value FROM json_each(?))"
# A job that is in no other table is pending.
# A digest that was damaged is text perhaps, and no UTF-8: as bytes it is just another one.
FIND_KEY: Final = """
    SELECT coalesce(job.id, pruned_key.id), CAST(idempotency.digest AS BLOB),
           coalesce(waiting.status, finished.status, iif(running.seq IS NULL, NULL, 3),
                    pruned_key.status, 2), job.id IS NULL
    FROM idempotency LEFT JOIN job USING (seq) LEFT JOIN pruned_key USING (seq)
        LEFT JOIN waiting USING (seq) LEFT JOIN finished USING (seq) LEFT JOIN running USING (seq)
    WHERE idempotency.queue = ? AND idempotency.key = ? AND idempotency.expires_at > ?
"""
KEEP_KEY: Final = "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?)"
STATUSES: Final = """
    SELECT job.id, coalesce(waiting.status, finished.status, iif(running.seq IS NULL, 2, 3))
    FROM job LEFT JOIN waiting USING (seq) LEFT JOIN finished USING (seq)
        LEFT JOIN running USING (seq)
    WHERE job.id IN (SELECT value FROM json_each(?))
"""

_SCHEDULED = STATUS_CODE[Status.SCHEDULED]
_BLOCKED = STATUS_CODE[Status.BLOCKED]
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
    return submitting.submit(Intake(step, lanes), drafts, refused, partial=partial)


SUBMITTED_COLUMN: Final = tuple(
    f"total_{SUBMITTED_IN[band_of(priority)]}" for priority in range(101)
)
"""By priority, the column of its band."""


class PlainSubmit(Grouped[Sequence[Answer] | QueueFullError]):
    """A submit of jobs without idempotency keys: several that wait share their statements."""

    __slots__ = ("drafts", "lanes")

    def __init__(self, lanes: LaneNumbers, drafts: Sequence[Draft]) -> None:
        self.lanes = lanes
        self.drafts = drafts

    def __call__(self, step: Step) -> Sequence[Answer] | QueueFullError:
        return submitting.submit(Intake(step, self.lanes), self.drafts)

    @classmethod
    def together(
        cls, step: Step, operations: Sequence[Self]
    ) -> list[Sequence[Answer] | QueueFullError]:
        """All of them as one; raises if any of them would."""
        drafts = [draft for each in operations for draft in each.drafts]
        stored = submit(step, operations[0].lanes, drafts, partial=False)
        if isinstance(stored, QueueFullError):
            raise stored  # Together they are too many; one by one, some may still find room.
        answers = iter(stored)
        return [list(islice(answers, len(each.drafts))) for each in operations]


class Intake(GateBook):
    """See `leasehold.core.rules.intake.Intake`."""

    __slots__ = ("_lanes", "_numbers", "defaults", "has_rules")

    def __init__(self, step: Step, lanes: LaneNumbers) -> None:
        super().__init__(step)
        self._lanes = lanes
        self._numbers: dict[str, int] = {}
        """The dependencies that were looked for and found, and their numbers."""
        self.has_rules = bool(step.rules)
        self.defaults: DraftDefaults | None = step.settings.draft_defaults

    def crowd(self, jobs: int) -> None:
        """The disk is the only limit."""

    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]:
        found: dict[KeyName, FirstUse] = {}
        for name in keys:
            row: Any = self.step.execute(FIND_KEY, (*name, self.now)).fetchone()
            if row is not None and row[0] is not None:
                job_id, digest, status, is_gone = row
                found[name] = FirstUse(job_id, digest, STATUS_OF[status], bool(is_gone))
        return found

    def taken(self, job_ids: Collection[str]) -> Collection[str]:
        rows: Any = self.step.execute(TAKEN, (_json(job_ids),))
        return {job_id for (job_id,) in rows}

    def endings(self, job_ids: Collection[str]) -> Mapping[str, Status | None]:
        found = Linker(self.step).find_dependencies(job_ids)
        self._numbers = {job_id: seq for job_id, (seq, _) in found.items()}
        return {job_id: ended for job_id, (_, ended) in found.items()}

    def add(
        self, drafts: Sequence[Draft], links: Mapping[str, NewLinks], keys: Sequence[NewKey]
    ) -> list[Submitted]:
        step = self.step
        first = step.next_seq
        blocked = {job_id for job_id, each in links.items() if each.blocked_by} if links else ()
        try:
            answers = insert(step, self._lanes, drafts, blocked)
        except apsw.ConstraintError:
            # Without this, the rows that went in before the clash would be taken for older jobs.
            step.undo()
            clash = submitting.first_taken(self, drafts)
            if clash is None:
                raise  # A number that is in use: `own_state.raise_next_seq` sees to it.
            raise clash from None
        if keys:
            until = self.now + IDEMPOTENCY_MICROS
            rows = [(each.queue, each.key, first + each.place, each.digest, until) for each in keys]
            step.executemany(KEEP_KEY, rows)
        if links:
            numbers = range(first, first + len(drafts))
            Linker(step).link(numbers, drafts, links, self._numbers)
        return answers

    def tell_again(self, ended: Collection[str]) -> None:
        Linker(self.step).tell_again([self._numbers[job_id] for job_id in ended])

    def statuses(self, job_ids: Collection[str]) -> Mapping[str, Status]:
        rows: Any = self.step.execute(STATUSES, (_json(job_ids),))
        return {job_id: STATUS_OF[status] for job_id, status in rows}

    def count_rejected(self, drafts: Sequence[Draft], *, rate_limited: bool) -> None:
        for draft in drafts:
            lane = self._lanes.number(self.step, draft.queue, draft.task)
            self.step.count(lane, "total_rejected")
            if rate_limited:
                self.step.count(lane, "total_rate_limited")


def _json(ids: Collection[str]) -> str:
    return _encode(ids).decode()


def insert(
    step: Step, lanes: LaneNumbers, drafts: Sequence[Draft], blocked: Collection[str] = ()
) -> list[Submitted]:
    """Make jobs of drafts that nothing stands against; those in `blocked` are born so."""
    jobs, newcomers, entries = [], [], []
    capped, key_limits = step.rules.capped, step.rules.key_limits
    waiting: list[tuple[int, int, int | None, int]] = []
    answers: list[Submitted] = []
    born: dict[tuple[int, Status, str], int] = {}
    now = step.now
    seq = step.next_seq
    for draft in drafts:
        lane = lanes.number(step, draft.queue, draft.task)
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
        kind = (lane, status, SUBMITTED_COLUMN[draft.priority])
        born[kind] = born.get(kind, 0) + 1
        seq += 1
    step.next_seq = seq
    for (lane, status, in_band), count in born.items():
        step.count_new(lane, status, in_band, count)
    step.write_many(INSERT_JOB, jobs)
    ReadyRows(step).enter_new(newcomers)
    if entries:
        ReadyRows(step).enter(entries)
    if waiting:
        step.executemany(INSERT_WAITING, waiting)
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
