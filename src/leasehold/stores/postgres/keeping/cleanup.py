"""Clean-ups and the archive: core.rules.cleaning decides; this module reads and writes for it.

See `tables.cleanup`, `tables.removing` and `tables.archive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.archive import ERROR_CHARS, RESULT_SUMMARY_CHARS, SUMMARY_BYTES
from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.retention import PruneReport, Scope
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.text import mentions
from leasehold.core.rules.cleanup_store import Bookmark, CleanUpBatch, CleanUpWrite, Cutoffs
from leasehold.env import to_micros
from leasehold.stores.postgres.keeping import days
from leasehold.stores.postgres.reading.figures import STATS
from leasehold.stores.postgres.rules.known import read_rules
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import POSTGRES, SqlConnection, unnested
from leasehold.stores.postgres.submitting.dependencies import DependentsBook
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.archive import ArchiveRow, TableArchive, decode_metadata
from leasehold.stores.tables.cleanup import TableLook
from leasehold.stores.tables.removing import TablePruning, TableRemoval
from leasehold.stores.tables.statements import SqlCursor

# Guard: rows of `finished` only, in the write that removes them from it. A result past its time to
# live leaves no summary.
ARCHIVE: Final = f"""
    SELECT $2::bigint, job.seq, job.id, lane.queue, lane.task, finished.status, job.created_at,
        coalesce(finished.started_at, (SELECT started_at FROM attempt WHERE attempt.seq = job.seq
                                       ORDER BY version DESC LIMIT 1)),
        finished.finished_at, $3::bigint, finished.attempts,
        failed.error_type, substr(failed.error_message, 1, {ERROR_CHARS}), finished.reason,
        CASE WHEN finished.result_codec IS NULL
                AND (job.result_ttl_seconds IS NULL
                     OR finished.finished_at + job.result_ttl_seconds * 1000000 > $3)
            THEN substr(finished.result, 1, {SUMMARY_BYTES}) END,
        job.metadata, job.parent_id,
        coalesce(failed_job.count, 0), failed_job.first_at, failed_job.last_at
    FROM finished
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    LEFT JOIN failed_job ON failed_job.seq = job.seq
    LEFT JOIN attempt AS failed ON failed.seq = job.seq AND failed.version = (
        SELECT max(version) FROM attempt
        WHERE attempt.seq = job.seq AND attempt.error_type IS NOT NULL)
    WHERE finished.seq = ANY($1)
"""
INSERT_ARCHIVED: Final = f"""
    INSERT INTO archive SELECT * FROM {
    unnested(
        "bigint bigint text text text bigint bigint bigint bigint bigint bigint text text text "
        "text text text bigint bigint bigint"
    )
}
"""
_RESULT: Final = ArchiveRow._fields.index("result")


class JobArchive(TableArchive):
    """Texts and metadata are compared in Python, as they are for jobs (`reading.read`)."""

    dialect = POSTGRES

    def compares(self, where: JobFilter) -> bool:
        return where.error_text is not None or where.metadata is not None

    def fits(self, row: ArchiveRow, where: JobFilter) -> bool:
        error = "" if row.error_type is None else f"{row.error_type}: {row.error_message}"
        if where.error_text is not None and not mentions(error, where.error_text):
            return False
        if where.metadata is None:
            return True
        metadata = {} if row.metadata is None else decode_metadata(row.metadata)
        return all(
            key in metadata and metadata[key] == each for key, each in where.metadata.items()
        )


def archive_jobs(db: SqlConnection, seqs: Sequence[int], day: int, now: int) -> None:
    """Copy ended jobs into the archive; their results are cut to the part shown as text."""
    rows = [list(row) for row in db.execute(ARCHIVE, (list(seqs), day, now))]
    for row in rows:
        if row[_RESULT] is not None:
            shown = bytes(row[_RESULT]).decode(errors="replace")[:RESULT_SUMMARY_CHARS]
            row[_RESULT] = storable(shown)
    db.many(INSERT_ARCHIVED, rows)


_QUEUE: Final = """
    CASE WHEN $5::boolean THEN (SELECT lane.queue FROM job JOIN lane ON lane.id = job.lane
                                WHERE job.seq = finished.seq) ELSE '' END
