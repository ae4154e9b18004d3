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
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.pages import (
    AuditPage,
    HistoryPage,
    LogPage,
    audit_page,
    check_cursor,
    history_page,
    log_page,
)
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import (
    Count,
    HeavyField,
    JobFilter,
    Page,
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
from leasehold.stores.memory import feed, registry
from leasehold.stores.memory.dependents import graph
from leasehold.stores.memory.heaps import order_of
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.metrics import stats
from leasehold.stores.memory.record import Record, attempts_of, history_of, snapshot
from leasehold.stores.memory.state import State
from leasehold.stores.verbs.looking import LookingVerbs


class Jobs:
    """See `leasehold.stores.verbs.looking.JobReader`."""

    def __init__(self, state: State) -> None:
        self._state = state

    def read_job(self, job_id: str) -> Job | None:
        record = self._state.records.get(job_id)
        return None if record is None else snapshot(record)

    def search(
        self,
        where: JobFilter,
        limit: int,
        cursor: str | None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
    ) -> Page:
        """The cursor is the number of the last job shown."""
        cursor_before = check_cursor(limit, cursor)
        check_left_out(without)
        check_read(read_max)
        before = self._state.last_seq + 1 if cursor_before is None else cursor_before
        found: list[Record] = []
        jobs: list[Job] = []
        left = looked_through(where, read_max)
        for record in self._candidates(where):
            if record.seq >= before:
                continue
            if left is not None:
                if not left:
                    return Page(jobs, str(record.seq + 1))
                left -= 1
            if _may_match(where, record):
                job = snapshot(record)
                if where.matches(job):
                    if len(jobs) == limit:
                        return Page(jobs, str(found[-1].seq))
                    found.append(record)
                    jobs.append(lightened(job, without) if without else job)
        return Page(jobs)

    def count(self, where: JobFilter, counted_max: int, read_max: int | None) -> Count:
        check_count(counted_max)
        check_read(read_max)
        if is_of_lanes(where):
            known = by_status_counters(where, self._counts)
            if known is not None:
                return Count(sum(known.values()))
            # No counter knows tasks, but to look at each job costs much less than snapshots do.
            return Count(sum(_may_match(where, record) for record in self._candidates(where)))
        found = 0
        most = looked_through(where, read_max)
        for read, record in enumerate(self._candidates(where)):
            if read == most:
                return counted_up_to(found, counted_max, read_all=False)
            if _fits(where, record):
                found += 1
                if found > counted_max:
                    break
        return counted_up_to(found, counted_max)

    def count_by_status(self, where: JobFilter) -> Mapping[Status, int]:
        known = by_status_counters(where, self._counts)
        if known is not None:
            return known
        fitting = (record for record in self._candidates(where) if _fits(where, record))
        return Counter(record.status for record in fitting)

    def _counts(self, queue: str | None) -> Mapping[Status, int]:
        return stats(self._state, queue).counts

    def find_fitting(
        self, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
    ) -> tuple[list[str], str | None]:
        seen = check_cursor(limit, cursor)
        candidates: Iterable[Record] = self._candidates(where)
        if oldest_first:
            candidates = reversed(list(candidates))
        if seen is not None:
            candidates = (
                each
                for each in candidates
                if (each.seq > seen if oldest_first else each.seq < seen)
            )
        fitting = (record for record in candidates if _fits(where, record))
        found = list(islice(fitting, limit + 1))
        following = str(found[limit - 1].seq) if len(found) > limit else None
        return [record.id for record in found[:limit]], following

    def find_ids(self, prefix: str, limit: int) -> list[str]:
        return nsmallest(limit, (each for each in self._state.records if each.startswith(prefix)))

    def position(self, job_id: str, now: int) -> int | None:
        record = self._state.records.get(job_id)
        if record is None or record.status is not Status.PENDING:
            return None
        lanes = self._state.queues[record.draft.queue].lanes
        while lanes.rebalance(now):
            pass
        own = order_of(record, lanes.scoring, now)
        return sum(order_of(each, lanes.scoring, now) < own for each in lanes.records())

    def peek(self, queue: str, limit: int, now: int) -> list[Job]:
        known = self._state.queues.get(queue)
        if known is None:
            return []
        lanes = known.lanes
        while lanes.rebalance(now):
            pass
        tiers = [heap.in_order() for heap in lanes.ready.heaps.values()]
        served = merge(*tiers, key=lambda record: order_of(record, lanes.scoring, now))
        return [snapshot(record) for record in islice(served, limit)]

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return graph(self._state, job_ids)

    def _candidates(self, where: JobFilter) -> Iterator[Record]:
        records = self._state.records
        if where.ids is None:
            return reversed(records.values())
        named = (records.get(job_id) for job_id in set(where.ids))
        return iter(sorted(filter(None, named), key=lambda record: -record.seq))


def _may_match(where: JobFilter, record: Record) -> bool:
    """Skip most jobs without the cost of a snapshot; the filter itself decides."""
    return (
        (where.statuses is None or record.status in where.statuses)
        and (where.queues is None or record.draft.queue in where.queues)
        and (where.tasks is None or record.draft.task in where.tasks)
    )


def _fits(where: JobFilter, record: Record) -> bool:
    return _may_match(where, record) and where.matches(snapshot(record))


class Records:
    """See `leasehold.stores.verbs.looking.RecordReader`."""

    def __init__(self, state: State) -> None:
        self._state = state

    def attempts(self, job_id: str) -> list[Attempt]:
        return attempts_of(self._state.records.get(job_id))

    def history(self, job_id: str) -> list[HistoryEvent]:
        return history_of(self._state.records.get(job_id))

    def history_page(self, job_id: str, limit: int, cursor: str | None) -> HistoryPage:
        after = check_cursor(limit, cursor) or 0
        later = (event for event in self.history(job_id) if event.sequence > after)
        return history_page(list(islice(later, limit + 1)), limit)

    def log(self, job_id: str) -> JobLog:
        record = self._state.records.get(job_id)
        if record is None or record.log is None:
            return JobLog([])
        return JobLog(list(record.log.lines), record.log.dropped)

    def log_page(self, job_id: str, limit: int, cursor: str | None) -> LogPage:
        after = check_cursor(limit, cursor) or 0
        kept = self.log(job_id)
        numbered = list(enumerate(kept.lines, kept.dropped + 1))
        later = numbered[max(0, after - kept.dropped) :]
        return log_page(later[: limit + 1], after, limit)

    def audit_page(
        self, since: datetime | None, before: datetime | None, limit: int, cursor: str | None
    ) -> AuditPage:
        below = check_cursor(limit, cursor)
        fitting = (
            (number, record)
            for number, record in self._state.audits()
            if (below is None or number < below)
            and (since is None or record.at >= since)
            and (before is None or record.at < before)
        )
        return audit_page(list(islice(fitting, limit + 1)), limit)

    def workers(self, now: int) -> list[WorkerInfo]:  # noqa: ARG002  # the state knows it
        return registry.workers(self._state)

    def stuck(
        self, now: int, silent_seconds: float | None, running_seconds: float | None
    ) -> list[StuckJob]:
        silent_since, runs_since = (
            -1 if seconds is None else now - seconds * 1e6
            for seconds in (silent_seconds, running_seconds)
        )
        found = [
            record
            for record in self._state.running.values()
            if record.heartbeat_at <= silent_since or record.acquired_at <= runs_since
        ]
        found.sort(key=lambda record: (record.heartbeat_at, record.acquired_at, record.seq))
        return [
            StuckJob(
                job_id=record.id,
                queue=record.draft.queue,
                task=record.draft.task,
                priority=record.priority,
                worker=record.worker or "",
                lease_version=record.lease_version,
                attempts=record.attempts,
                started_at=from_micros(record.acquired_at),
                heartbeat_at=from_micros(record.heartbeat_at),
                lease_expires_at=from_micros(record.expires_at),
            )
            for record in found
        ]


class MemoryLookingVerbs(LockedState, LookingVerbs):
    """What reads are made of."""

    _jobs = Jobs
    _records = Records

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        return self._look(feed.changes, cursor, limit)
