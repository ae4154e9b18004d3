"""The table of rules, and a judge's view: one call, the state after it, and the state before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from leasehold.core.contract.store import Store
from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.status import Event
from leasehold.core.rules.filter_orders import PurgeAll
from leasehold.core.rules.operations import Advance
from leasehold.testing.soak.book import Book
from leasehold.testing.soak.calls import Call
from leasehold.testing.soak.observing import Snapshot


class BrokenRuleError(Exception):
    """Raised when a rule of the contract was broken: which one, and how."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """One call and its effects."""

    call: Call
    answer: Any
    before: Snapshot
    after: Snapshot
    events: list[HistoryEvent]
    """What this call has written to histories, job by job."""
    book: Book
    store: Store

    @property
    def method(self) -> str:
        return self.call.method

    @property
    def now(self) -> datetime:
        return self.after.now

    @property
    def refused(self) -> bool:
        """Whether the call raised."""
        return isinstance(self.answer, Exception)

    @property
    def is_purge(self) -> bool:
        """Whether the call deletes jobs that wait: what depends on them is told."""
        return self.method == "purge_queue" or (
            isinstance(self.answer, Advance) and isinstance(self.answer.operation.order, PurgeAll)
        )

    @property
    def new(self) -> list[Job]:
        return [job for job_id, job in self.after.jobs.items() if job_id not in self.before.jobs]

    @property
    def gone(self) -> list[Job]:
        return [job for job_id, job in self.before.jobs.items() if job_id not in self.after.jobs]

    @property
    def used_again(self) -> set[str]:
        """Ids that stand for a second job: who waited for the first does not wait for it."""
        return self.book.reused | {job.id for job in self.new if job.id in self.book.gone_ids}

    def needs(self, job: Job) -> list[str]:
        """The dependencies of a job, without ids that stand for another job by now."""
        again = self.used_again if job.depends_on else ()
        return [each for each in job.depends_on if each not in again]

    def may_forget(self, job: Job) -> bool:
        """Whether a store may have forgotten a job by itself."""
        return self.before.may_forget(job)

    def happened(self, *kinds: Event) -> list[HistoryEvent]:
        return [event for event in self.events if event.event in kinds]


Judge = Callable[[JudgedCall], int]
"""Says how often its rule was met; raises AssertionError if it was broken."""

RULES: Final[dict[str, Judge]] = {}
"""Every rule, under the number of its clause."""


def rule(clause: str) -> Callable[[Judge], Judge]:
    """Enter a judge into the table."""

    def enter(judge: Judge) -> Judge:
        assert clause not in RULES, f"two judges for {clause}"
        RULES[clause] = judge
        return judge

    return enter
