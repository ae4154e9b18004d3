"""Submit: answers questions about drafts and adds jobs; `core.rules.submitting` decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType

from leasehold.core.contract.transactions import Connection, JobTransaction, OwnConnection
from leasehold.core.model.drain import Drain
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueRule
from leasehold.core.model.records import Submitted
from leasehold.core.model.refusals import id_is_taken
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import Token
from leasehold.core.rules import submitting
from leasehold.core.rules.dependencies import SortedOut
from leasehold.core.rules.gate import QueueFill
from leasehold.core.rules.intake import (
    IDEMPOTENCY_MICROS,
    Answer,
    Crowd,
    FirstUse,
    KeyName,
    NewKey,
    NewLinks,
)
from leasehold.core.rules.replies import (
    check_request_id,
    digest_of_submit,
    keep_submit,
    submit_again,
)
from leasehold.core.rules.tokens import check_same
from leasehold.errors import LeaseholdError, QueueFullError, UnsupportedError
from leasehold.stores.memory import dependents, replies
from leasehold.stores.memory.access import find_token
from leasehold.stores.memory.finished import drop_expired_keys, is_full_of_dead
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.queue_record import StartBook
from leasehold.stores.memory.record import Record, record_of
from leasehold.stores.memory.state import KnownKey, State


def submit(
    state: State,
    drafts: Sequence[Draft],
    refused: Mapping[str, LeaseholdError] = MappingProxyType({}),
    *,
    partial: bool = False,
) -> Sequence[Answer]:
    """See `leasehold.core.rules.submitting.submit`."""
    if state.keys:
        drop_expired_keys(state)
    answers = submitting.submit(Intake(state), drafts, refused, partial=partial)
    if isinstance(answers, QueueFullError):
        raise answers
    return answers


class Intake(StartBook):
    """See `leasehold.core.rules.intake.Intake`."""

    __slots__ = ("defaults", "has_rules")

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now
        self.has_rules = state.has_rules
        self.defaults = state.settings.draft_defaults

    # -- the gate ----------------------------------------------------------------------------

    def rule_of(self, queue: str) -> QueueRule | None:
        known = self._state.queues.get(queue)
        return None if known is None else known.rule

    def fill_of(self, queue: str) -> QueueFill:
        known = self._state.queues[queue]
        totals = known.totals
        ended = totals.completed + totals.dead + totals.cancelled
        return QueueFill(known.counts[Status.PENDING], ended, known.drain)

    def keep_drain(self, queue: str, drain: Drain) -> None:
        self._state.queues[queue].drain = drain

    # -- drafts ------------------------------------------------------------------------------

    def crowd(self, jobs: int) -> Crowd | None:
        state = self._state
        capacity, ended = state.capacity, state.finished.count
        if capacity is None:
            return None
        if ended >= capacity and is_full_of_dead(state):
            return Crowd(capacity, 0, dead_letters_fill_it=True)
        left = capacity - len(state.records) + ended
        return None if jobs <= left else Crowd(capacity, left, dead_letters_fill_it=False)

    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]:
        found = {}
        for name in keys:
            known = self._state.keys.get(name)
            if known is not None:
                job = self._state.records.get(known.job_id)
                # Once the job is forgotten, another one may have its id.
                if job is None or job.seq != known.seq:
                    found[name] = FirstUse(known.job_id, known.digest, known.status, is_gone=True)
                else:
                    found[name] = FirstUse(known.job_id, known.digest, job.status)
        return found

    def taken(self, job_ids: Collection[str]) -> Collection[str]:
        return [job_id for job_id in job_ids if job_id in self._state.records]

    def endings(self, job_ids: Collection[str]) -> Mapping[str, Status | None]:
        found = ((job_id, self._state.records.get(job_id)) for job_id in job_ids)
        return {
            job_id: record.status if record.status.is_terminal else None
            for job_id, record in found
            if record is not None
        }

    # -- jobs --------------------------------------------------------------------------------

    def add(
        self, drafts: Sequence[Draft], links: Mapping[str, NewLinks], keys: Sequence[NewKey]
    ) -> list[Submitted]:
        state = self._state
        added: list[Record] = []
        records, now = state.records, self.now
        for seq, draft in enumerate(drafts, start=state.last_seq + 1):
            if draft.id in records:
                for record in added:
                    del records[record.id]
                raise id_is_taken(draft.id)
            record = records[draft.id] = record_of(draft, seq, now)
            added.append(record)
        state.last_seq += len(added)
        for place, queue, key, digest in keys:
            job = added[place]
            until = self.now + IDEMPOTENCY_MICROS
            state.keys[queue, key] = KnownKey(job.id, job.seq, digest, until, job.status)
        if links:
            linked = [record for record in added if record.id in links]
            for record in linked:
                dependents.link(state, record, links[record.id])
            dependents.raise_needed(state, linked)
        state.add(added)
        return [Submitted(record.id, record.status) for record in added]

    def tell_again(self, ended: Collection[str]) -> None:
        for job_id in ended:
            self._state.links.note_ended(self._state.records[job_id])
        dependents.resolve(self._state)

    def statuses(self, job_ids: Collection[str]) -> Mapping[str, Status]:
        return {job_id: self._state.records[job_id].status for job_id in job_ids}

    def count_rejected(self, drafts: Sequence[Draft], *, rate_limited: bool) -> None:
        for draft in drafts:
            queue = self._state.queue(draft.queue)
            queue.totals.rejected += 1
            queue.totals.rate_limited += rate_limited
            queue.since = queue.since or self._state.now


class ProducingVerbs(LockedState):
    """Submits, and operations that this store does not support."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        if not partial:
            for draft in drafts:
                draft.check()
            return list(self._write(lambda state: submit(state, drafts)))
        sorted_out = SortedOut.of(drafts)
        return sorted_out.woven(
            self._write(
                lambda state: submit(state, sorted_out.good, sorted_out.refused, partial=True)
            )
        )

    def submit_as(
        self, token: Token, digest: str, drafts: Sequence[Draft]
    ) -> list[Submitted | LeaseholdError]:
        for draft in drafts:
            draft.check()

        def submit_checked(state: State) -> list[Submitted | LeaseholdError]:
            check_same(token, find_token(state, digest))
            return list(submit(state, drafts))

        return self._write(submit_checked)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        check_request_id(request_id)
        if not partial:
            for draft in drafts:
                draft.check()
        sorted_out = SortedOut.of(drafts)
        digest = digest_of_submit(drafts, partial=partial)

        def submit_unless_done(state: State) -> list[Submitted | LeaseholdError]:
            before = replies.find(state, request_id)
            if before is not None:
                return submit_again(before, digest)
            answers = list(submit(state, sorted_out.good, sorted_out.refused, partial=partial))
            replies.keep(state, request_id, keep_submit(answers, digest))
            return answers

        return sorted_out.woven(self._write(submit_unless_done))

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
