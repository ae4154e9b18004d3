"""Clean-ups: rules.cleaning decides; here it is given a look at the store, and a way to write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.retention import DAY_SECONDS, PruneReport, RetentionPolicy, Scope
from leasehold.core.model.settings import retention_by
from leasehold.core.model.status import Status
from leasehold.core.rules import cleaning
from leasehold.core.rules.cleanup_store import Bookmark, CleanUpBatch, Cutoffs, EndedJob
from leasehold.core.rules.rule_book import RuleBook
from leasehold.env import to_micros
from leasehold.stores.postgres.keeping import archive
from leasehold.stores.postgres.reading.figures import STATS
from leasehold.stores.postgres.rules import known
from leasehold.stores.postgres.rules.known import read_rules
from leasehold.stores.postgres.server.connection import POSTGRES, SqlConnection
from leasehold.stores.postgres.submitting.dependencies import DependentsBook
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.archive import DROP
from leasehold.stores.tables.finding import OLD_KEYS, TableLook
from leasehold.stores.tables.job_states import RECORDS_OF_A_JOB
from leasehold.stores.tables.pruning import cleaned_store
from leasehold.stores.tables.removing import TableRemoval
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

    stats = STATS
    oldest_day = archive.OLDEST
    oldest_audit = OLDEST_AUDIT
    results = RESULTS
    histories = HISTORIES
    history_bound = HISTORY_BOUND
    _db: SqlConnection

    @property
    def _rules(self) -> RuleBook:
        return read_rules(self._db)

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


# Guard of every pruning: the job is still in `finished`, and no job needs it. Whether its end is
# old enough for its queue is asked of the rows that this finds.
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


def prune(
    database: Database,
    policy: RetentionPolicy | None,
    run: int | None,
    scope: Scope,
    limit: int,
    actor: str,
) -> PruneReport:
    """Begin a clean-up, or go on with one."""
    order = cleaning.PruneRequest(policy or _policy(database), scope, limit, actor)
    return cleaning.prune(cleaned_store(database, CleanUpLook, Removal), run, order)


def _policy(database: Database) -> RetentionPolicy:
    with database.read() as db:
        return retention_by(known.read_settings(db).values, RetentionPolicy())
