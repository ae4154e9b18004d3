"""Clean-ups and the archive: core.rules.cleaning decides; this module reads and writes for it.

See `tables.cleanup`, `tables.removing` and `tables.archive`. Free pages are returned to the disk a
few hundred at a time, never by a plain VACUUM, which would lock everybody out while it copies the
file.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.archive import ERROR_CHARS, RESULT_SUMMARY_CHARS, SUMMARY_BYTES
from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.retention import PruneReport, Scope
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX, UNREADABLE
from leasehold.core.rules.cleaning import PruneRequest
from leasehold.core.rules.cleanup_store import Bookmark, CleanUpBatch, Cutoffs
from leasehold.env import to_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.reading.figures import STATS
from leasehold.stores.sqlite.rules.known import read_rules
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.submitting.dependencies import DependentsBook
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.archive import TableArchive
from leasehold.stores.tables.cleanup import TableLook
from leasehold.stores.tables.removing import TablePruning, TableRemoval
from leasehold.stores.tables.statements import Clause, SqlCursor

# Guard: rows of `finished` only, in the write that removes them from it. A result past its time to
# live leaves no summary.
ARCHIVE: Final = f"""
    INSERT INTO archive
    SELECT :day, job.seq, job.id, lane.queue, lane.task, finished.status, job.created_at,
        coalesce(finished.started_at, (SELECT started_at FROM attempt WHERE attempt.seq = job.seq
                                       ORDER BY version DESC LIMIT 1)),
        finished.finished_at, :now, finished.attempts,
        failed.error_type, substr(failed.error_message, 1, {ERROR_CHARS}), finished.reason,
        iif(finished.result_codec IS NULL
                AND (job.result_ttl_seconds IS NULL
                     OR finished.finished_at + job.result_ttl_seconds * 1000000 > :now),
            substr(CAST(substr(finished.result, 1, {SUMMARY_BYTES}) AS TEXT),
                   1, {RESULT_SUMMARY_CHARS}), NULL),
        job.metadata, job.parent_id,
        coalesce(failed_job.count, 0), failed_job.first_at, failed_job.last_at
    FROM json_each(:seqs) AS doomed
    CROSS JOIN finished ON finished.seq = doomed.value
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    LEFT JOIN failed_job ON failed_job.seq = job.seq
    LEFT JOIN attempt AS failed ON failed.seq = job.seq AND failed.version = (
        SELECT max(version) FROM attempt
        WHERE attempt.seq = job.seq AND attempt.error_type IS NOT NULL)
"""
# An invalid day would be dropped last or never: it is left to a person who reads `check`.
OLDEST_DAY: Final = "SELECT day FROM archive WHERE typeof(day) = 'integer' ORDER BY day LIMIT 1"
_ERROR_TEXT: Final = "coalesce(CAST(error_type || ': ' || error_message AS BLOB), '')"
_HAS_TAG: Final = """
    EXISTS (SELECT 1
            FROM json_each(iif(json_valid(archive.metadata), archive.metadata, NULL)) AS tag,
                json_each({}) AS wanted
            WHERE tag.key = wanted.key AND tag.value IS wanted.value)
"""


class JobArchive(TableArchive):
    """SQLite compares every condition."""

    dialect = SQLITE

    def further_clauses(self, where: JobFilter) -> list[Clause]:
        clauses: list[Clause] = []
        if where.error_text is not None:
            clauses.append((f"mentions({_ERROR_TEXT}, {{}})", (where.error_text,)))
        for key, value in (where.metadata or {}).items():
            clauses.append((_HAS_TAG, (msgspec.json.encode({key: value}).decode(),)))
        return clauses


_QUEUE: Final = """
    iif(:by_queue, (SELECT lane.queue FROM job JOIN lane ON lane.id = job.lane
                    WHERE job.seq = finished.seq), '')
