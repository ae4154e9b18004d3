"""What clean-ups ask of a store: find, delete, record. `core.rules.cleaning` decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from enum import IntEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import CleanUp, PruneReport, Scope
from leasehold.core.model.status import Status

K = TypeVar("K")
"""The store's own handle of a job: its number, or the job itself."""


class Phase(IntEnum):
    """The kinds of rows that are cleaned, in this order. The numbers are stored."""

    CANCELLED = 0
    DEAD = 1
    COMPLETED = 2
    RESULTS = 3
    HISTORIES = 4
    ARCHIVE = 5
    AUDIT = 6
    REST = 7
    """Things that only the store knows of: keys of pruned jobs, unused space in a file."""
    OVER = 8


class Bookmark(NamedTuple):
    """Where a phase continues. Only the store knows the meaning of the numbers."""

    major: int = 0
    minor: int = 0
    bound: int | None = None


class CleanUpProgress(NamedTuple):
    """The state of a clean-up after its latest write."""

    record: CleanUp
    phase: Phase
    bookmark: Bookmark


class CleanUpBatch(NamedTuple, Generic[K]):
    """The rows for the next write to remove."""

    items: Sequence[K] = ()
    after: Bookmark | None = None
    """Where to continue after these; None if the phase ends with them."""


class EndedJob(NamedTuple, Generic[K]):
    """An ended job that no unfinished one depends on."""

    key: K
    queue: str
    status: Status
    ended_at: int


class Cutoffs(NamedTuple):
    """Up to when jobs of one status must have ended to be pruned, in microseconds since 1970."""

    common: int | None
    """None for never."""
    own: Mapping[str, int | None]
    """By queue, for the queues with their own retention."""

    @property
    def latest(self) -> int | None:
        """The cutoff of the queues with the shortest retention; None if no queue is pruned."""
        cutoffs = (self.common, *self.own.values())
        return max((each for each in cutoffs if each is not None), default=None)

    def take(self, queue: str, ended_at: int) -> bool:
        """Whether a job of the queue that ended at that time is old enough."""
        cutoff = self.own.get(queue, self.common)
        return cutoff is not None and ended_at <= cutoff


class OldestAudits(NamedTuple):
    """When the oldest audit record was written, and the oldest archived one; None without any."""

    kept: datetime | None
    archived: datetime | None


class CleanUpRecords(Protocol):
    """Questions to a store, asked inside a write or outside."""

    @property
    def now(self) -> datetime: ...

    def own_retentions(self) -> Mapping[str, QueueRetention]:
        """The queues with their own retention."""

    def latest(self) -> CleanUp | None:
        """The record of the latest clean-up."""

    def progress(self, run: int) -> CleanUpProgress | None:
        """The state of a clean-up."""


class CleanUpLook(CleanUpRecords, Protocol[K]):
    """Questions to a store outside a write: they block no other process."""

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        """How many jobs of a queue, or of all, have each status."""

    def oldest_archived_day(self) -> int | None: ...

    def oldest_audits(self) -> OldestAudits: ...

    def find_ended(
        self, status: Status, cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[K]:
        """The next jobs that ended by their cutoff, without jobs that are still needed."""

    def find_results(self, after: Bookmark, limit: int) -> CleanUpBatch[K]:
        """The next jobs whose result's time to live is over."""

    def find_histories(self, events_max: int, after: Bookmark, limit: int) -> CleanUpBatch[K]:
        """The next completed jobs with a history, beyond the events kept for later ones."""

    def has_rest(self, scope: Scope) -> bool:
        """Whether the store has anything of its own to clean up in such a clean-up."""


class CleanUpWrite(CleanUpRecords, Protocol[K]):
    """The steps of a store inside one write."""

    def save(self, progress: CleanUpProgress) -> None:
        """Save the state of a clean-up; only the latest records are kept."""

    def still_ended(self, keys: Sequence[K]) -> Sequence[EndedJob[K]]:
        """The given jobs that have (still) ended and that no unfinished job needs."""

    def remove(self, jobs: Sequence[EndedJob[K]], *, archived: bool) -> None:
        """Delete jobs with all their records, except idempotency keys, which remain in force."""

    def drop_results(self, keys: Sequence[K]) -> int: ...

    def drop_histories(self, keys: Sequence[K]) -> int: ...

    def drop_archived(self, first_day: int, limit: int) -> int:
        """Forget archived jobs of earlier days, up to so many; answers how many there were.

        A store that keeps days apart may forget whole days at once, and leave them for later.
        """

    def drop_rest(self, limit: int, scope: Scope) -> int:
        """Clean up to `limit` of the store's own leftovers; returns how many there were."""

    def archive_audits(self, until: datetime, limit: int) -> int:
        """Move up to `limit` audit records up to that time to the archive; returns how many."""

    def drop_archived_audits(self, until: datetime, limit: int) -> int:
        """Forget up to `limit` archived audit records up to that time; returns how many."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None: ...


class CleanedStore(NamedTuple, Generic[K]):
    """A store that can be cleaned up: how to read it, write to it and measure."""

    look: Callable[[], AbstractContextManager[CleanUpLook[K]]]
    write: Callable[[Callable[[CleanUpWrite[K]], PruneReport]], PruneReport]
    monotonic: Callable[[], float]
