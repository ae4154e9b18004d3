"""Holders' messages, statuses and ends of jobs: the statements for SQLite.

See `tables.ends` and `tables.job_states`, and `core.rules.ends` for the records of ended attempts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from leasehold.core.model.lease import RunningLease
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.holding import LeaseName
from leasehold.stores.sqlite.leasing.order import ReadyRows
from leasehold.stores.sqlite.schema.rows import ENDED_STATUS, SQLITE, whole
from leasehold.stores.tables.ends import RunningJob, TableEnds, TableHolderBook
from leasehold.stores.tables.job_states import TableHistories, state_by

ENDED: Final = f"""
    {ENDED_STATUS}, {whole("finished.version")}, {whole("finished.attempts")},
    {whole("finished.events")}, {whole("finished.available_at", MOMENT_MAX)}
"""
# The record of an attempt taken from its holder has the expiry of its lease.
SETTLED_UNDER: Final = f"""
    SELECT outcome, after, {whole("attempts")} FROM attempt
    WHERE seq = ? AND version = ? AND expires_at IS NULL
"""
# A damaged cell must not stop the write: a value other than a blob is not a result; any codec is
# read.
RESULT_OF: Final = """
    SELECT result, CAST(coalesce(result_codec, 'json') AS BLOB) FROM finished
    WHERE seq = ? AND typeof(result) = 'blob'
"""
INSERT_FINISHED: Final = f"INSERT INTO finished VALUES ({', '.join('?' * 11)})"


class Histories(TableHistories):
    """See `leasehold.core.rules.fence.Histories`."""

    dialect = SQLITE
    ready = ReadyRows
    by_number = state_by("job.seq", SQLITE, ENDED)
    by_id = state_by("job.id", SQLITE, ENDED)
    find_settled = SETTLED_UNDER
    find_result = RESULT_OF
    insert_finished = INSERT_FINISHED


refuse = Histories.refuse
settle_stale = Histories.settle_stale


# Deleting the row is the fence: leases that this does not return no longer belonged to the caller.
END_LEASE: Final = """
    DELETE FROM running WHERE seq = ? AND version = ?
    RETURNING seq, version, worker, acquired_at, attempts, events, leased_event, available_at,
              cancel_reason, expires_at, heartbeat_at, lease_micros
"""
INSERT_ATTEMPT: Final = f"INSERT INTO attempt VALUES ({', '.join('?' * 19)})"
COUNT_FAILURE: Final = """
    INSERT INTO failed_job VALUES (?1, 1, ?2, ?2)
    ON CONFLICT (seq) DO UPDATE SET count = count + 1, last_at = excluded.last_at
"""
INSERT_WAITING: Final = "INSERT INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Ends(TableEnds):
    """Ends of attempts of one write."""

    __slots__ = ()
    histories = Histories
    insert_attempts = INSERT_ATTEMPT
    count_failures = COUNT_FAILURE
    insert_waiting = INSERT_WAITING


HELD_LEASE: Final = """
    SELECT seq, job.lane, acquired_at, expires_at, moved_by, cancel_reason
    FROM job JOIN running USING (seq) WHERE id = ? AND version = ?
"""


EXTEND: Final = """
    UPDATE running SET expires_at = ?3, heartbeat_at = ?4 WHERE seq = ?1 AND version = ?2
"""


class HolderBook(TableHolderBook):
    """See `leasehold.core.rules.holding.HolderBook`."""

    histories = Histories
    extend_leases = EXTEND
    write_progress = "INSERT OR REPLACE INTO progress VALUES (?, ?)"
    write_lines = "INSERT INTO log VALUES (?, ?, ?, ?)"

    def held(
        self, leases: Collection[LeaseName]
    ) -> Mapping[LeaseName, tuple[RunningJob, RunningLease]]:
        found: Any = ((name, self._step.execute(HELD_LEASE, name).fetchone()) for name in leases)
        return {
            name: ((row[0], row[1], name[1]), RunningLease(*row[2:]))
            for name, row in found
            if row is not None
        }
