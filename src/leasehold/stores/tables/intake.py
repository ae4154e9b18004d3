"""Submit: drafts become rows; `core.rules.submitting` decides in which order things are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.settings import DraftDefaults
from leasehold.core.model.span import SUBMITTED_IN, band_of
from leasehold.core.model.status import Status
from leasehold.core.rules.intake import (
    IDEMPOTENCY_MICROS,
    FirstUse,
    KeyName,
    NewKey,
    NewLinks,
)
from leasehold.core.rules.measuring import PENDING_COLUMN
from leasehold.core.rules.placing import PendingEntry
from leasehold.core.rules.submitting import due_at
from leasehold.env import to_micros
from leasehold.stores.tables.gate import LaneName, TableGate, TableLaneNumbers
from leasehold.stores.tables.linking import TableLinker
from leasehold.stores.tables.order import Newcomer, TableReady
from leasehold.stores.tables.step import TableStep

TAKEN: Final = "SELECT id FROM job WHERE {}"
# A job that is in no other table is pending.
STATUSES: Final = """
    SELECT job.id, coalesce(waiting.status, finished.status,
                            CASE WHEN running.seq IS NULL THEN 2 ELSE 3 END)
    FROM job LEFT JOIN waiting USING (seq) LEFT JOIN finished USING (seq)
        LEFT JOIN running USING (seq)
    WHERE {}
"""

SUBMITTED_COLUMN: Final = tuple(
    f"total_{SUBMITTED_IN[band_of(priority)]}" for priority in range(101)
)
"""The column of a priority's band, by priority."""

ONE_MORE: Final = tuple(
    {
        Status.PENDING.value: 1,
        "total_submitted": 1,
        SUBMITTED_COLUMN[priority]: 1,
        PENDING_COLUMN[priority]: 1,
    }
    for priority in range(101)
)
"""What one more pending job adds to its lane's counters, by priority."""

_SCHEDULED: Final = STATUS_CODE[Status.SCHEDULED]
_BLOCKED: Final = STATUS_CODE[Status.BLOCKED]
_encode: Final = msgspec.json.Encoder().encode


class NewJobs(NamedTuple):
    """Accepted jobs, as rows."""

    jobs: list[tuple[Any, ...]]
    """The rows of `job`."""
    newcomers: list[Newcomer]
    """Pending jobs at their default places."""
    entries: list[PendingEntry]
    """Pending jobs that may need a place of their own."""
    waiting: list[tuple[int, int, int | None, int]]
    """Rows of `waiting`: number, status, due, since."""
    answers: list[Submitted]


