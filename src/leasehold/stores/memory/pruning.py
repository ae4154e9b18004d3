"""Clean-ups, one bounded piece under each hold of the lock, and the archive."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from heapq import heappop
from itertools import islice

import msgspec

from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import (
    BATCH_MAX,
    DAILY,
    CleanUp,
    CleanUpMode,
    PruneReport,
    RetentionPolicy,
    Scope,
    records_told,
)
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules import cleaning
from leasehold.core.rules.cleanup_store import (
    Bookmark,
    CleanedStore,
    CleanUpBatch,
    CleanUpProgress,
    Cutoffs,
    EndedJob,
    OldestAudits,
)
from leasehold.env import from_micros
from leasehold.interrupts import SHIELD
from leasehold.stores.memory import finished
from leasehold.stores.memory.lanes import Lanes
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.metrics import stats
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import NumberedAudit, State


class KeepingVerbs(LockedState):
    """Clean-ups and the archive."""

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        # Not through _run: a clean-up reports each job that its call removes (RET-1), so nothing
        # may be forgotten before it.
        with SHIELD, self._lock:
            self._check_open()
            state = self._state
            state.tick(forgets=False)
            keeper = Keeper(state)
            store = CleanedStore[Record](
                lambda: nullcontext(keeper),
                lambda operation: operation(keeper),
                state.env.clock.monotonic,
            )
            request = cleaning.PruneRequest(policy or state.policy, scope, limit, actor)
            return cleaning.prune(store, run, request)

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return self._look(
            lambda state: [
                each.record for each in islice(reversed(state.cleanups), records_told(limit))
            ]
        )

    def archived(self, job_id: str) -> ArchivedJob | None:
        return self._look(lambda state: state.archive.find(job_id))

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        return self._look(
            lambda state: state.archive.search(
                where, span, limit, cursor, slowest_first=slowest_first
            )
        )


class Keeper:
    """The state, for core.rules.cleaning: reads and writes are the same here, under one lock."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = from_micros(state.now)
        self.audit = state.note_action

    def own_retentions(self) -> Mapping[str, QueueRetention]:
        return finished.own_retentions(self._state)

    def latest(self) -> CleanUp | None:
        return self._state.cleanups[-1].record if self._state.cleanups else None

    def progress(self, run: int) -> CleanUpProgress | None:
        return next((each for each in self._state.cleanups if each.record.run == run), None)

    def save(self, progress: CleanUpProgress) -> None:
        cleanups = self._state.cleanups
        for place, known in enumerate(cleanups):
            if known.record.run == progress.record.run:
                cleanups[place] = progress
                return
        cleanups.append(progress)

    # -- looking -----------------------------------------------------------------------------

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        return stats(self._state, queue).counts

    def oldest_archived_day(self) -> int | None:
        return self._state.archive.oldest_day

    def oldest_audits(self) -> OldestAudits:
        kept, archived = self._state.audit, self._state.audit_archive
        return OldestAudits(
            kept[0][1].at if kept else None, archived[0][1].at if archived else None
        )

    def find_ended(
        self, status: Status, cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[Record]:
        old: list[Record] = []
        for shelf in self._state.finished.shelves:
            cutoff = cutoffs.common if shelf is None else cutoffs.own[shelf]
            if cutoff is not None:
                old += finished.ended_by(self._state, shelf, status, cutoff, limit - len(old))
        return _found(old, after, limit)

    def find_results(self, after: Bookmark, limit: int) -> CleanUpBatch[Record]:
        # Removed from the heap at once: jobs found here are dropped under the same lock.
        ends = self._state.result_ends
        over: list[Record] = []
        while ends and ends[0][0] <= self._state.now and len(over) < limit:
            over.append(heappop(ends)[2])
        return _found(over, after, limit)

    def find_histories(self, events_max: int, after: Bookmark, limit: int) -> CleanUpBatch[Record]:
        if after.bound is None:
            self._state.too_old_to_tell = self._beyond(events_max)
        doomed = self._state.too_old_to_tell[-limit:]
        return _found(doomed, after._replace(bound=0), limit)

    def _beyond(self, events_max: int) -> list[Record]:
        """Completed jobs beyond the bound, last submitted first; computed once per clean-up."""
        events = 0
        found = []
        shelves = self._state.finished.shelves.values()
        completed = (record for shelf in shelves for record in shelf[Status.COMPLETED].values())
        for record in sorted(completed, key=lambda record: record.seq, reverse=True):
            events += len(record.history)
            if record.history and events > events_max:
                found.append(record)
        return found

    def has_rest(self, scope: Scope) -> bool:
        # A clean-up on request cleans the heaps too; otherwise they are rebuilt when they need it.
        # Every submit drops expired keys.
        return scope.mode is not CleanUpMode.DAILY and self._unhealthy() is not None

    def _unhealthy(self) -> Lanes | None:
        """A queue whose heaps hold dead entries."""
        lanes = (queue.lanes for queue in self._state.queues.values())
        return next((each for each in lanes if each.count.dead), None)

    # -- writing -----------------------------------------------------------------------------

    def still_ended(self, keys: Sequence[Record]) -> Sequence[EndedJob[Record]]:
        return [
            EndedJob(record, record.draft.queue, record.status, record.completed_at or 0)
            for record in keys
        ]

    def remove(self, jobs: Sequence[EndedJob[Record]], *, archived: bool) -> None:
        for job in jobs:
            finished.prune(self._state, job.key, archived=archived)

    def drop_results(self, keys: Sequence[Record]) -> int:
        for record in keys:
            record.result = None
        return len(keys)

    def drop_histories(self, keys: Sequence[Record]) -> int:
        del self._state.too_old_to_tell[-len(keys) :]
        for record in keys:
            record.history = []
            record.attempt_rows = ()
            record.error = None
        return len(keys)

    def drop_archived(self, first_day: int, limit: int) -> int:
        return self._state.archive.drop_old(first_day, limit)

    def drop_rest(self, limit: int, scope: Scope) -> int:  # noqa: ARG002 - one queue at a time.
        lanes = self._unhealthy()
        if lanes is None:
            return 0
        dead = lanes.count.dead
        lanes.rebuild(self._state.now)
        return dead

    def archive_audits(self, until: datetime, limit: int) -> int:
        taken = _taken(self._state.audit, until, limit)
        self._state.audit_archive.extend(
            (number, msgspec.structs.replace(record, archived=True)) for number, record in taken
        )
        return len(taken)

    def drop_archived_audits(self, until: datetime, limit: int) -> int:
        return len(_taken(self._state.audit_archive, until, limit))


def _taken(audits: deque[NumberedAudit], until: datetime, limit: int) -> list[NumberedAudit]:
    """Remove and return the oldest records up to that time."""
    taken: list[NumberedAudit] = []
    while audits and audits[0][1].at <= until and len(taken) < limit:
        taken.append(audits.popleft())
    return taken


def _found(records: list[Record], after: Bookmark, limit: int) -> CleanUpBatch[Record]:
    return CleanUpBatch(records, after if len(records) == limit else None)
