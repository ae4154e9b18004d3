"""Finding what a clean-up takes next: by a reader, which holds up nobody.

Finding old completed jobs needs no index on the time of their end, which every completion would pay
for: job numbers grow with time, and no job ends before it was submitted. So the first job submitted
after the cutoff, found by bisection, bounds the part of `finished` that can hold anything old, and
only that part is walked, in the order of numbers, in short reads. What is passed over there are
dead letters, jobs that waited or ran for as long as jobs are kept, and those that a queue keeps for
longer than others: some hundred thousand a second, once per clean-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import apsw

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import CleanUp, Scope
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.cleanup_store import Bookmark, Cutoffs, Found, OldestAudits, Progress
from leasehold.env import from_micros
from leasehold.stores.sqlite.disk import space
from leasehold.stores.sqlite.keeping import archive
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.submitting.ended_dependents import Dependents
from leasehold.stores.sqlite.submitting.gate import STATS
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.lanes import stats

WALKED_AT_ONCE: Final = 20_000
"""Rows per read, so that no read keeps the write-ahead log from being checkpointed for long."""
WALKED_PER_CALL: Final = 10 * WALKED_AT_ONCE

# Every walk answers with where it goes on (a moment, a job number), with the end of the job, which
# is NULL for one that is not wanted, and with its queue where queues differ.
_QUEUE: Final = """
    iif(:by_queue, (SELECT lane.queue FROM job JOIN lane ON lane.id = job.lane
                    WHERE job.seq = finished.seq), '')
"""
# Cancelled and dead jobs stand in an index by status and time. `status <> 5` is said again because
# SQLite uses a partial index only for its very words.
IN_TROUBLE: Final = f"""
    SELECT finished_at, seq, finished_at, {_QUEUE} FROM finished
    WHERE status = :status AND status <> 5 AND (finished_at, seq) > (:major, :minor)
        AND finished_at <= :latest AND NOT ({Dependents.still_needed()})
    ORDER BY finished_at, seq LIMIT :rows
"""  # noqa: S608  # our own words
COMPLETED: Final = f"""
    SELECT 0, seq, iif(status = 5 AND finished_at <= :latest, finished_at, NULL),
        iif(status = 5 AND finished_at <= :latest, {_QUEUE}, '')
    FROM finished WHERE seq > :minor AND seq < :bound ORDER BY seq LIMIT :rows
"""  # noqa: S608  # our own words
RESULTS: Final = """
    SELECT 0, seq, (
            SELECT finished_at FROM finished WHERE finished.seq = job.seq AND result IS NOT NULL
                AND finished_at + job.result_ttl_seconds * 1000000 <= :now), ''
    FROM job WHERE result_ttl_seconds IS NOT NULL AND seq > :minor ORDER BY seq LIMIT :rows
"""
# Dead and cancelled jobs keep theirs as long as they are here: they may be replayed. A completed
# one has at least one attempt record until its history is dropped.
HISTORIES: Final = """
    SELECT 0, seq, (SELECT finished_at FROM finished WHERE seq = attempt.seq AND status = 5), ''
    FROM attempt WHERE seq > :minor AND seq < :bound GROUP BY seq ORDER BY seq LIMIT :rows
"""
# Each completed job has at least three events: as many jobs as a third of the bound are enough.
# What has no attempt record any more has lost its history, and is not counted.
HISTORY_BOUND: Final = """
    SELECT max(seq) FROM (
        SELECT seq, sum(events) OVER (ORDER BY seq DESC) AS total FROM (
            SELECT attempt.seq, events FROM attempt CROSS JOIN finished USING (seq)
            WHERE status = 5 GROUP BY attempt.seq ORDER BY attempt.seq DESC LIMIT ?1 / 3 + 1))
    WHERE total > ?1
"""
# One whose time cannot be read is as old as can be.
OLDEST_AUDIT: Final = f"""
    SELECT iif(typeof(at) = 'integer', min(max(at, 0), {MOMENT_MAX}), 0)
    FROM {{}} ORDER BY n LIMIT 1
"""  # noqa: S608  # our own number
OLD_KEYS: Final = "SELECT seq FROM pruned_key WHERE expires_at <= ? LIMIT ?"
# A time that cannot be right says nothing: the next job's is looked at.
SUBMITTED: Final = f"""
    SELECT seq, created_at FROM job
    WHERE seq >= ? AND typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND {MOMENT_MAX}
    ORDER BY seq LIMIT 1
