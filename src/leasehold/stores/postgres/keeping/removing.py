"""Removing what a clean-up has found: archived and deleted in one bounded write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.retention import DAY_SECONDS, Scope
from leasehold.core.rules.cleanup_store import EndedJob
from leasehold.env import to_micros
from leasehold.stores.postgres.keeping import archive
from leasehold.stores.postgres.server.connection import POSTGRES
from leasehold.stores.postgres.submitting.ended_dependents import DependentsBook
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.archive import DROP
from leasehold.stores.tables.finding import OLD_KEYS
from leasehold.stores.tables.removing import RECORDS_OF_A_JOB, TableRemoval

# Guard of every pruning: the job is still in `finished`, and nobody needs it. Whether its end is
# old enough for its queue is asked of what this finds.
STILL_ENDED: Final = f"""
    SELECT finished.seq, lane.queue, finished.status, finished.finished_at
    FROM finished
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    WHERE finished.seq = ANY($1) AND NOT ({DependentsBook.still_needed()})
"""  # noqa: S608  # our own words
COUNT: Final = """
    SELECT job.lane, finished.status, count(*),
           bool_or(job.idempotency_key IS NOT NULL)
    FROM finished
    JOIN job ON job.seq = finished.seq
    WHERE finished.seq = ANY($1)
    GROUP BY job.lane, finished.status
"""
# Guard of both: the key was last used for this very job.
KEEP_KEYS: Final = """
    INSERT INTO pruned_key
    SELECT job.seq, job.id, finished.status, idempotency.queue, idempotency.key,
           idempotency.expires_at
    FROM job
    JOIN lane ON lane.id = job.lane
    JOIN finished ON finished.seq = job.seq
    JOIN idempotency ON idempotency.queue = lane.queue AND idempotency.key = job.idempotency_key
        AND idempotency.seq = job.seq
    WHERE job.seq = ANY($1) AND idempotency.expires_at > $2
"""
DROP_KEYS: Final = """
    DELETE FROM idempotency WHERE expires_at <= $2 AND (queue, key, seq) IN (
        SELECT lane.queue, job.idempotency_key, job.seq
        FROM job JOIN lane ON lane.id = job.lane WHERE job.seq = ANY($1))
"""
DROP_OLD_KEYS: Final = """
    DELETE FROM idempotency WHERE (queue, key, seq) IN (
        SELECT queue, key, seq FROM pruned_key WHERE seq = ANY($1))
"""
DELETE: Final = "DELETE FROM {} WHERE seq = ANY($1)"
DROP_RESULTS: Final = """
    UPDATE finished SET result = NULL, result_codec = NULL
    WHERE status = 5 AND seq = ANY($1)
"""
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

    dialect = POSTGRES
    dependents = DependentsBook
    delete = DELETE
    still_ended_statement = STILL_ENDED
    _step: Step

    def remove(self, jobs: Sequence[EndedJob[int]], *, archived: bool) -> None:
        step = self._step
        seqs = [job.key for job in jobs]
        if archived:
            day = step.now // round(DAY_SECONDS * 1e6)
            archive.add(step.db, seqs, day, step.now)
        has_keys = False
        counts: Any = step.execute(COUNT, (seqs,)).fetchall()
        for lane, status, number, some_key in counts:
            step.count(lane, STATUS_OF[status].value, -number)
            step.count(lane, "total_cleaned", number)
            has_keys = has_keys or some_key
        if has_keys:
            step.execute(KEEP_KEYS, (seqs, step.now))
            step.execute(DROP_KEYS, (seqs, step.now))
        for table in ("finished", *RECORDS_OF_A_JOB):
            step.execute(DELETE.format(table), (seqs,))

    def drop_results(self, keys: Sequence[int]) -> int:
        return self._step.db.changed(DROP_RESULTS, (list(keys),))

    def drop_archived(self, first_day: int, limit: int) -> int:
        return self._step.db.changed(DROP, (first_day, limit))

    def drop_rest(self, limit: int, scope: Scope) -> int:  # noqa: ARG002  # as there
        """Idempotency keys of pruned jobs that do not count any more."""
        rows: Any = self._step.execute(OLD_KEYS, (self._step.now, limit))
        if seqs := [seq for (seq,) in rows]:
            self._step.execute(DROP_OLD_KEYS, (seqs,))
            self._step.execute(DELETE.format("pruned_key"), (seqs,))
            return len(seqs)
        return 0

    def archive_audits(self, until: datetime, limit: int) -> int:
        return self._step.db.changed(ARCHIVE_AUDITS, (to_micros(until), limit))

    def drop_archived_audits(self, until: datetime, limit: int) -> int:
        return self._step.db.changed(DROP_ARCHIVED_AUDITS, (to_micros(until), limit))
