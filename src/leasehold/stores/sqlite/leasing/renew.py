"""A holder's messages while it works: renewals, progress, log lines. All of it fenced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.joblog import LogLine, bounded
from leasehold.core.model.lease import Renewal, Renewed, RunningLease, decide_renewal
from leasehold.core.model.limits import LOG_LINES_MAX
from leasehold.env import to_micros
from leasehold.errors import LeaseExpiredError, LeaseLostError
from leasehold.stores.sqlite.leasing.ends import refuse
from leasehold.stores.sqlite.writing.step import Step

HELD: Final = """
    SELECT seq, job.lane, acquired_at, expires_at, moved_by, cancel_reason
    FROM job JOIN running USING (seq) WHERE id = ? AND version = ?
"""
# Guard: still this version. (It was just read in the same write, so it always holds.)
EXTEND: Final = """
    UPDATE running SET expires_at = ?, heartbeat_at = ? WHERE seq = ? AND version = ?
"""
BEAT: Final = "UPDATE worker SET heartbeat_at = ? WHERE id = ?"
KEEP_PROGRESS: Final = "INSERT OR REPLACE INTO progress VALUES (?, ?)"
LAST_LINE: Final = "SELECT coalesce(max(n), 0) FROM log WHERE seq = ?"
ADD_LINE: Final = "INSERT INTO log VALUES (?, ?, ?, ?)"
DROP_LINES: Final = "DELETE FROM log WHERE seq = ? AND n <= ?"


def renew(step: Step, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
    """Renew leases that are held and not expired, and the worker's own sign of life."""
    step.execute(BEAT, (step.now, worker))
    return [_renew_one(step, renewal) for renewal in renewals]


def _renew_one(step: Step, renewal: Renewal) -> Renewed | LeaseLostError:
    row = step.execute(HELD, (renewal.job_id, renewal.version)).fetchone()
    if row is None:
        return refuse(step, renewal.job_id, renewal.version)
    seq, lane, *lease = row
    decided = decide_renewal(
        renewal,
        RunningLease(*lease),
        now=step.now,
        extension_seconds_max=step.settings.extension_seconds_max,
    )
    if isinstance(decided, LeaseExpiredError):
        return decided
    until, answer = decided
    step.execute(EXTEND, (until, step.now, seq, renewal.version))
    step.count(lane, "total_renewed")
    return answer


def report_progress(
    step: Step, job_id: str, version: int, progress: bytes
) -> LeaseLostError | None:
    """Keep the latest progress; answers a stale holder with its error."""
    row = step.execute(HELD, (job_id, version)).fetchone()
    if row is None:
        return refuse(step, job_id, version)
    step.execute(KEEP_PROGRESS, (row[0], progress.decode()))
    return None


def append_log(
    step: Step, job_id: str, version: int, lines: Sequence[LogLine], dropped: int
) -> LeaseLostError | None:
    """Keep the latest lines; answers a stale holder with its error."""
    row = step.execute(HELD, (job_id, version)).fetchone()
    if row is None:
        return refuse(step, job_id, version)
    seq = row[0]
    last = step.execute(LAST_LINE, (seq,)).fetchone()
    assert last is not None
    # The number of a dropped line is used up: the rest tells how many there were.
    n = last[0] + dropped
    numbered = list(enumerate(lines, start=n + 1))[-LOG_LINES_MAX:]
    step.executemany(
        ADD_LINE,
        [(seq, number, to_micros(line.at), bounded(line.text)) for number, line in numbered],
    )
    step.execute(DROP_LINES, (seq, n + len(lines) - LOG_LINES_MAX))
    return None