"""
# Cancelled and dead jobs are in an index by status and time. `status <> 5` is repeated because
# SQLite uses a partial index only if the query contains its condition literally.
IN_TROUBLE: Final = f"""
    SELECT finished_at, seq, finished_at, {_QUEUE} FROM finished
    WHERE status = :status AND status <> 5 AND (finished_at, seq) > (:major, :minor)
        AND finished_at <= :latest AND NOT ({DependentsBook.still_needed()})
    ORDER BY finished_at, seq LIMIT :rows
"""
COMPLETED: Final = f"""
    SELECT 0, seq, iif(status = 5 AND finished_at <= :latest, finished_at, NULL),
        iif(status = 5 AND finished_at <= :latest, {_QUEUE}, '')
    FROM finished WHERE seq > :minor AND seq < :bound ORDER BY seq LIMIT :rows
"""
RESULTS: Final = """
    SELECT 0, seq, (
            SELECT finished_at FROM finished WHERE finished.seq = job.seq AND result IS NOT NULL
                AND finished_at + job.result_ttl_seconds * 1000000 <= :now), ''
    FROM job WHERE result_ttl_seconds IS NOT NULL AND seq > :minor ORDER BY seq LIMIT :rows
"""
# Dead and cancelled jobs keep their history as long as they exist, since they may be replayed. A
# completed one has at least one attempt record until its history is dropped.
HISTORIES: Final = """
    SELECT 0, seq, (SELECT finished_at FROM finished WHERE seq = attempt.seq AND status = 5), ''
    FROM attempt WHERE seq > :minor AND seq < :bound GROUP BY seq ORDER BY seq LIMIT :rows
"""
# Each completed job has at least three events, so a third of the bound is enough jobs. A job
# without an attempt record has lost its history, and is not counted.
HISTORY_BOUND: Final = """
    SELECT max(seq) FROM (
        SELECT seq, sum(events) OVER (ORDER BY seq DESC) AS total FROM (
            SELECT attempt.seq, events FROM attempt CROSS JOIN finished USING (seq)
            WHERE status = 5 GROUP BY attempt.seq ORDER BY attempt.seq DESC LIMIT ?1 / 3 + 1))
    WHERE total > ?1
"""
# A record with an unreadable time counts as oldest.
OLDEST_AUDIT: Final = f"""
    SELECT iif(typeof(at) = 'integer', min(max(at, 0), {MOMENT_MAX}), 0)
    FROM {{}} ORDER BY n LIMIT 1
"""
# An impossible time is ignored, and the next job's time is used.
SUBMITTED: Final = f"""
    SELECT seq, created_at FROM job
    WHERE seq >= ? AND typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND {MOMENT_MAX}
    ORDER BY seq LIMIT 1