class TableIntake(TableGate, ABC):
    """See `leasehold.core.rules.intake.Intake`."""

    __slots__ = ("_lanes", "_numbers", "defaults", "has_rules")
    ready: ClassVar[type[TableReady]]
    linker: ClassVar[type[TableLinker]]
    keep_keys: ClassVar[str]
    """For `many`, like the next one: statements about many rows."""
    insert_waiting: ClassVar[str]

    def __init__(self, step: Any, lanes: TableLaneNumbers) -> None:
        super().__init__(step)
        self._lanes = lanes
        self._numbers: dict[str, int] = {}
        """The dependencies found so far, with their numbers."""
        self.has_rules = bool(step.rules)
        self.defaults: DraftDefaults | None = step.settings.draft_defaults

    # -- what each store does in its own way ---------------------------------------------------

    @abstractmethod
    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]: ...

    @abstractmethod
    def _take_numbers(self, jobs: int) -> Sequence[int]:
        """Job numbers that were never used, ascending."""

    @abstractmethod
    def _insert(self, new: NewJobs, drafts: Sequence[Draft]) -> None:
        """Write the rows of `job`, and call `_enter`; if an id is taken, undoes all and raises."""

    # -- what all of them do alike -------------------------------------------------------------

    def crowd(self, jobs: int) -> None:
        """Always None: the disk is the only limit."""

    def taken(self, job_ids: Collection[str]) -> Collection[str]:
        return {job_id for (job_id,) in self._of_ids(TAKEN, job_ids)}

    def endings(self, job_ids: Collection[str]) -> Mapping[str, Status | None]:
        found = self.linker(self.step).find_dependencies(job_ids)
        self._numbers = {job_id: seq for job_id, (seq, _) in found.items()}
        return {job_id: ended for job_id, (_, ended) in found.items()}

    def add(
        self, drafts: Sequence[Draft], links: Mapping[str, NewLinks], keys: Sequence[NewKey]
    ) -> list[Submitted]:
        step = self.step
        numbers = self._take_numbers(len(drafts))
        blocked = {job_id for job_id, each in links.items() if each.blocked_by} if links else ()
        lanes = self._lanes.numbers(step, {(draft.queue, draft.task) for draft in drafts})
        new = new_jobs(step, lanes, drafts, numbers, blocked)
        self._insert(new, drafts)
        if keys:
            until = self.now + IDEMPOTENCY_MICROS
            rows = [
                (each.queue, each.key, numbers[each.place], each.digest, until) for each in keys
            ]
            step.many(self.keep_keys, rows)
        if links:
            self.linker(step).link(numbers, drafts, links, self._numbers)
        # A delayed job wakes workers too: it may be due before any job they know of.
        step.hints.ready = True
        return new.answers

    def _enter(self, new: NewJobs) -> None:
        """Enter new jobs into their state tables."""
        step = self.step
        ready = self.ready(step)
        ready.enter_new(new.newcomers)
        if new.entries:
            ready.enter(new.entries)
        if new.waiting:
            step.many(self.insert_waiting, new.waiting)
            step.due_at(due for _, _, due, _ in new.waiting if due is not None)

    def tell_again(self, ended: Collection[str]) -> None:
        self.linker(self.step).tell_again([self._numbers[job_id] for job_id in ended])

    def statuses(self, job_ids: Collection[str]) -> Mapping[str, Status]:
        rows = self._of_ids(STATUSES, job_ids)
        return {job_id: STATUS_OF[status] for job_id, status in rows}

    def count_rejected(self, drafts: Sequence[Draft], *, rate_limited: bool) -> None:
        names = [(draft.queue, draft.task) for draft in drafts]
        numbers = self._lanes.numbers(self.step, set(names))
        for name in names:
            self.step.count(numbers[name], "total_rejected")
            if rate_limited:
                self.step.count(numbers[name], "total_rate_limited")

    def _of_ids(self, statement: str, job_ids: Collection[str]) -> Any:
        dialect = self.linker.links.histories.dialect
        which = dialect.among("job.id", "$1")
        return self.step.execute(statement.format(which), (dialect.listed(list(job_ids)),))


def new_jobs(
    step: TableStep,
    lanes: Mapping[LaneName, int],
    drafts: Sequence[Draft],
    numbers: Sequence[int],
    blocked: Collection[str],
) -> NewJobs:
    """Make jobs of accepted drafts; those in `blocked` start out blocked."""
    new = jobs, newcomers, entries, waiting, answers = NewJobs([], [], [], [], [])
    capped, key_limits = step.rules.capped, step.rules.key_limits
    born: dict[tuple[int, Status, str], int] = {}
    now = step.now
    for seq, draft in zip(numbers, drafts, strict=True):
        lane = lanes[draft.queue, draft.task]
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
        jobs.append(job_row(seq, lane, status, draft, now))
        answers.append(Submitted(draft.id, status))
        kind = (lane, status, SUBMITTED_COLUMN[draft.priority])
        born[kind] = born.get(kind, 0) + 1
    for (lane, status, in_band), count in born.items():
        step.count_new(lane, status, in_band, count)
    return new


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


def job_row(seq: int, lane: int, status: Status, draft: Draft, now: int) -> tuple[Any, ...]:
    """The row of `job` for a draft."""
    timeout, lease, within = draft.timeout_seconds, draft.lease_seconds, draft.start_within_seconds
    result_ttl = draft.result_ttl_seconds
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
        # A column's values all have one type, even whole numbers of seconds.
        None if timeout is None else float(timeout),
        None if lease is None else float(lease),
        None if draft.deadline is None else to_micros(draft.deadline),
        None if within is None else now + round(within * 1e6),
        None if result_ttl is None else float(result_ttl),
        None if draft.retry is None else _encode(draft.retry).decode(),
        None if draft.metadata is None else _encode(draft.metadata).decode(),
        draft.idempotency_key,
        draft.parent_id,
        None if draft.codec == "json" else draft.codec,
        draft.payload,
        draft.limit_key,
    )
