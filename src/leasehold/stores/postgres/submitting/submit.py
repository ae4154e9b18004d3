"""Submit: the statements by which PostgreSQL stores checked drafts.

See `tables.intake`. Only the buckets of queues and clients may be kept elsewhere (`writing.loans`):
tokens for the whole call are taken there before the gate decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial as bind
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.refusals import id_is_taken
from leasehold.core.rules import submitting
from leasehold.core.rules.admission import QUEUE_BUCKET, client_bucket, loose_rate
from leasehold.core.rules.dependencies import SortedOut
from leasehold.core.rules.intake import Answer, FirstUse, KeyName
from leasehold.core.rules.rule_book import RuleBook
from leasehold.errors import LeaseholdError, QueueFullError
from leasehold.stores.postgres.leasing.order import ReadyRows
from leasehold.stores.postgres.rules.known import LaneNumbers
from leasehold.stores.postgres.server.connection import columns, unnested
from leasehold.stores.postgres.submitting.dependencies import Linker
from leasehold.stores.postgres.submitting.lone import JOB_COLUMNS, lone_job
from leasehold.stores.postgres.writing.application import within
from leasehold.stores.postgres.writing.loans import Loans
from leasehold.stores.postgres.writing.step import Step, numbers_for, row_of
from leasehold.stores.tables import replies
from leasehold.stores.tables.intake import NewJobs, TableIntake
from leasehold.stores.tables.replies import Stored, Write

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

# Guard: a taken id ends a write that shares its turn. The write is repeated alone: then the row is
# left out, and nothing of the call is kept.
INSERT_JOBS: Final = f"""
    INSERT INTO job SELECT * FROM {unnested(JOB_COLUMNS)}
"""
INSERT_AND_COUNT: Final = f"""
    WITH stored AS ({INSERT_JOBS} ON CONFLICT DO NOTHING RETURNING 1) SELECT count(*) FROM stored
"""
INSERT_WAITING: Final = f"""
    INSERT INTO waiting SELECT *, 0, 0, 1 FROM {unnested("bigint bigint bigint bigint")}
"""
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
"""

_ID: Final = itemgetter(1)


def _unchecked(_: Step) -> None:
    """The check for a caller that may always submit."""


def submit(
    database: Database,
    drafts: Sequence[Draft],
    *,
    partial: bool,
    check: Callable[[Step], None] = _unchecked,
) -> list[Submitted | LeaseholdError]:
    """Submit them in a write of their own, which begins by checking the caller's right."""
    plain = _is_plain(drafts, partial=partial)
    queues = {draft.queue for draft in drafts}

    def write(operation: Callable[[Step], Stored]) -> Stored:
        expected = plain and _are_light(
            database.remembered.rules, queues, Loans(database.accelerator)
        )

        def checked(step: Step) -> Stored:
            check(step)
            return operation(step)

        # Only now: the drafts are checked.
        lone = lone_job(database, drafts) if plain and check is _unchecked else None
        return database.write(
            checked,
            side_by_side=bind(_side_by_side, queues) if expected else None,
            ahead=[numbers_for(len(drafts))] if plain else (),
            in_one_piece=lone,
        )

    return _submit(write, database.lanes, drafts, partial=partial)


def _is_plain(drafts: Sequence[Draft], *, partial: bool) -> bool:
    """Whether no other job is concerned, as it would be by keys and dependencies."""
    return not partial and not any(each.idempotency_key or each.depends_on for each in drafts)


def _side_by_side(queues: Collection[str], step: Step) -> bool:
    """Whether none of these queues has limits, which concern other jobs too."""
    return _are_light(step.rules, queues, step.loans)


def _are_light(rules: RuleBook, queues: Collection[str], loans: Loans) -> bool:
    """Whether their only limit is how fast jobs arrive, and that is counted elsewhere."""
    if not rules or rules.keys().isdisjoint(queues):
        return True
    return rules.are_light(queues) and (rules.rated.isdisjoint(queues) or loans.are_to_be_had)


