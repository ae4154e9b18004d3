"""How drafts get into the store: checked, sorted out, and handed to the submit that fits them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial as bind

from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.rules.dependencies import SortedOut
from leasehold.core.rules.rule_book import RuleBook
from leasehold.errors import LeaseholdError
from leasehold.stores.postgres.submitting.gate import LaneNumbers
from leasehold.stores.postgres.submitting.submit import submit_in
from leasehold.stores.postgres.writing.application import within
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.loans import Loans
from leasehold.stores.postgres.writing.step import Step, numbers_for
from leasehold.stores.tables import replies
from leasehold.stores.tables.replies import Stored, Write


def _unchecked(_: Step) -> None:
    """For a caller that may submit anyway."""


def submit(
    database: Database,
    drafts: Sequence[Draft],
    *,
    partial: bool,
    check: Callable[[Step], None] = _unchecked,
) -> list[Submitted | LeaseholdError]:
    """Submit them in a write of their own, which begins with a look whether it may."""
    plain = _is_plain(drafts, partial=partial)
    queues = {draft.queue for draft in drafts}

    def write(operation: Callable[[Step], Stored]) -> Stored:
        expected = plain and _are_light(
            database.remembered.rules, queues, Loans(database.accelerator)
        )

        def checked(step: Step) -> Stored:
            check(step)
            return operation(step)

        return database.write(
            checked,
            side_by_side=bind(_side_by_side, queues) if expected else None,
            ahead=[numbers_for(len(drafts))] if plain else (),
        )

    return _submit(write, database.lanes, drafts, partial=partial)


def _is_plain(drafts: Sequence[Draft], *, partial: bool) -> bool:
    """Whether no other job is concerned; keys and dependencies are about others."""
    return not partial and not any(each.idempotency_key or each.depends_on for each in drafts)


def _side_by_side(queues: Collection[str], step: Step) -> bool:
    """Whether none of these queues has limits, which are about other jobs too."""
    return _are_light(step.rules, queues, step.loans)


def _are_light(rules: RuleBook, queues: Collection[str], loans: Loans) -> bool:
    """Whether they have no limit but how fast jobs come, and that is counted elsewhere."""
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

    def write(operation: Callable[[Step], Stored]) -> Stored:
        return within(database, connection, operation, may_share)[0]

    # A look-up in a transaction that may be rolled back is not remembered.
    return _submit(write, LaneNumbers(), drafts, partial=partial)


def submit_once(
    database: Database, request_id: str, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """The same, or the answer to it when it was carried out before under this id."""
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
