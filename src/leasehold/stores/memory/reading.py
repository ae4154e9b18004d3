"""Reading jobs and their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge, nsmallest
from itertools import islice

from leasehold.core.model.changes import Changes
from leasehold.core.model.graph import Graph
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.pages import (
    AuditPage,
    HistoryPage,
    LogPage,
    audit_page,
    check_cursor,
    history_page,
    log_page,
)
from leasehold.core.model.refusals import check_page
from leasehold.core.model.retention import without_old_result
from leasehold.core.model.search import (
    COUNTED_MAX,
    Count,
    HeavyField,
    JobFilter,
    Page,
    by_counters,
    by_status_counters,
    check_count,
    check_left_out,
    check_read,
    counted_up_to,
    is_of_lanes,
    lightened,
    looked_through,
)
from leasehold.core.model.status import Status
from leasehold.env import from_micros
from leasehold.stores.memory import feed
from leasehold.stores.memory.dependents import graph
from leasehold.stores.memory.heaps import order_of
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.metrics import stats
from leasehold.stores.memory.record import Record, attempts_of, history_of, snapshot
from leasehold.stores.memory.state import State


class LookingVerbs(LockedState):
    """Reads."""

    def get(self, job_id: str) -> Job | None:
        return self._look(get, job_id)

    def position(self, job_id: str) -> int | None:
        return self._look(_position, job_id)

    def peek(self, queue: str, *, limit: int = 1) -> list[Job]:
        return self._look(_peek, queue, limit)

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return self._look(graph, job_ids)

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
    ) -> Page:
        return self._look(search, where, limit, cursor, without, read_max)

    def count(
        self, where: JobFilter, *, counted_max: int = COUNTED_MAX, read_max: int | None = None
    ) -> Count:
        return self._look(_count, where, counted_max, read_max)

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        def find(state: State) -> list[str]:
            return nsmallest(limit, (each for each in state.records if each.startswith(prefix)))

        return self._look(find)

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._look(lambda state: attempts_of(state.records.get(job_id)))

    def history(self, job_id: str) -> list[HistoryEvent]:
        return self._look(lambda state: history_of(state.records.get(job_id)))

    def log(self, job_id: str) -> JobLog:
        return self._look(_log, job_id)

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        after = check_cursor(limit, cursor) or 0
        later = (event for event in self.history(job_id) if event.sequence > after)
        return history_page(list(islice(later, limit + 1)), limit)

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        after = check_cursor(limit, cursor) or 0
        kept = self.log(job_id)
        numbered = list(enumerate(kept.lines, kept.dropped + 1))
        later = numbered[max(0, after - kept.dropped) :]
        return log_page(later[: limit + 1], after, limit)

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        return self._look(_page_of_audit, since, before, limit, cursor)

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        return self._look(feed.changes, cursor, limit)

    def now(self) -> datetime:
        return self._look(lambda state: from_micros(state.now))


def get(state: State, job_id: str) -> Job | None:
    record = state.records.get(job_id)
    return None if record is None else _seen(state, record)


def _seen(state: State, record: Record) -> Job:
    job = snapshot(record)
    if job.result_ttl_seconds is None:
        return job
    return without_old_result(job, from_micros(state.now))


def search(
    state: State,
    where: JobFilter,
    limit: int,
    cursor: str | None,
    without: Collection[HeavyField] = (),
    read_max: int | None = None,
) -> Page:
    """Matching jobs, last submitted first. The cursor is the number of the last one shown."""
    cursor_before = check_cursor(limit, cursor)
    check_left_out(without)
    check_read(read_max)
    before = state.last_seq + 1 if cursor_before is None else cursor_before
    found: list[Record] = []
    jobs: list[Job] = []
    left = looked_through(where, read_max)
    for record in _candidates(state, where):
        if record.seq >= before:
            continue
        if left is not None:
            if not left:
                return Page(jobs, str(record.seq + 1))
            left -= 1
        if _may_match(where, record):
            job = _seen(state, record)
            if where.matches(job):
                if len(jobs) == limit:
                    return Page(jobs, str(found[-1].seq))
                found.append(record)
                jobs.append(lightened(job, without) if without else job)
    return Page(jobs)


def _count(state: State, where: JobFilter, counted_max: int, read_max: int | None = None) -> Count:
    """How many jobs match, counted up to one more than the bound."""
    check_count(counted_max)
    check_read(read_max)
    known = by_counters(where, lambda queue: stats(state, queue).counts)
    if known is not None:
        return known
    if is_of_lanes(where):
        # No counter knows tasks, but to look at each job costs much less than to take snapshots.
        return Count(sum(_may_match(where, record) for record in _candidates(state, where)))
    found = 0
    most = looked_through(where, read_max)
    for read, record in enumerate(_candidates(state, where)):
        if read == most:
            return counted_up_to(found, counted_max, read_all=False)
        if _fits(state, where, record):
            found += 1
            if found > counted_max:
                break
    return counted_up_to(found, counted_max)


def count_by_status(state: State, where: JobFilter) -> Mapping[Status, int]:
    """How many jobs match by status, counting all of them."""
    known = by_status_counters(where, lambda queue: stats(state, queue).counts)
    if known is not None:
        return known
    return Counter(
        record.status for record in _candidates(state, where) if _fits(state, where, record)
    )


def find_fitting(
    state: State, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[str], str | None]:
    """The ids of matching jobs, starting from one end, and where the next ones begin."""
    seen = check_cursor(limit, cursor)
    candidates: Iterable[Record] = _candidates(state, where)
    if oldest_first:
        candidates = reversed(list(candidates))
    if seen is not None:
        candidates = (
            each for each in candidates if (each.seq > seen if oldest_first else each.seq < seen)
        )
    fitting = (record for record in candidates if _fits(state, where, record))
    found = list(islice(fitting, limit + 1))
    following = str(found[limit - 1].seq) if len(found) > limit else None
    return [record.id for record in found[:limit]], following


def _position(state: State, job_id: str) -> int | None:
    record = state.records.get(job_id)
    if record is None or record.status is not Status.PENDING:
        return None
    lanes = state.queues[record.draft.queue].lanes
    while lanes.rebalance(state.now):
        pass
    own = order_of(record, lanes.scoring, state.now)
    return sum(order_of(each, lanes.scoring, state.now) < own for each in lanes.records())


def _peek(state: State, queue: str, limit: int) -> list[Job]:
    check_page(limit)
    known = state.queues.get(queue)
    if known is None:
        return []
    lanes = known.lanes
    while lanes.rebalance(state.now):
        pass
    tiers = [heap.in_order() for heap in lanes.ready.heaps.values()]
    served = merge(*tiers, key=lambda record: order_of(record, lanes.scoring, state.now))
    return [_seen(state, record) for record in islice(served, limit)]


def _page_of_audit(
    state: State, since: datetime | None, before: datetime | None, limit: int, cursor: str | None
) -> AuditPage:
    below = check_cursor(limit, cursor)
    fitting = (
        (number, record)
        for number, record in state.audits()
        if (below is None or number < below)
        and (since is None or record.at >= since)
        and (before is None or record.at < before)
    )
    return audit_page(list(islice(fitting, limit + 1)), limit)


def _log(state: State, job_id: str) -> JobLog:
    record = state.records.get(job_id)
    if record is None or record.log is None:
        return JobLog([])
    return JobLog(list(record.log.lines), record.log.dropped)


def _candidates(state: State, where: JobFilter) -> Iterator[Record]:
    if where.ids is None:
        return reversed(state.records.values())
    named = (state.records.get(job_id) for job_id in set(where.ids))
    return iter(sorted(filter(None, named), key=lambda record: -record.seq))


def _may_match(where: JobFilter, record: Record) -> bool:
    """Skip most jobs without the cost of a snapshot; the filter itself decides."""
    return (
        (where.statuses is None or record.status in where.statuses)
        and (where.queues is None or record.draft.queue in where.queues)
        and (where.tasks is None or record.draft.task in where.tasks)
    )


def _fits(state: State, where: JobFilter, record: Record) -> bool:
    return _may_match(where, record) and where.matches(_seen(state, record))
