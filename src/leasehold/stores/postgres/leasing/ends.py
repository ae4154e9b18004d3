"""Holders' messages, statuses and ends of jobs: the statements for PostgreSQL.

See `tables.ends` and `tables.job_states`, and `core.rules.ends` for the records of ended attempts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from leasehold.core.model.lease import RunningLease
from leasehold.core.rules.holding import LeaseName
from leasehold.stores.postgres.leasing.order import ReadyRows
from leasehold.stores.postgres.server.connection import POSTGRES, unnested
from leasehold.stores.tables.ends import RunningJob, TableEnds, TableHolderBook
from leasehold.stores.tables.job_states import TableHistories, state_by

ENDED: Final = """
    finished.status, finished.version, finished.attempts, finished.events, finished.available_at
"""
INSERT_FINISHED: Final = f"""
    INSERT INTO finished SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint bigint bytea text text")
}
"""
# The record of an attempt taken from its holder has the expiry of its lease.
SETTLED_UNDER: Final = """
    SELECT outcome, after, attempts FROM attempt
    WHERE seq = $1 AND version = $2 AND expires_at IS NULL
"""
RESULT_OF: Final = "SELECT result, coalesce(result_codec, 'json') FROM finished WHERE seq = $1"


class Histories(TableHistories):
    """See `leasehold.core.rules.fence.Histories`."""

    dialect = POSTGRES
    ready = ReadyRows
    by_number = state_by("job.seq", POSTGRES, ENDED)
    by_id = state_by("job.id", POSTGRES, ENDED)
    find_settled = SETTLED_UNDER
    find_result = RESULT_OF
    insert_finished = INSERT_FINISHED


refuse = Histories.refuse
settle_stale = Histories.settle_stale


# Deleting the row is the fence: leases that this does not return no longer belonged to the caller.
HELD: Final = """
    running.seq, running.version, worker, acquired_at, attempts, events, leased_event, available_at,
    cancel_reason, expires_at, heartbeat_at, lease_micros
"""
"""The columns of a Held."""
HELD_BY_NAME: Final = HELD.replace("running.", "")
"""The same columns by name, for a query that has read them."""
END_LEASES: Final = f"""
    WITH held AS (
        SELECT guarded.seq FROM {unnested("bigint bigint")} AS settled (seq, version), LATERAL (
            SELECT running.seq FROM running
            WHERE running.seq = settled.seq AND running.version = settled.version FOR UPDATE
        ) AS guarded)
    DELETE FROM running USING held WHERE running.seq = held.seq
    RETURNING {HELD}
"""
INSERT_ATTEMPTS: Final = f"""
    INSERT INTO attempt SELECT * FROM {
    unnested(
        "bigint bigint bigint text bigint bigint bigint bigint bigint bigint bigint text text text "
        "text bytea bigint bigint bigint"
    )
}
"""
COUNT_FAILURES: Final = f"""
    INSERT INTO failed_job
    SELECT seq, 1, at, at FROM {unnested("bigint bigint")} AS failed (seq, at)
    ON CONFLICT (seq) DO UPDATE SET count = failed_job.count + 1, last_at = excluded.last_at
"""
INSERT_WAITING: Final = f"""
    INSERT INTO waiting SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint text")
}
"""


class Ends(TableEnds):
    """Ends of attempts of one write."""

    __slots__ = ()
    histories = Histories
    insert_attempts = INSERT_ATTEMPTS
    count_failures = COUNT_FAILURES
    insert_waiting = INSERT_WAITING


HELD_LEASES: Final = """
    SELECT job.id, running.version, seq, job.lane, acquired_at, expires_at, 0, cancel_reason
    FROM job JOIN running USING (seq)
    WHERE job.id = ANY($1) ORDER BY seq FOR UPDATE OF running
"""
EXTEND: Final = f"""
    UPDATE running SET expires_at = until, heartbeat_at = now
    FROM {unnested("bigint bigint bigint bigint")} AS renewed (seq, version, until, now)
    WHERE running.seq = renewed.seq AND running.version = renewed.version
"""
KEEP_PROGRESS: Final = """
    INSERT INTO progress VALUES ($1, $2)
    ON CONFLICT (seq) DO UPDATE SET document = excluded.document
"""
ADD_LINES: Final = f"INSERT INTO log SELECT * FROM {unnested('bigint bigint bigint text')}"


class HolderBook(TableHolderBook):
    """See `leasehold.core.rules.holding.HolderBook`."""

    histories = Histories
    extend_leases = EXTEND
    write_progress = KEEP_PROGRESS
    write_lines = ADD_LINES

    def held(
        self, leases: Collection[LeaseName]
    ) -> Mapping[LeaseName, tuple[RunningJob, RunningLease]]:
        ids = [job_id for job_id, _ in leases]
        rows: Any = self._step.execute(HELD_LEASES, (ids,)) if leases else ()
        return {
            (job_id, version): ((seq, lane, version), RunningLease(*lease))
            for job_id, version, seq, lane, *lease in rows
        }
