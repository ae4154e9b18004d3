"""Requests that may be sent twice: their replies are stored together with their effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial as bind
from typing import Any, Final, TypeVar

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.core.model.records import Submitted
from leasehold.core.rules.dependencies import SortedOut
from leasehold.core.rules.replies import (
    REPLIES_KEPT_SECONDS,
    REPLIES_MAX,
    check_request_id,
    digest_of_exchange,
    digest_of_submit,
    exchange_again,
    keep_exchange,
    keep_submit,
    submit_again,
)
from leasehold.errors import LeaseholdError, QueueFullError
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

T = TypeVar("T")

Stored = Sequence[Submitted | LeaseholdError] | QueueFullError
Write = Callable[[Callable[[Any], Stored]], Stored]
"""Carries out a submit in a write of the store or in the application's transaction."""

FIND: Final = "SELECT data FROM reply WHERE id = $1 AND at >= $2"
# More than are added, so that few old ones remain however many there were.
FORGET: Final = """
    DELETE FROM reply WHERE n IN (SELECT n FROM reply ORDER BY n LIMIT 10)
        AND (at < $1 OR n <= (SELECT max(n) FROM reply) - $2)
"""


def find_reply(db: SqlConnection, request_id: str, now: int) -> bytes | None:
    """The remembered reply to a request."""
    row = db.execute(FIND, (request_id, _oldest(now))).fetchone()
    return None if row is None else row[0]


def keep_reply(step: TableStep, request_id: str, data: bytes) -> None:
    """Store a reply, and forget some that are too old."""
    step.execute(step.insert_reply, (request_id, step.now, data))
    step.execute(FORGET, (_oldest(step.now), REPLIES_MAX))


def _oldest(now: int) -> int:
    return now - round(REPLIES_KEPT_SECONDS * 1e6)


def exchange_once(
    database: TableDatabase,
    request_id: str,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
    carry_out: Callable[[Any], tuple[Exchange, T]],
    read_job: Callable[[Any, str], Job | None],
) -> tuple[Exchange, T | None]:
    """Carry out an exchange, or return the earlier answer if this id was carried out before."""
    check_request_id(request_id)
    digest = digest_of_exchange(settlements, request)

    def operation(step: TableStep) -> tuple[Exchange, T | None]:
        before = find_reply(step.db, request_id, step.now)
        if before is not None:
            return exchange_again(before, digest, bind(read_job, step.db)), None
        answer, rest = carry_out(step)
        keep_reply(step, request_id, keep_exchange(answer, digest))
        return answer, rest

    return database.write(operation, go_on=request is None)


def submit_once(
    database: TableDatabase,
    request_id: str,
    drafts: Sequence[Draft],
    submit: Callable[[Write], list[Submitted | LeaseholdError]],
    *,
    partial: bool,
) -> list[Submitted | LeaseholdError]:
    """Submit drafts, or return the earlier answer if this id was carried out before."""
    check_request_id(request_id)
    digest = digest_of_submit(drafts, partial=partial)

    def answered(db: SqlConnection) -> list[Submitted | LeaseholdError] | None:
        before = find_reply(db, request_id, database.now(db))
        return None if before is None else submit_again(before, digest)

    answers = database.look(answered)
    if answers is not None:
        return SortedOut.of(drafts).woven(answers)

    def write(operation: Callable[[Any], Stored]) -> Stored:
        def once(step: TableStep) -> Stored:
            before = find_reply(step.db, request_id, step.now)
            if before is not None:
                return submit_again(before, digest)
            answers = operation(step)
            if not isinstance(answers, LeaseholdError):
                keep_reply(step, request_id, keep_submit(answers, digest))
            return answers

        return database.write(once)

    return submit(write)