def submit_within(
    database: Database, connection: object, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them in the application's own transaction."""
    queues = {draft.queue for draft in drafts}
    plain = _is_plain(drafts, partial=partial)
    may_share = bind(_side_by_side, queues) if plain else None
    needs = {each for draft in drafts for each in draft.depends_on}

    def write(operation: Callable[[Step], Stored]) -> Stored:
        return within(database, connection, operation, may_share, needs)[0]

    # Results of look-ups in a transaction that may be rolled back are not remembered.
    return _submit(write, LaneNumbers(), drafts, partial=partial)


def submit_once(
    database: Database, request_id: str, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them, or return the earlier answer if this request id was carried out before."""
    submit_by = bind(_submit, lanes=database.lanes, drafts=drafts, partial=partial)
    return replies.submit_once(database, request_id, drafts, submit_by, partial=partial)


def _submit(
    write: Write, lanes: LaneNumbers, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    if not partial:
        for draft in drafts:
            draft.check()
        return _store(write, lanes, drafts, {}, partial=False)
    sorted_out = SortedOut.of(drafts)
    return sorted_out.woven(_store(write, lanes, sorted_out.good, sorted_out.refused, partial=True))


def _store(
    write: Write,
    lanes: LaneNumbers,
    drafts: Sequence[Draft],
    refused: Mapping[str, LeaseholdError],
    *,
    partial: bool,
) -> list[Submitted | LeaseholdError]:
    answers = write(lambda step: submit_in(step, lanes, drafts, refused, partial=partial))
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
    intake = Intake(step, lanes, drafts, partial=partial)
    return submitting.submit(intake, drafts, refused, partial=partial)


class Intake(TableIntake):
    """See `leasehold.core.rules.intake.Intake`."""

    __slots__ = ("_drafts", "_partial")
    ready = ReadyRows
    linker = Linker
    keep_keys = KEEP_KEYS
    insert_waiting = INSERT_WAITING
    step: Step

    def __init__(
        self, step: Step, lanes: LaneNumbers, drafts: Sequence[Draft], *, partial: bool
    ) -> None:
        """`drafts` has all drafts that this call may admit."""
        super().__init__(step, lanes)
        self._drafts = drafts
        self._partial = partial

    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]:
        found: dict[KeyName, FirstUse] = {}
        queues, texts = columns(keys)
        for queue, key, job_id, digest, status, is_gone in self.step.execute(
            FIND_KEYS, (queues, texts, self.now)
        ):
            if job_id is not None:
                found[queue, key] = FirstUse(job_id, digest, STATUS_OF[status], is_gone)
        return found

    def full_at(self, queue: str, bucket: str) -> int:
        elsewhere = self._full_at_elsewhere(queue, bucket)
        if elsewhere is not None:
            return elsewhere
        # A rate counted here is exact: no other write may count at the same time.
        self.step.must_be_alone()
        return super().full_at(queue, bucket)

    def _full_at_elsewhere(self, queue: str, bucket: str) -> int | None:
        rule = self.rule_of(queue)
        rate = None if rule is None else loose_rate(rule.config, bucket)
        if rate is None or not self.step.loans.are_to_be_had:
            return None
        jobs = sum(
            draft.queue == queue and bucket in (QUEUE_BUCKET, client_bucket(draft.client))
            for draft in self._drafts
        )
        least = 1 if self._partial else jobs
        return self.step.loans.take((queue, bucket), rate, jobs, least, self.now)

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        here = {
            name: full_at
            for name, full_at in buckets.items()
            if not self.step.loans.use((queue, name), full_at)
        }
        if here:
            super().keep_buckets(queue, here)

    def _take_numbers(self, jobs: int) -> Sequence[int]:
        return self.step.take_numbers(jobs)

    def _insert(self, new: NewJobs, drafts: Sequence[Draft]) -> None:
        step, jobs = self.step, new.jobs
        # In a fixed order, since two submits of the same ids could otherwise wait for each other.
        jobs.sort(key=_ID)
        stored = step.many(INSERT_AND_COUNT if step.alone else INSERT_JOBS, jobs)
        self._enter(new)
        if step.alone and stored is not None and row_of(stored)[0] < len(jobs):
            # Otherwise the rows inserted before the clash would be taken for older jobs.
            step.undo()
            raise submitting.first_taken(self, drafts) or id_is_taken(drafts[0].id)
