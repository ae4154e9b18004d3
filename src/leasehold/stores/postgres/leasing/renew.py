"""A holder's messages while it works, in the words of this database; see `tables.ends`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from leasehold.core.model.lease import RunningLease
from leasehold.stores.postgres.leasing.ends import Histories
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.ends import HeldLease, LeaseName, TableMessages

HELD_LEASES: Final = """
    SELECT job.id, running.version, seq, job.lane, acquired_at, expires_at, 0, cancel_reason
    FROM job JOIN running USING (seq)
    WHERE job.id = ANY($1) ORDER BY seq FOR UPDATE OF running
"""
EXTEND: Final = f"""
    UPDATE running SET expires_at = until, heartbeat_at = now
    FROM {unnested("bigint bigint bigint bigint")} AS renewed (seq, version, until, now)
    WHERE running.seq = renewed.seq AND running.version = renewed.version
"""  # noqa: S608  # our own names
KEEP_PROGRESS: Final = """
    INSERT INTO progress VALUES ($1, $2)
    ON CONFLICT (seq) DO UPDATE SET document = excluded.document
"""
ADD_LINES: Final = f"INSERT INTO log SELECT * FROM {unnested('bigint bigint bigint text')}"  # noqa: S608  # our own names


class Messages(TableMessages):
    """The messages of holders."""

    histories = Histories
    extend = EXTEND
    keep_progress = KEEP_PROGRESS
    add_lines = ADD_LINES

    @classmethod
    def held(cls, step: Step, leases: Collection[LeaseName]) -> Mapping[LeaseName, HeldLease]:
        rows: Any = step.execute(HELD_LEASES, ([job_id for job_id, _ in leases],)) if leases else ()
        return {
            (job_id, version): (seq, lane, RunningLease(*lease))
            for job_id, version, seq, lane, *lease in rows
        }


renew = Messages.renew
report_progress = Messages.report_progress
append_log = Messages.append_log
