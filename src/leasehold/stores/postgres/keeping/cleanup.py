"""Clean-ups: rules.cleaning decides; here it is given a look at the store, and a way to write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.retention import Scope
from leasehold.core.model.status import Status
from leasehold.core.rules.cleanup_store import Bookmark, CleanUpBatch, Cutoffs
from leasehold.env import to_micros
from leasehold.stores.postgres.keeping import archive
from leasehold.stores.postgres.reading.figures import STATS
from leasehold.stores.postgres.rules.known import read_rules
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.submitting.dependencies import DependentsBook
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.cleanup import TableLook
from leasehold.stores.tables.removing import TablePruning, TableRemoval
from leasehold.stores.tables.statements import SqlCursor

_QUEUE: Final = """
    CASE WHEN $5::boolean THEN (SELECT lane.queue FROM job JOIN lane ON lane.id = job.lane
                                WHERE job.seq = finished.seq) ELSE '' END
"""
ENDED: Final = f"""
    SELECT finished_at, seq, finished_at, {_QUEUE} FROM finished
    WHERE status = $4 AND (finished_at, seq) > ($1, $2)
        AND finished_at <= $6 AND NOT ({DependentsBook.still_needed()})
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


class CleanUpLook(TableLook):
    """What core.rules.cleaning asks of a reader."""

    load_rules = staticmethod(read_rules)
    stats = STATS
    oldest_day = archive.OLDEST
    oldest_audit = OLDEST_AUDIT
    results = RESULTS
    histories = HISTORIES
    history_bound = HISTORY_BOUND
    _db: SqlConnection

    def _rows(
        self, statement: str, values: dict[str, Any], after: Bookmark, limit: int
    ) -> SqlCursor:
        # The values stand in the order in which the statement numbers them, after the place.
        place = (after.major, after.minor, limit)
        return self._db.execute(statement, (*place, *values.values()))

    def find_ended(
        self, status: Status, cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[int]:
        values = {
            "status": STATUS_CODE[status],
            "by_queue": bool(cutoffs.own),
            "latest": cutoffs.latest,
        }
        return self._walk(ENDED, values, cutoffs, after, limit)

    def has_rest(self, scope: Scope) -> bool:  # noqa: ARG002  # there is nothing else here
        # Unused pages are the server's own affair: it vacuums by itself.
        return self._has_old_keys()


# Audit records are numbered in the order of their time.
ARCHIVE_AUDITS: Final = """
    WITH moved AS (
        DELETE FROM audit WHERE n IN (
            SELECT n FROM (SELECT n, at FROM audit ORDER BY n LIMIT $2) AS oldest WHERE at <= $1)
        RETURNING n, at, actor, action, count, detail)
    INSERT INTO audit_archive SELECT * FROM moved
"""
DROP_ARCHIVED_AUDITS: Final = """
    DELETE FROM audit_archive WHERE n IN (
        SELECT n FROM (SELECT n, at FROM audit_archive ORDER BY n LIMIT $2) AS oldest
        WHERE at <= $1)
"""


class Removal(TableRemoval):
    """What core.rules.cleaning does inside a write."""

    dependents = DependentsBook
    drop_audits = DROP_ARCHIVED_AUDITS
    _step: Step

    def _archive(self, keys: Sequence[int], day: int) -> None:
        archive.add(self._step.db, keys, day, self._step.now)

    def archive_audits(self, until: datetime, limit: int) -> int:
        return self._step.changed(ARCHIVE_AUDITS, (to_micros(until), limit))


class Pruning(TablePruning):
    """A clean-up of a store."""

    look = CleanUpLook
    removal = Removal
