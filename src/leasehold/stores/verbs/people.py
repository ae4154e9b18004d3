"""What people ask for: orders about jobs, one by one, by filter, or as operations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.rules import operations, people
from leasehold.core.rules.filter_orders import (
    ORDERED_AT_ONCE,
    DiscardAll,
    Order,
    Ordered,
    carry_out,
    is_oldest_first,
    narrowed,
)
from leasehold.core.rules.operation_shelf import JobsFound, JobsToFind, OperationShelf
from leasehold.core.rules.operations import (
    Advance,
    Operation,
    OperationDraft,
    known_as,
    to_look_for,
)
from leasehold.core.rules.people import OrderDesk
from leasehold.core.rules.resuming import resume
from leasehold.errors import LeaseholdError
from leasehold.stores.verbs.looking import LookingVerbs


class PeopleVerbs(LookingVerbs):
    """A look finds the jobs of an order by filter, one write takes them."""

    _desk: Callable[[Any], OrderDesk[Any]]

    @abstractmethod
    def _operation_shelf(self, write: Any) -> OperationShelf: ...

    @abstractmethod
    def operation(self, operation_id: str) -> Operation | None: ...

    def _before_discarding(self, job_ids: Sequence[str]) -> None:
        """Do beforehand what would be too much for the write that deletes these jobs."""

    # -- single jobs -------------------------------------------------------------------------

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._write(
            lambda write: people.cancel(self._desk(write), job_ids, reason=reason, actor=actor)
        )

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._write(
            lambda write: people.replay(
                self._desk(write), job_ids, reset_attempts=reset_attempts, actor=actor
            )
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        self._before_discarding(job_ids)
        return self._write(lambda write: people.discard(self._desk(write), job_ids, actor=actor))

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._write(
            lambda write: people.reprioritize(self._desk(write), job_id, priority, actor=actor)
        )

    # -- many --------------------------------------------------------------------------------

    def order(
        self,
        order: Order,
        where: JobFilter,
        *,
        actor: str,
        limit: int = ORDERED_AT_ONCE,
        cursor: str | None = None,
    ) -> Ordered:
        able = narrowed(order, where, limit)
        found = self._find(order, JobsToFind(able, limit, cursor, is_oldest_first(order)))
        if not found.job_ids:
            return Ordered()
        done = self._write(
            lambda write: carry_out(self._desk(write), order, able, found.job_ids, actor)
        )
        return msgspec.structs.replace(done, next_cursor=found.next_cursor)

    def _find(self, order: object, wanted: JobsToFind) -> JobsFound:
        where, limit, cursor, oldest_first = wanted
        found = JobsFound(
            *self._look(
                lambda look: self._jobs(look).find_fitting(
                    where, limit, cursor, oldest_first=oldest_first
                )
            )
        )
        if isinstance(order, DiscardAll):
            self._before_discarding(found.job_ids)
        return found

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        begin = operations.begin if draft.resumes is None else resume
        return self._write(lambda write: begin(self._operation_shelf(write), draft, actor))

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        asked = known_as(operation_id, self.operation(operation_id))
        wanted = to_look_for(asked, limit)
        found = None if wanted is None else self._find(asked.order, wanted)
        return self._write(
            lambda write: operations.advance(
                self._operation_shelf(write), self._desk(write), asked, found
            )
        )

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        return self._write(
            lambda write: operations.stop(self._operation_shelf(write), operation_id, actor)
        )
