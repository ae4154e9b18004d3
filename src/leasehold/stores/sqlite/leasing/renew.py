"""A holder's messages while it works, in the words of this database; see `tables.ends`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from leasehold.core.model.lease import RunningLease
from leasehold.stores.sqlite.leasing.ends import Histories
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.ends import HeldLease, LeaseName, TableMessages

HELD_LEASE: Final = """
    SELECT seq, job.lane, acquired_at, expires_at, moved_by, cancel_reason
    FROM job JOIN running USING (seq) WHERE id = ? AND version = ?
"""


class Messages(TableMessages):
    """The messages of holders."""

    histories = Histories
    extend = "UPDATE running SET expires_at = ?3, heartbeat_at = ?4 WHERE seq = ?1 AND version = ?2"
    keep_progress = "INSERT OR REPLACE INTO progress VALUES (?, ?)"
    add_lines = "INSERT INTO log VALUES (?, ?, ?, ?)"

    @classmethod
    def held(cls, step: Step, leases: Collection[LeaseName]) -> Mapping[LeaseName, HeldLease]:
        found = ((name, step.execute(HELD_LEASE, name).fetchone()) for name in leases)
        return {
            name: (row[0], row[1], RunningLease(*row[2:])) for name, row in found if row is not None
        }


renew = Messages.renew
report_progress = Messages.report_progress
append_log = Messages.append_log
