"""The archive, as rows of PostgreSQL; see `tables.archive`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.archive import ERROR_CHARS, RESULT_SUMMARY_CHARS, SUMMARY_BYTES
from leasehold.core.model.search import JobFilter
from leasehold.core.model.text import mentions
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import POSTGRES, SqlConnection, unnested
from leasehold.stores.tables.archive import ArchiveRow, TableArchive, decode_metadata

# Guard: rows of `finished` only, in the write that takes them out of it. A result past its time to
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
"""  # noqa: S608  # our own numbers
INSERT: Final = f"""
    INSERT INTO archive SELECT * FROM {
    unnested(
        "bigint bigint text text text bigint bigint bigint bigint bigint bigint text text text "
        "text text text bigint bigint bigint"
    )
}
"""  # noqa: S608  # our own names
OLDEST: Final = "SELECT day FROM archive ORDER BY day LIMIT 1"
_RESULT: Final = ArchiveRow._fields.index("result")


class JobArchive(TableArchive):
    """Texts and metadata are compared in Python, as they are for jobs (`reading.where`)."""

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


def add(db: SqlConnection, seqs: Sequence[int], day: int, now: int) -> None:
    """Copy ended jobs into the archive; their results are cut to the part shown as text."""
    rows = [list(row) for row in db.execute(ARCHIVE, (list(seqs), day, now))]
    for row in rows:
        if row[_RESULT] is not None:
            shown = bytes(row[_RESULT]).decode(errors="replace")[:RESULT_SUMMARY_CHARS]
            row[_RESULT] = storable(shown)
    db.many(INSERT, rows)
