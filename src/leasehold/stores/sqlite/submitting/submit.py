"""Submit: the statements by which SQLite stores checked drafts.

See `tables.intake`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial as bind
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import apsw

from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.job import DEFAULT_MAX_RETRIES, Draft, is_usual
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.core.rules import submitting
from leasehold.core.rules.dependencies import SortedOut
from leasehold.core.rules.intake import Answer, FirstUse, KeyName, NewKey, NewLinks
from leasehold.errors import LeaseholdError, QueueFullError
from leasehold.stores.sqlite.leasing.order import ENTER_NEW, ReadyRows
from leasehold.stores.sqlite.rules.known import LaneNumbers
from leasehold.stores.sqlite.submitting.dependencies import Linker
from leasehold.stores.sqlite.writing.step import Grouped, Step
from leasehold.stores.tables import replies
from leasehold.stores.tables.intake import ONE_MORE, NewJobs, TableIntake
from leasehold.stores.tables.replies import Stored, Write

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

INSERT_JOB: Final = f"INSERT INTO job VALUES ({', '.join('?' * 20)})"
# For a lone job with only these columns set; the others are NULL.
INSERT_USUAL: Final = f"""
    INSERT INTO job (
        seq, id, lane, priority, born, created_at, max_retries, allowance, codec, payload)
    VALUES (?, ?, ?, ?, {STATUS_CODE[Status.PENDING]}, ?, {DEFAULT_MAX_RETRIES},
            {DEFAULT_MAX_RETRIES + 1}, ?, ?)
"""
INSERT_WAITING: Final = "INSERT INTO waiting VALUES (?, ?, ?, ?, 0, 0, 1, NULL)"
# A job that is in no other table is pending. A damaged digest may be text that is not UTF-8; read
# as bytes, it is simply a different digest.
FIND_KEY: Final = """
    SELECT coalesce(job.id, pruned_key.id), CAST(idempotency.digest AS BLOB),
           coalesce(waiting.status, finished.status, iif(running.seq IS NULL, NULL, 3),
                    pruned_key.status, 2), job.id IS NULL
    FROM idempotency LEFT JOIN job USING (seq) LEFT JOIN pruned_key USING (seq)
        LEFT JOIN waiting USING (seq) LEFT JOIN finished USING (seq) LEFT JOIN running USING (seq)
    WHERE idempotency.queue = ? AND idempotency.key = ? AND idempotency.expires_at > ?
"""
KEEP_KEY: Final = "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?)"


def submit(
    database: Database, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them in a write of their own."""
    return submit_by(database, database.write, database.lanes, drafts, partial=partial)


def submit_after(
    database: Database, check: Callable[[Step], None], drafts: Sequence[Draft]
) -> list[Submitted | LeaseholdError]:
    """Submit them in a write that first checks the caller's right; raises the check's error."""

    def write(operation: Callable[[Step], Stored]) -> Stored:
        def checked(step: Step) -> Stored:
            check(step)
            return operation(step)

        return database.write(checked)

    return submit_by(database, write, database.lanes, drafts, partial=False)


