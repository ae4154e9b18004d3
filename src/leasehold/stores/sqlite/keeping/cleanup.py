"""Clean-ups: rules.cleaning decides; here it is given a look at the store, and a way to write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.retention import DAY_SECONDS, PruneReport, RetentionPolicy, Scope
from leasehold.core.model.settings import retention_by
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX, UNREADABLE
from leasehold.core.rules import cleaning
from leasehold.core.rules.cleanup_store import Bookmark, CleanUpBatch, Cutoffs, EndedJob
from leasehold.core.rules.rule_book import RuleBook
from leasehold.env import to_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.disk import space
from leasehold.stores.sqlite.keeping import archive
from leasehold.stores.sqlite.reading.figures import STATS
from leasehold.stores.sqlite.rules import known
from leasehold.stores.sqlite.rules.known import read_rules
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.submitting.dependencies import DependentsBook
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.archive import DROP
from leasehold.stores.tables.finding import OLD_KEYS, TableLook
from leasehold.stores.tables.job_states import RECORDS_OF_A_JOB
from leasehold.stores.tables.pruning import cleaned_store
from leasehold.stores.tables.removing import TableRemoval
from leasehold.stores.tables.statements import SqlCursor

_QUEUE: Final = """
    iif(:by_queue, (SELECT lane.queue FROM job JOIN lane ON lane.id = job.lane
                    WHERE job.seq = finished.seq), '')
"""
# Cancelled and dead jobs stand in an index by status and time. `status <> 5` is said again because
# SQLite uses a partial index only for its very words.
IN_TROUBLE: Final = f"""
    SELECT finished_at, seq, finished_at, {_QUEUE} FROM finished
    WHERE status = :status AND status <> 5 AND (finished_at, seq) > (:major, :minor)
        AND finished_at <= :latest AND NOT ({DependentsBook.still_needed()})
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
# Each completed job has at least three events: as many jobs as a third of the bound are enough. A
# job without an attempt record has lost its history, and is not counted.
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
# A time that cannot be right says nothing: the next job's is looked at.
SUBMITTED: Final = f"""
    SELECT seq, created_at FROM job
    WHERE seq >= ? AND typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND {MOMENT_MAX}
    ORDER BY seq LIMIT 1
"""  # noqa: S608  # our own number
NEXT_SEQ: Final = "SELECT next_seq FROM store_state"


class CleanUpLook(TableLook):
    """What core.rules.cleaning asks of a reader."""

    stats = STATS
    oldest_day = archive.OLDEST
    oldest_audit = OLDEST_AUDIT
    results = RESULTS
    histories = HISTORIES
    history_bound = HISTORY_BOUND
    _db: apsw.Connection

    @property
    def _rules(self) -> RuleBook:
        return read_rules(self._db)

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
        return self._has_old_keys() or space.to_release(self._db, everything=scope.emergency) > 0


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


# Guard of every pruning: the job is still in `finished`, and no job needs it. Whether its end is
# old enough for its queue is asked of the rows that this finds.
STILL_ENDED: Final = f"""
    SELECT finished.seq, lane.queue, finished.status, finished.finished_at
    FROM json_each(:seqs) AS doomed
    CROSS JOIN finished ON finished.seq = doomed.value
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    WHERE NOT ({DependentsBook.still_needed()})
"""  # noqa: S608  # our own words
COUNT: Final = """
    SELECT job.lane, finished.status, count(*), max(finished.version),
           max(job.idempotency_key IS NOT NULL)
    FROM json_each(:seqs) AS doomed
    CROSS JOIN finished ON finished.seq = doomed.value
    JOIN job ON job.seq = finished.seq
    GROUP BY job.lane, finished.status
"""
# Guard of both: the key was last used for this very job.
KEEP_KEYS: Final = """
    INSERT INTO pruned_key
    SELECT job.seq, job.id, finished.status, idempotency.queue, idempotency.key,
           idempotency.expires_at
    FROM json_each(:seqs) AS doomed
    CROSS JOIN job ON job.seq = doomed.value
    JOIN lane ON lane.id = job.lane
    JOIN finished ON finished.seq = job.seq
    JOIN idempotency ON idempotency.queue = lane.queue AND idempotency.key = job.idempotency_key
        AND idempotency.seq = job.seq
    WHERE idempotency.expires_at > :now
"""
DROP_KEYS: Final = """
    DELETE FROM idempotency WHERE expires_at <= :now AND (queue, key, seq) IN (
        SELECT lane.queue, job.idempotency_key, job.seq
        FROM json_each(:seqs) AS doomed
        CROSS JOIN job ON job.seq = doomed.value JOIN lane ON lane.id = job.lane)
"""
DROP_OLD_KEYS: Final = """
    DELETE FROM idempotency WHERE (queue, key, seq) IN (
        SELECT queue, key, seq FROM pruned_key WHERE seq IN (SELECT value FROM json_each(?)))
"""
DELETE: Final = "DELETE FROM {} WHERE seq IN (SELECT value FROM json_each(?))"
DROP_RESULTS: Final = """
    UPDATE finished SET result = NULL, result_codec = NULL
    WHERE status = 5 AND seq IN (SELECT value FROM json_each(?))
"""
# Audit records are numbered in the order of their time. One whose time cannot be read is old.
ARCHIVE_AUDITS: Final = """
    INSERT INTO audit_archive (n, at, actor, action, count, detail)
    SELECT n, at, actor, action, count, detail FROM (SELECT * FROM audit ORDER BY n LIMIT ?2)
    WHERE at <= ?1 OR typeof(at) <> 'integer'
"""
# Guard: only rows that have just been copied, in the same write.
FORGET_ARCHIVED_AUDITS: Final = """
    DELETE FROM audit WHERE n IN (SELECT n FROM audit_archive ORDER BY n DESC LIMIT ?)
"""
DROP_ARCHIVED_AUDITS: Final = """
    DELETE FROM audit_archive WHERE n IN (
        SELECT n FROM (SELECT n, at FROM audit_archive ORDER BY n LIMIT ?2)
        WHERE at <= ?1 OR typeof(at) <> 'integer')
"""


