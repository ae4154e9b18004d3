"""A holder's messages while it works: renewals, progress, log lines. All of it fenced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.core.model.joblog import LogLine, bounded
from leasehold.core.model.lease import Renewal, Renewed, RunningLease, decide_renewal
from leasehold.core.model.limits import LOG_LINES_MAX
from leasehold.env import to_micros
from leasehold.errors import LeaseExpiredError, LeaseLostError
from leasehold.stores.postgres.leasing.ends import refuse
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Step

HELD: Final = """
    SELECT job.id, running.version, seq, job.lane, acquired_at, expires_at, 0, cancel_reason
    FROM job JOIN running USING (seq)
    WHERE job.id = ANY($1) ORDER BY seq FOR UPDATE OF running
"""
# Guard: still this version. (It was just read in the same write, so it always holds.)
EXTEND: Final = f"""
    UPDATE running SET expires_at = until, heartbeat_at = now
    FROM {unnested("bigint bigint bigint bigint")} AS renewed (seq, version, until, now)
    WHERE running.seq = renewed.seq AND running.version = renewed.version
"""  # noqa: S608  # our own names
BEAT: Final = "UPDATE worker SET heartbeat_at = $1 WHERE id = $2"
KEEP_PROGRESS: Final = """
    INSERT INTO progress VALUES ($1, $2)
    ON CONFLICT (seq) DO UPDATE SET document = excluded.document
"""
LAST_LINE: Final = "SELECT coalesce(max(n), 0) FROM log WHERE seq = $1"
ADD_LINES: Final = f"INSERT INTO log SELECT * FROM {unnested('bigint bigint bigint text')}"  # noqa: S608  # our own names
DROP_LINES: Final = "DELETE FROM log WHERE seq = $1 AND n <= $2"


Held = tuple[int, int, RunningLease]
"""Number and lane of a running job, and its lease."""


def renew(step: Step, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
    """Renew leases that are held and not expired, and the worker's own sign of life."""
    held = _held(step, [renewal.job_id for renewal in renewals])
    answers: list[Renewed | LeaseLostError] = []
    extended: list[tuple[int, int, int, int]] = []
    for renewal in renewals:
        found = held.get((renewal.job_id, renewal.version))
        if found is None:
            answers.append(refuse(step, renewal.job_id, renewal.version))
            continue
        seq, lane, lease = found
        decided = decide_renewal(
            renewal,
            lease,
            now=step.now,
            extension_seconds_max=step.settings.extension_seconds_max,
        )
        if isinstance(decided, LeaseExpiredError):
            answers.append(decided)
            continue
        until, answer = decided
        extended.append((seq, renewal.version, until, step.now))
        step.count(lane, "total_renewed")
        answers.append(answer)
    step.many(EXTEND, extended)
    # After the leases, as in an exchange that notes who leases.
    step.execute(BEAT, (step.now, worker))
    return answers


def _held(step: Step, job_ids: Sequence[str]) -> dict[tuple[str, int], Held]:
    """The leases that run of these jobs, by job id and version."""
    rows: Any = step.execute(HELD, (list(job_ids),)) if job_ids else ()
    return {
        (job_id, version): (seq, lane, RunningLease(*lease))
        for job_id, version, seq, lane, *lease in rows
    }


def report_progress(
    step: Step, job_id: str, version: int, progress: bytes
) -> LeaseLostError | None:
    """Keep the latest progress; answers a stale holder with its error."""
    held = _held(step, [job_id]).get((job_id, version))
    if held is None:
        return refuse(step, job_id, version)
    step.execute(KEEP_PROGRESS, (held[0], progress.decode()))
    return None


def append_log(
    step: Step, job_id: str, version: int, lines: Sequence[LogLine], dropped: int
) -> LeaseLostError | None:
    """Keep the latest lines; answers a stale holder with its error."""
    held = _held(step, [job_id]).get((job_id, version))
    if held is None:
        return refuse(step, job_id, version)
    seq = held[0]
    last = step.execute(LAST_LINE, (seq,)).fetchone()
    assert last is not None
    # The number of a dropped line is used up: the rest tells how many there were.
    n = last[0] + dropped
    numbered = list(enumerate(lines, start=n + 1))[-LOG_LINES_MAX:]
    step.many(
        ADD_LINES,
        [
            (seq, number, to_micros(line.at), storable(bounded(line.text)))
            for number, line in numbered
        ],
    )
    step.execute(DROP_LINES, (seq, n + len(lines) - LOG_LINES_MAX))
    return None
