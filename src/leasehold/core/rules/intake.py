"""What a submit asks of a store, and how it adds jobs; `core.rules.submitting` decides.

Every question covers all drafts of the call, so that a store behind a network answers it in one
round trip.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from leasehold.core.model.job import Draft
from leasehold.core.model.limits import IDEMPOTENCY_SECONDS
from leasehold.core.model.records import Submitted
from leasehold.core.model.settings import DraftDefaults
from leasehold.core.model.status import Status
from leasehold.core.rules.gate import GateBook
from leasehold.errors import LeaseholdError

Answer = Submitted | LeaseholdError
KeyName = tuple[str, str]
"""A queue, and an idempotency key that was used there."""

IDEMPOTENCY_MICROS: Final = IDEMPOTENCY_SECONDS * 1_000_000


class FirstUse(NamedTuple):
    """The job that an idempotency key was first used for."""

    job_id: str
    digest: bytes
    status: Status
    is_gone: bool = False
    """Whether that job was pruned, so that another one may have its id."""


class NewKey(NamedTuple):
    """An idempotency key to store, and the index of its job among the added ones."""

    place: int
    queue: str
    key: str
    digest: bytes


class NewLinks(NamedTuple):
    """The dependencies of a new job, and which of them block it."""

    needs: tuple[str, ...]
    blocked_by: tuple[str, ...]


class Crowd(NamedTuple):
    """A store without room for all jobs of a call."""

    capacity: int
    left: int
    dead_letters_fill_it: bool


class Intake(GateBook, Protocol):
    """A submit's questions to a store, inside its one write."""

    @property
    def has_rules(self) -> bool:
        """Whether any queue has rules."""

    @property
    def defaults(self) -> DraftDefaults | None: ...

    def crowd(self, jobs: int) -> Crowd | None:
        """None if there is room for this many more jobs."""

    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]:
        """The given idempotency keys that were used before and have not expired."""

    def taken(self, job_ids: Collection[str]) -> Collection[str]:
        """The given ids that existing jobs have."""

    def endings(self, job_ids: Collection[str]) -> Mapping[str, Status | None]:
        """The final statuses of jobs, None for an unfinished one; unknown ids are left out."""

    def add(
        self, drafts: Sequence[Draft], links: Mapping[str, NewLinks], keys: Sequence[NewKey]
    ) -> list[Submitted]:
        """Add the jobs of accepted drafts. If an id turns out to be taken, it raises `id_is_taken`
        and adds none.
        """

    def tell_again(self, ended: Collection[str]) -> None:
        """Apply the ends of these jobs, which ended earlier, to their dependents as if they had
        just ended.
        """

    def statuses(self, job_ids: Collection[str]) -> Mapping[str, Status]:
        """The present statuses of these jobs."""

    def count_rejected(self, drafts: Sequence[Draft], *, rate_limited: bool) -> None:
        """Count jobs that were refused because they came too fast or there was no room."""