class Removal(TableRemoval):
    """What core.rules.cleaning does inside a write."""

    dialect = SQLITE
    dependents = DependentsBook
    delete = DELETE
    still_ended_statement = STILL_ENDED
    _step: Step

    def remove(self, jobs: Sequence[EndedJob[int]], *, archived: bool) -> None:
        step = self._step
        seqs = _list([job.key for job in jobs])
        if archived:
            day = step.now // round(DAY_SECONDS * 1e6)
            step.execute(archive.ARCHIVE, {"day": day, "now": step.now, "seqs": seqs})
        has_keys = False
        counts: Any = step.execute(COUNT, {"seqs": seqs}).fetchall()
        for lane, status, number, version, some_key in counts:
            step.count(lane, STATUS_OF[status].value, -number)
            step.count(lane, "total_cleaned", number)
            # Should an id be used again, its leases must not repeat a version granted before.
            step.version_floor = max(step.version_floor, version)
            has_keys = has_keys or some_key
        if has_keys:
            step.execute(KEEP_KEYS, {"now": step.now, "seqs": seqs})
            step.execute(DROP_KEYS, {"now": step.now, "seqs": seqs})
        for table in ("finished", *RECORDS_OF_A_JOB):
            step.execute(DELETE.format(table), (seqs,))

    def drop_results(self, keys: Sequence[int]) -> int:
        self._step.execute(DROP_RESULTS, (_list(keys),))
        return self._step.db.changes()

    def drop_archived(self, first_day: int, limit: int) -> int:
        self._step.execute(DROP, (first_day, limit))
        return self._step.db.changes()

    def drop_rest(self, limit: int, scope: Scope) -> int:
        """Idempotency keys of pruned jobs that do not count any more, then unused pages."""
        rows: Any = self._step.execute(OLD_KEYS, (self._step.now, limit))
        if seqs := [seq for (seq,) in rows]:
            self._step.execute(DROP_OLD_KEYS, (_list(seqs),))
            self._step.execute(DELETE.format("pruned_key"), (_list(seqs),))
            return len(seqs)
        pages = min(limit, space.to_release(self._step.db, everything=scope.emergency))
        space.release(self._step.db, pages)
        return pages

    def archive_audits(self, until: datetime, limit: int) -> int:
        self._step.execute(ARCHIVE_AUDITS, (to_micros(until), limit))
        moved = self._step.db.changes()
        self._step.execute(FORGET_ARCHIVED_AUDITS, (moved,))
        return moved

    def drop_archived_audits(self, until: datetime, limit: int) -> int:
        self._step.execute(DROP_ARCHIVED_AUDITS, (to_micros(until), limit))
        return self._step.db.changes()


def _list(seqs: Sequence[int]) -> str:
    return msgspec.json.encode(seqs).decode()


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
    store = cleaned_store(database, CleanUpLook, Removal)
    report = None
    try:
        report = cleaning.prune(store, run, order)
    except UNREADABLE as error:
        # The record of an earlier clean-up, as a rule: who only looks has nobody to mend it.
        if isinstance(error, LeaseholdError) or not database.mend():
            raise
    # Not while the error is handled: its traceback keeps the reader's rows alive.
    report = report or cleaning.prune(store, run, order)
    if run is None and report.run is not None:
        # Damage that no write has met yet is looked for once per clean-up.
        database.mend()
    if run is not None:
        with database.read() as db:
            space.checkpoint(db)
    return report


def _policy(database: Database) -> RetentionPolicy:
    with database.read() as db:
        return retention_by(known.read_settings(db).values, RetentionPolicy())