"""  # noqa: S608  # our own number
ALL: Final = Cutoffs(MOMENT_MAX, {})
"""For what does not go by the age of the job."""
NEXT_SEQ: Final = "SELECT next_seq FROM store_state"


class Look:
    """What core.rules.cleaning asks of a reader."""

    def __init__(self, db: apsw.Connection, now: int) -> None:
        self._db = db
        self._now = now
        self.now = from_micros(now)

    @cached_property
    def _own_retentions(self) -> Mapping[str, QueueRetention]:
        return cleanup.own_retentions(load(self._db))

    def own_retentions(self) -> Mapping[str, QueueRetention]:
        return self._own_retentions

    def latest(self) -> CleanUp | None:
        return next(cleanup.latest(self._db, 1), None)

    def progress(self, run: int) -> Progress | None:
        return cleanup.progress_of(self._db, run)

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        return stats(self._db, STATS, queue).counts

    def oldest_archived_day(self) -> int | None:
        row = self._db.execute(archive.OLDEST).fetchone()
        return None if row is None else row[0]

    def oldest_audits(self) -> OldestAudits:
        return OldestAudits(self._oldest("audit"), self._oldest("audit_archive"))

    def _oldest(self, table: str) -> datetime | None:
        row: Any = self._db.execute(OLDEST_AUDIT.format(table)).fetchone()
        return None if row is None else from_micros(row[0])

    def find_ended(
        self, status: Status, cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> Found[int]:
        values = {"latest": cutoffs.latest, "by_queue": bool(cutoffs.own)}
        if status is not Status.COMPLETED:
            values["status"] = STATUS_CODE[status]
            return self._walk(IN_TROUBLE, values, cutoffs, after, limit)
        assert cutoffs.latest is not None
        values["bound"] = first_submitted_after(self._db, cutoffs.latest)
        return self._walk(COMPLETED, values, cutoffs, after, limit)

    def find_results(self, after: Bookmark, limit: int) -> Found[int]:
        return self._walk(RESULTS, {"now": self._now}, ALL, after, limit)

    def find_histories(self, events_max: int, after: Bookmark, limit: int) -> Found[int]:
        bound = after.bound
        if bound is None:
            row: Any = self._db.execute(HISTORY_BOUND, (events_max,)).fetchone()
            bound = 0 if row[0] is None else row[0] + 1
        after = after._replace(bound=bound)
        return self._walk(HISTORIES, {"bound": bound}, ALL, after, limit)

    def has_rest(self, scope: Scope) -> bool:
        if self._db.execute(OLD_KEYS, (self._now, 1)).fetchone() is not None:
            return True
        return space.to_release(self._db, everything=scope.emergency) > 0

    def _walk(
        self, statement: str, values: dict[str, Any], cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> Found[int]:
        """The next jobs that are wanted, by reads of bounded length."""
        seqs: list[int] = []
        for _ in range(0, WALKED_PER_CALL, WALKED_AT_ONCE):
            place = {"major": after.major, "minor": after.minor, "rows": WALKED_AT_ONCE}
            rows: Any = self._db.execute(statement, values | place)
            walked = 0
            for major, seq, ended_at, queue in rows:
                walked += 1
                if ended_at is not None and cutoffs.take(queue, ended_at):
                    seqs.append(seq)
                    if len(seqs) == limit:
                        # Read no further: the next call goes on here.
                        return Found(seqs, Bookmark(major, seq, after.bound))
            if walked < WALKED_AT_ONCE:
                return Found(seqs)
            after = Bookmark(major, seq, after.bound)
        return Found(seqs, after)


def first_submitted_after(db: apsw.Connection, cutoff: int) -> int:
    """The number of the first job submitted after the cutoff; above all of them if there is none.

    By bisection: the store's clock never steps back, so numbers and times grow together.
    """
    row: Any = db.execute(NEXT_SEQ).fetchone()
    low, high = 1, int(row[0])
    while low < high:
        middle = (low + high) // 2
        found: Any = db.execute(SUBMITTED, (middle,)).fetchone()
        if found is None or found[0] >= high or found[1] > cutoff:
            high = middle
        else:
            low = found[0] + 1
    return high