"""
ENDED: Final = f"""
    SELECT finished_at, seq, finished_at, {_QUEUE} FROM finished
    WHERE status = $4 AND (finished_at, seq) > ($1, $2)
        AND finished_at <= $6 AND NOT ({DependentsBook.still_needed()})
    ORDER BY finished_at, seq LIMIT $3
"""  # our own words
RESULTS: Final = """
    SELECT 0, seq, (
            SELECT finished_at FROM finished WHERE finished.seq = job.seq AND result IS NOT NULL
                AND finished_at + job.result_ttl_seconds * 1000000 <= $4), ''
    FROM job WHERE result_ttl_seconds IS NOT NULL AND seq > $2 AND $1 >= 0 ORDER BY seq LIMIT $3
"""
# Dead and cancelled jobs keep their history as long as they exist, since they may be replayed. A
# completed one has at least one attempt record until its history is dropped.
HISTORIES: Final = """
    SELECT 0, seq, (SELECT finished_at FROM finished WHERE seq = attempt.seq AND status = 5), ''
    FROM attempt WHERE seq > $2 AND seq < $4 AND $1 >= 0 GROUP BY seq ORDER BY seq LIMIT $3
"""
# Each completed job has at least three events, so a third of the bound is enough rows.
HISTORY_BOUND: Final = """
    SELECT max(seq) FROM (
        SELECT seq, sum(events) OVER (ORDER BY seq DESC) AS total FROM (
            SELECT seq, events FROM finished WHERE status = 5 ORDER BY seq DESC LIMIT $1 / 3 + 1
        ) AS latest
    ) AS summed WHERE total > $1
"""
OLDEST_AUDIT: Final = "SELECT at FROM {} ORDER BY n LIMIT 1"


class CleanUpLook(TableLook):
    """The reads for core.rules.cleaning."""

    load_rules = staticmethod(read_rules)
    stats = STATS
    oldest_day = days.OLDEST
    oldest_audit = OLDEST_AUDIT
    results = RESULTS
    histories = HISTORIES
    history_bound = HISTORY_BOUND
    _db: SqlConnection

    def _rows(
        self, statement: str, values: dict[str, Any], after: Bookmark, limit: int
    ) -> SqlCursor:
        # The values are in the order of the statement's numbers, after the place.
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
        # Unused pages are the server's own business: it vacuums automatically.
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
    """The writes for core.rules.cleaning."""

    dependents = DependentsBook
    drop_audits = DROP_ARCHIVED_AUDITS
    _step: Step

    def __init__(self, step: Step, *, leaves_old_days: bool = False) -> None:
        super().__init__(step)
        self._leaves_old_days = leaves_old_days

    def _archive(self, keys: Sequence[int], day: int) -> None:
        days.count_in(self._step, day, len(keys))
        archive_jobs(self._step.db, keys, day, self._step.now)

    def drop_archived(self, first_day: int, limit: int) -> int:  # noqa: ARG002  # whole days
        if not self._leaves_old_days:
            old = [day for (day,) in self._step.execute(days.OLD, (first_day,))]
            if old:
                raise days.DaysAreOld(old)
        return days.count_out(self._step, first_day)

    def archive_audits(self, until: datetime, limit: int) -> int:
        return self._step.changed(ARCHIVE_AUDITS, (to_micros(until), limit))


class Pruning(TablePruning):
    """A clean-up of a store."""

    look = CleanUpLook
    removal = Removal
    _database: Database

    def _remove(self, operation: Callable[[CleanUpWrite[int]], PruneReport]) -> PruneReport:
        """A write, and between its tries the changes of the archive that it asks for."""
        left = False

        def remove(step: Step) -> PruneReport:
            return operation(Removal(step, leaves_old_days=left))

        while True:
            try:
                return self._database.write(remove)
            except days.DayIsMissing as missing:
                days.make(self._database, missing.day)
            except days.DaysAreOld as old:
                days.drop(self._database, old.days)
                left = True
