"""Submits. A memory store has no transactions of the application's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from leasehold.core.contract.transactions import Connection, JobTransaction, OwnConnection
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.tokens import Token
from leasehold.core.rules.dependencies import SortedOut
from leasehold.core.rules.replies import check_request_id, digest_of_submit
from leasehold.core.rules.tokens import check_same
from leasehold.errors import LeaseholdError, UnsupportedError
from leasehold.stores.memory import (
    replies,
    submission,
    tokens,
)
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.state import State


class ProducingVerbs(LockedState):
    """Submits, and what cannot be had here."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        if not partial:
            for draft in drafts:
                draft.check()
            return list(self._run(submission.submit, drafts))
        sorted_out = SortedOut.of(drafts)
        return sorted_out.woven(
            self._run(submission.submit, sorted_out.good, sorted_out.refused, partial=True)
        )

    def submit_as(
        self, token: Token, digest: str, drafts: Sequence[Draft]
    ) -> list[Submitted | LeaseholdError]:
        for draft in drafts:
            draft.check()

        def submit(state: State) -> list[Submitted | LeaseholdError]:
            check_same(token, tokens.find(state, digest))
            return list(submission.submit(state, drafts))

        return self._run(submit)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        check_request_id(request_id)
        if not partial:
            for draft in drafts:
                draft.check()
        sorted_out = SortedOut.of(drafts)

        def submit(state: State) -> list[Submitted | LeaseholdError]:
            return list(
                submission.submit(state, sorted_out.good, sorted_out.refused, partial=partial)
            )

        digest = digest_of_submit(drafts, partial=partial)
        return sorted_out.woven(self._run(replies.submit_once, request_id, digest, submit))

    def connect(self) -> Connection:
        raise self._no_transactions()

    def lend(self, connection: OwnConnection) -> AbstractAsyncContextManager[None] | None:  # noqa: ARG002 - none can be.
        return None

    def owns(self, connection: OwnConnection) -> bool:  # noqa: ARG002 - none can be.
        return False

    def submit_within(
        self,
        connection: OwnConnection,  # noqa: ARG002 - none would do.
        drafts: Sequence[Draft],  # noqa: ARG002
        *,
        partial: bool = False,  # noqa: ARG002
    ) -> list[Submitted | LeaseholdError]:
        raise self._no_transactions()

    def open_transaction(self, job_id: str, version: int) -> JobTransaction:  # noqa: ARG002
        raise self._no_transactions()

    def address(self) -> str | None:
        return None

    def _no_transactions(self) -> UnsupportedError:
        return UnsupportedError(
            "a memory store has no database for tables of your own, so there is no transaction to "
            "share: use a SQLite file"
        )