"""
NEXT_SEQ: Final = "SELECT next_seq FROM store_state"


KEPT_FREE: Final = 4
"""This share of the pages stays free inside the file: the next day's jobs will fill them again, and
returning them only to ask for them again would be wasted work.
"""


def to_release(db: apsw.Connection, *, everything: bool) -> int:
    """How many free pages are worth returning to the disk."""
    free = int(str(db.pragma("freelist_count")))
    return free if everything else max(0, free - int(str(db.pragma("page_count"))) // KEPT_FREE)


def release(db: apsw.Connection, pages: int) -> None:
    """Return free pages to the disk; the file shrinks with the next checkpoint."""
    if pages > 0:
        # Each page is one step of the statement: it must be run to its end.
        db.execute(f"PRAGMA incremental_vacuum({pages:d})").fetchall()


def checkpoint(db: apsw.Connection) -> None:
    """Move commits from the write-ahead log to the database, blocking no writer.

    Called when no caller waits, so that commits have less of it to do.
    """
    # Busy: another process is already doing it.
    with suppress(apsw.BusyError):
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


class CleanUpLook(TableLook):
    """The reads for core.rules.cleaning."""

    load_rules = staticmethod(read_rules)
    stats = STATS
    oldest_day = OLDEST_DAY
    oldest_audit = OLDEST_AUDIT
    results = RESULTS
    histories = HISTORIES
    history_bound = HISTORY_BOUND
    _db: apsw.Connection

    def _rows(
        self, statement: str, values: dict[str, Any], after: Bookmark, limit: int
    ) -> SqlCursor:
        place = {"major": after.major, "minor": after.minor, "rows": limit}
        return self._db.execute(statement, values | place)

    def find_ended(
        self, status: Status, cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[int]:
        values = {"latest": cutoffs.latest, "by_queue": bool(cutoffs.own)}
        if status is not Status.COMPLETED:
            values["status"] = STATUS_CODE[status]
            return self._walk(IN_TROUBLE, values, cutoffs, after, limit)
        assert cutoffs.latest is not None
        values["bound"] = first_submitted_after(self._db, cutoffs.latest)
        return self._walk(COMPLETED, values, cutoffs, after, limit)

    def has_rest(self, scope: Scope) -> bool:
        return self._has_old_keys() or to_release(self._db, everything=scope.emergency) > 0


def first_submitted_after(db: apsw.Connection, cutoff: int) -> int:
    """The number of the first job submitted after the cutoff; above all of them if there is none.

    Found by bisection: the store's clock never steps back, so numbers and times grow together.
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


# Audit records are numbered in the order of their time. One with an unreadable time counts as old.
ARCHIVE_AUDITS: Final = """
    INSERT INTO audit_archive (n, at, actor, action, count, detail)
    SELECT n, at, actor, action, count, detail FROM (SELECT * FROM audit ORDER BY n LIMIT ?2)
    WHERE at <= ?1 OR typeof(at) <> 'integer'
"""
# Guard: only rows just copied, in the same write.
FORGET_ARCHIVED_AUDITS: Final = """
    DELETE FROM audit WHERE n IN (SELECT n FROM audit_archive ORDER BY n DESC LIMIT ?)
"""
DROP_ARCHIVED_AUDITS: Final = """
    DELETE FROM audit_archive WHERE n IN (
        SELECT n FROM (SELECT n, at FROM audit_archive ORDER BY n LIMIT ?2)
        WHERE at <= ?1 OR typeof(at) <> 'integer')
"""


class Removal(TableRemoval):
    """The writes for core.rules.cleaning."""

    dependents = DependentsBook
    drop_audits = DROP_ARCHIVED_AUDITS
    _step: Step

    def _archive(self, keys: Sequence[int], day: int) -> None:
        values = {"day": day, "now": self._step.now, "seqs": self._listed(keys)}
        self._step.execute(ARCHIVE, values)

    def archive_audits(self, until: datetime, limit: int) -> int:
        moved = self._step.changed(ARCHIVE_AUDITS, (to_micros(until), limit))
        self._step.execute(FORGET_ARCHIVED_AUDITS, (moved,))
        return moved

    def _release(self, limit: int, scope: Scope) -> int:
        pages = min(limit, to_release(self._step.db, everything=scope.emergency))
        release(self._step.db, pages)
        return pages


class Pruning(TablePruning):
    """A clean-up of a store."""

    look = CleanUpLook
    removal = Removal
    _database: Database

    def run(self, run: int | None, order: PruneRequest) -> PruneReport:
        database = self._database
        report = None
        try:
            report = super().run(run, order)
        except UNREADABLE as error:
            # Usually the record of an earlier clean-up, which a read-only caller cannot repair.
            if isinstance(error, LeaseholdError) or not database.mend():
                raise
        # Not inside the error handler: its traceback keeps the reader's rows alive.
        report = report or super().run(run, order)
        if run is None and report.run is not None:
            # Search once per clean-up for damage that no write has met yet.
            database.mend()
        if run is not None:
            with database.read() as db:
                checkpoint(db)
        return report
