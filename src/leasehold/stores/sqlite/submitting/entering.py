"""How drafts get into the store: checked, sorted out, and handed to the submit that fits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial as bind

from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.rules.dependencies import SortedOut
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.submitting.gate import LaneNumbers
from leasehold.stores.sqlite.submitting.submit import PlainSubmit, submit_in
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import replies
from leasehold.stores.tables.replies import Stored, Write


def submit(
    database: Database, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them in a write of their own."""
    return submit_by(database, database.write, database.lanes, drafts, partial=partial)


def submit_after(
    database: Database, check: Callable[[Step], None], drafts: Sequence[Draft]
) -> list[Submitted | LeaseholdError]:
    """Submit them in a write that checks its right first; raises the error of the check."""

    def write(operation: Callable[[Step], Stored]) -> Stored:
        def checked(step: Step) -> Stored:
            check(step)
            return operation(step)

        return database.write(checked)

    return submit_by(database, write, database.lanes, drafts, partial=False)


def submit_once(
    database: Database, request_id: str, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """The same, or the answer to it when it was carried out before under this id."""
    submit = bind(submit_by, database, lanes=database.lanes, drafts=drafts, partial=partial)
    return replies.submit_once(database, request_id, drafts, submit, partial=partial)


def submit_by(
    database: Database, write: Write, lanes: LaneNumbers, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them in a write that is made in this way."""
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
