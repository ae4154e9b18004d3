"""The archive, as rows of SQLite; see `tables.archive`."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.core.model.archive import ERROR_CHARS, RESULT_SUMMARY_CHARS, SUMMARY_BYTES
from leasehold.core.model.search import JobFilter
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.tables.archive import Clause, TableArchive

# Guard: rows of `finished` only, in the write that takes them out of it. A result past its time to
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
"""  # noqa: S608  # our own numbers
# A day that is none would be dropped last, or never: it is left to a person who reads `check`.
OLDEST: Final = "SELECT day FROM archive WHERE typeof(day) = 'integer' ORDER BY day LIMIT 1"
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
