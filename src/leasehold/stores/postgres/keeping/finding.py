"""Finding what a clean-up takes next: by a reader, which holds up nobody.

Ended jobs stand in an index by status and time of their end. Numbers do not grow with time here,
since writes go side by side; so where a walk goes on is a moment and a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import CleanUp, Scope
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.cleanup_store import Bookmark, Cutoffs, Found, OldestAudits, Progress
from leasehold.env import from_micros
from leasehold.stores.postgres.keeping import archive
from leasehold.stores.postgres.rules.known import load
from leasehold.stores.postgres.server.connection import Connection
from leasehold.stores.postgres.submitting.ended_dependents import Dependents
from leasehold.stores.postgres.submitting.lanes import STATS
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.lanes import stats

WALKED_AT_ONCE: Final = 20_000
"""Rows per read."""
WALKED_PER_CALL: Final = 10 * WALKED_AT_ONCE

# Every walk answers with where it goes on (a moment, a job number), with the end of the job, which
# is NULL for one that is not wanted, and with its queue where queues differ.
_QUEUE: Final = """
    CASE WHEN $5::boolean THEN (SELECT lane.queue FROM job JOIN lane ON lane.id = job.lane
                                WHERE job.seq = finished.seq) ELSE '' END
"""
ENDED: Final = f"""
    SELECT finished_at, seq, finished_at, {_QUEUE} FROM finished
    WHERE status = $4 AND (finished_at, seq) > ($1, $2)
        AND finished_at <= $6 AND NOT ({Dependents.still_needed()})
    ORDER BY finished_at, seq LIMIT $3
"""  # noqa: S608  # our own words
RESULTS: Final = """
    SELECT 0, seq, (
            SELECT finished_at FROM finished WHERE finished.seq = job.seq AND result IS NOT NULL
                AND finished_at + job.result_ttl_seconds * 1000000 <= $4), ''
    FROM job WHERE result_ttl_seconds IS NOT NULL AND seq > $2 AND $1 >= 0 ORDER BY seq LIMIT $3
"""
# Dead and cancelled jobs keep theirs as long as they are here: they may be replayed. A completed
# one has at least one attempt record until its history is dropped.
HISTORIES: Final = """
    SELECT 0, seq, (SELECT finished_at FROM finished WHERE seq = attempt.seq AND status = 5), ''
    FROM attempt WHERE seq > $2 AND seq < $4 AND $1 >= 0 GROUP BY seq ORDER BY seq LIMIT $3
"""
# Each completed job has at least three events: as many rows as a third of the bound are enough.
HISTORY_BOUND: Final = """
    SELECT max(seq) FROM (
        SELECT seq, sum(events) OVER (ORDER BY seq DESC) AS total FROM (
            SELECT seq, events FROM finished WHERE status = 5 ORDER BY seq DESC LIMIT $1 / 3 + 1
        ) AS latest
    ) AS summed WHERE total > $1
"""
OLDEST_AUDIT: Final = "SELECT at FROM {} ORDER BY n LIMIT 1"
OLD_KEYS: Final = "SELECT seq FROM pruned_key WHERE expires_at <= $1 LIMIT $2"
ALL: Final = Cutoffs(MOMENT_MAX, {})
"""For what does not go by the age of the job."""


class Look:
    """What core.rules.cleaning asks of a reader."""

    def __init__(self, db: Connection, now: int) -> None:
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
        values = (STATUS_CODE[status], bool(cutoffs.own), cutoffs.latest)
        return self._walk(ENDED, values, cutoffs, after, limit)

    def find_results(self, after: Bookmark, limit: int) -> Found[int]:
        return self._walk(RESULTS, (self._now,), ALL, after, limit)

    def find_histories(self, events_max: int, after: Bookmark, limit: int) -> Found[int]:
        bound = after.bound
        if bound is None:
            row: Any = self._db.execute(HISTORY_BOUND, (events_max,)).fetchone()
            bound = 0 if row[0] is None else row[0] + 1
        after = after._replace(bound=bound)
        return self._walk(HISTORIES, (bound,), ALL, after, limit)

    def has_rest(self, scope: Scope) -> bool:  # noqa: ARG002  # there is nothing else here
        # Unused pages are the server's own affair: it vacuums by itself.
        return self._db.execute(OLD_KEYS, (self._now, 1)).fetchone() is not None

    def _walk(
        self, statement: str, values: tuple[Any, ...], cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> Found[int]:
        """The next jobs that are wanted, by reads of bounded length."""
        seqs: list[int] = []
        for _ in range(0, WALKED_PER_CALL, WALKED_AT_ONCE):
            place = (after.major, after.minor, WALKED_AT_ONCE)
            rows: Any = self._db.execute(statement, (*place, *values))
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