def submit_once(
    database: Database, request_id: str, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them, or return the earlier answer if this request id was carried out before."""
    submit = bind(submit_by, database, lanes=database.lanes, drafts=drafts, partial=partial)
    return replies.submit_once(database, request_id, drafts, submit, partial=partial)


def submit_by(
    database: Database, write: Write, lanes: LaneNumbers, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them in the write that `write` makes."""
    if not partial:
        is_plain = True
        for draft in drafts:
            draft.check()
            is_plain = is_plain and draft.idempotency_key is None and not draft.depends_on
        database.disk.refuse_when_low(drafts)
        if is_plain:
            return _stored(write(PlainSubmit(lanes, drafts)))
        return _stored(write(lambda step: submit_in(step, lanes, drafts, partial=False)))
    sorted_out = SortedOut.of(drafts)
    good, refused = sorted_out.good, sorted_out.refused
    database.disk.refuse_when_low(good)
    answers = write(lambda step: submit_in(step, lanes, good, refused, partial=True))
    return sorted_out.woven(_stored(answers))


def _stored(answers: Stored) -> list[Submitted | LeaseholdError]:
    if isinstance(answers, LeaseholdError):
        raise answers
    return list(answers)


def submit_in(
    step: Step,
    lanes: LaneNumbers,
    drafts: Sequence[Draft],
    refused: Mapping[str, LeaseholdError] = MappingProxyType({}),
    *,
    partial: bool,
) -> Sequence[Answer] | QueueFullError:
    """See `leasehold.core.rules.submitting.submit`."""
    return submitting.submit(Intake(step, lanes), drafts, refused, partial=partial)


class PlainSubmit(Grouped[Sequence[Answer] | QueueFullError]):
    """A submit of jobs without idempotency keys: waiting submits share their statements."""

    __slots__ = ("drafts", "lanes")

    def __init__(self, lanes: LaneNumbers, drafts: Sequence[Draft]) -> None:
        self.lanes = lanes
        self.drafts = drafts

    def __call__(self, step: Step) -> Sequence[Answer] | QueueFullError:
        return submitting.submit_plain(Intake(step, self.lanes), self.drafts)

    @classmethod
    def together(
        cls, step: Step, operations: Sequence[Self]
    ) -> list[Sequence[Answer] | QueueFullError]:
        """Submit them all as one; raises if any of them would raise alone."""
        drafts = [draft for each in operations for draft in each.drafts]
        stored = submitting.submit_plain(Intake(step, operations[0].lanes), drafts)
        if isinstance(stored, QueueFullError):
            raise stored  # Too many together; one by one, some may still find room.
        answers = iter(stored)
        return [list(islice(answers, len(each.drafts))) for each in operations]


class Intake(TableIntake):
    """See `leasehold.core.rules.intake.Intake`."""

    __slots__ = ()
    ready = ReadyRows
    linker = Linker
    keep_keys = KEEP_KEY
    insert_waiting = INSERT_WAITING
    step: Step

    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]:
        found: dict[KeyName, FirstUse] = {}
        for name in keys:
            row: Any = self.step.execute(FIND_KEY, (*name, self.now)).fetchone()
            if row is not None and row[0] is not None:
                job_id, digest, status, is_gone = row
                found[name] = FirstUse(job_id, digest, STATUS_OF[status], bool(is_gone))
        return found

    def add(
        self, drafts: Sequence[Draft], links: Mapping[str, NewLinks], keys: Sequence[NewKey]
    ) -> list[Submitted]:
        if len(drafts) == 1 and not (links or keys or self.has_rules) and is_usual(drafts[0]):
            lane = self._lanes.known(drafts[0].queue, drafts[0].task)
            if lane is not None:
                return self._add_usual(drafts, lane)
        return super().add(drafts, links, keys)

    def _add_usual(self, drafts: Sequence[Draft], lane: int) -> list[Submitted]:
        """The fast path for most lone jobs: no lists, short statements."""
        step, draft = self.step, drafts[0]
        seq, now, priority = step.next_seq, step.now, draft.priority
        step.next_seq = seq + 1
        codec = None if draft.codec == "json" else draft.codec
        try:
            step.write(INSERT_USUAL, (seq, draft.id, lane, priority, now, codec, draft.payload))
            step.write(ENTER_NEW, (lane, priority, now, seq, None))
        except apsw.ConstraintError:
            self._say_who_clashed(drafts)
            raise
        step.count_alike(lane, ONE_MORE[priority])
        step.hints.ready = step.is_one_more = True
        return [Submitted(draft.id, Status.PENDING)]

    def _take_numbers(self, jobs: int) -> Sequence[int]:
        first = self.step.next_seq
        self.step.next_seq = first + jobs
        return range(first, first + jobs)

    def _insert(self, new: NewJobs, drafts: Sequence[Draft]) -> None:
        try:
            self.step.write_many(INSERT_JOB, new.jobs)
            self._enter(new)
        except apsw.ConstraintError:
            self._say_who_clashed(drafts)
            raise  # The number is already in use: `own_state.raise_next_seq` repairs that.

    def _say_who_clashed(self, drafts: Sequence[Draft]) -> None:
        # Otherwise the rows inserted before the clash would be taken for older jobs.
        self.step.undo()
        clash = submitting.first_taken(self, drafts)
        if clash is not None:
            raise clash from None
