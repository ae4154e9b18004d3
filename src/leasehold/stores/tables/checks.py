"""The invariants of jobs' places, counts, figures and keys; the problems, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.span import BANDS
from leasehold.core.model.status import Status
from leasehold.core.rules import key_check, metrics_check
from leasehold.core.rules.key_accounts import Account
from leasehold.core.rules.key_check import KeyFacts, PendingJob
from leasehold.core.rules.sampling import Resolution
from leasehold.core.rules.starting import key_starts
from leasehold.stores.tables.order import AT_ITS_PLACE
from leasehold.stores.tables.queues import TableQueues
from leasehold.stores.tables.sampling import TableSpans
from leasehold.stores.tables.statements import SqlConnection

_RUNNING: Final = """
    SELECT lane.queue, limit_key, job.lane, count(*)
    FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane
    WHERE limit_key IS NOT NULL GROUP BY lane.queue, job.lane, limit_key
"""
_ACCOUNTS: Final = "SELECT id, queue, key, lane, running FROM key_lane"
_PENDING: Final = """
    SELECT job.id, lane.queue, limit_key, job.lane, place.key_lane, place.lane,
           ready.tier, ready.turn, ready.seq
    FROM ready JOIN job USING (seq) JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq
"""
_RESTING: Final = "SELECT queue, key FROM resting"
# The time of the last write (on PostgreSQL, of the last one that was alone), when the shown jobs
# were right.
_CLOCK: Final = "SELECT clock FROM store_state"
_UNSETTLED: Final = """
    SELECT queue FROM rescoring JOIN lane ON lane.id = rescoring.lane
    UNION SELECT queue FROM rescoring JOIN key_lane ON key_lane.id = -rescoring.lane
"""


def key_problems(db: SqlConnection, queues: type[TableQueues]) -> Iterator[str]:
    """Every fault that would let too many jobs of a key run, or keep one from ever running."""

    def rows(statement: str) -> list[Any]:
        return db.execute(statement).fetchall()

    ((now,),) = rows(_CLOCK)
    known = queues(db, now)
    buckets = known.buckets
    return key_check.problems(
        KeyFacts(
            limits=known.rules.key_limits,
            running={(queue, key, lane): n for queue, key, lane, n in rows(_RUNNING)},
            accounts={Account(*account): count for *account, count in rows(_ACCOUNTS)},
            unsettled={queue for (queue,) in rows(_UNSETTLED)},
            resting={(queue, key) for queue, key in rows(_RESTING)},
            pending=lambda: map(PendingJob._make, rows(_PENDING)),
            full_at=lambda queue, key: buckets.full_at(queue, key_starts(key)),
            now=now,
        )
    )


# Every job has a row in exactly one state table, and no such row is without a job.
_PLACES: Final = """
    SELECT job.id, count(place.seq) AS places FROM job LEFT JOIN (
        SELECT seq FROM ready UNION ALL SELECT seq FROM waiting
        UNION ALL SELECT seq FROM running UNION ALL SELECT seq FROM finished
    ) AS place USING (seq) GROUP BY job.seq HAVING count(place.seq) <> 1 LIMIT 10
"""
_STRAYS: Final = """
    SELECT seq FROM (
        SELECT seq FROM ready UNION ALL SELECT seq FROM waiting
        UNION ALL SELECT seq FROM running UNION ALL SELECT seq FROM finished
    ) AS place WHERE seq NOT IN (SELECT seq FROM job) LIMIT 10
"""
_LANELESS: Final = "SELECT id FROM job WHERE lane NOT IN (SELECT id FROM lane) LIMIT 10"
_MISPLACED: Final = f"""
    SELECT job.id FROM ready JOIN job USING (seq) LEFT JOIN place ON place.seq = job.seq
    WHERE NOT ({AT_ITS_PLACE}) LIMIT 10
"""
_PLACED_NOWHERE: Final = "SELECT seq FROM place WHERE seq NOT IN (SELECT seq FROM ready) LIMIT 10"
_NEVER_DUE: Final = f"""
    SELECT id FROM waiting JOIN job USING (seq)
    WHERE status <> {STATUS_CODE[Status.BLOCKED]} AND due IS NULL LIMIT 10
"""
_OVERSPENT: Final = """
    SELECT job.id FROM (
        SELECT seq, attempts FROM ready UNION ALL SELECT seq, attempts FROM waiting
        UNION ALL SELECT seq, attempts FROM running UNION ALL SELECT seq, attempts FROM finished
    ) AS place JOIN job USING (seq) WHERE attempts > allowance OR attempts < 0 LIMIT 10
"""
_ARCHIVED_ALIVE: Final = "SELECT job.id FROM archive JOIN job USING (seq) LIMIT 10"
_RECOUNT: Final = """
    SELECT job.lane, status, count(*) FROM (
        SELECT seq, 2 AS status FROM ready UNION ALL SELECT seq, status FROM waiting
        UNION ALL SELECT seq, 3 FROM running UNION ALL SELECT seq, status FROM finished
    ) AS place JOIN job USING (seq) GROUP BY job.lane, status
"""


def misplaced(db: SqlConnection) -> Iterator[str]:
    for job_id, places in db.execute(_PLACES):
        yield f"job {job_id} stands in {places} places instead of one"
    for (seq,) in db.execute(_STRAYS):
        yield f"number {seq} stands in a state table but there is no such job"
    for (job_id,) in db.execute(_LANELESS):
        yield f"job {job_id} belongs to no queue and task"
    for (job_id,) in db.execute(_MISPLACED):
        yield f"job {job_id} is ready in the wrong lane or tier"
    for (seq,) in db.execute(_PLACED_NOWHERE):
        yield f"number {seq} has a place among the pending jobs, but is not pending"
    for (job_id,) in db.execute(_NEVER_DUE):
        yield f"job {job_id} waits for a time, but for none that ever comes"
    for (job_id,) in db.execute(_OVERSPENT):
        yield f"job {job_id} has more attempts than it is allowed"
    for (job_id,) in db.execute(_ARCHIVED_ALIVE):
        yield f"job {job_id} is in the archive and in the store"


def miscounted(db: SqlConnection, lanes: str) -> Iterator[str]:
    """`lanes` names the table or view of lanes."""
    kept_counts = f"SELECT id, queue, task, {', '.join(Status)} FROM {lanes}"
    counted = {(lane, status): n for lane, status, n in db.execute(_RECOUNT)}
    for lane, queue, task, *kept in db.execute(kept_counts):
        for status, count in zip(Status, kept, strict=True):
            found = counted.get((lane, STATUS_CODE[status]), 0)
            if found != count:
                yield (
                    f"queue {queue!r}, task {task!r}: {count} jobs are counted as {status}, "
                    f"but there are {found}"
                )


_PENDING_BY_PRIORITY: Final = """
    SELECT lane.queue, lane.task, job.priority, count(*) FROM ready JOIN job USING (seq)
    JOIN lane ON lane.id = job.lane GROUP BY lane.id, job.priority
"""
_LATEST_MINUTE: Final = "SELECT max(at) FROM span WHERE resolution = $1"


def mismeasured(spans: TableSpans, db: SqlConnection, lanes: str) -> Iterator[str]:
    """`lanes` names the table or view of lanes."""
    by_band = f"SELECT queue, task, {', '.join(f'pending_{band}' for band in BANDS)} FROM {lanes}"
    pending = db.execute(_PENDING_BY_PRIORITY).fetchall()
    counted = db.execute(by_band).fetchall()
    latest = db.execute(_LATEST_MINUTE, (Resolution.MINUTE,)).fetchone()
    return metrics_check.problems(spans, pending, counted, latest[0])
