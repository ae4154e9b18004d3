"""Removing what a clean-up has found: archived and deleted in one bounded write.

The deletion of an ended job with all its records, as if it had never been submitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.retention import DAY_SECONDS, Scope
from leasehold.core.rules.cleanup_store import EndedJob
from leasehold.env import to_micros
from leasehold.stores.sqlite.disk import space
from leasehold.stores.sqlite.keeping import archive
from leasehold.stores.sqlite.leasing.state import remove, state_of
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.submitting.ended_dependents import DependentsBook
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.archive import DROP
from leasehold.stores.tables.finding import OLD_KEYS
from leasehold.stores.tables.removing import RECORDS_OF_A_JOB, TableRemoval

# Guard of every pruning: the job is still in `finished`, and nobody needs it. Whether its end is
# old enough for its queue is asked of what this finds.
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
# Guard: only what has just been copied, in the same write.
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


WHOSE: Final = """
    SELECT lane.id, lane.queue, idempotency_key FROM job JOIN lane ON lane.id = job.lane
    WHERE job.seq = ?
"""
FORGET_KEY: Final = "DELETE FROM idempotency WHERE queue = ? AND key = ? AND seq = ?"


def erase(step: Step, seq: int) -> None:
    """Delete a job that has ended; whether anybody needs it is the caller's question."""
    job = state_of(step, seq)
    assert job is not None, "a job that is not there is erased"
    assert job.status.is_terminal, "a job that has not ended is erased"
    whose: Any = step.execute(WHOSE, (seq,)).fetchone()
    lane, queue, key = whose
    remove(step, job)
    if key is not None:
        step.execute(FORGET_KEY, (queue, key, seq))
    for table in RECORDS_OF_A_JOB:
        step.execute(f"DELETE FROM {table} WHERE seq = ?", (seq,))  # noqa: S608  # our own names
    # Should the id be used again, its leases must not repeat a version that was granted before.
    step.version_floor = max(step.version_floor, job.lease_version)
    step.count(lane, job.status.value, -1)
    step.count(lane, "total_cleaned")
