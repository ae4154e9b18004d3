"""Looking at the store itself: integrity, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.seals import refusal_of
from leasehold.core.model.status import Status
from leasehold.stores.postgres.leasing import key_check
from leasehold.stores.postgres.reading import metrics
from leasehold.stores.postgres.rules import known
from leasehold.stores.postgres.rules.settings import unreadable_settings
from leasehold.stores.postgres.schema.schedule_row import SCHEDULES
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import Connection
from leasehold.stores.postgres.writing.state import READ_SEAL
from leasehold.stores.tables import graph, inheritance
from leasehold.stores.tables.places import AT_ITS_PLACE
from leasehold.stores.tables.tokens import Tokens

# Every job stands in exactly one of the state tables, and nothing stands there without a job.
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
"""  # noqa: S608  # our own names
_PLACED_NOWHERE: Final = "SELECT seq FROM place WHERE seq NOT IN (SELECT seq FROM ready) LIMIT 10"
_NEVER_DUE: Final = f"""
    SELECT id FROM waiting JOIN job USING (seq)
    WHERE status <> {STATUS_CODE[Status.BLOCKED]} AND due IS NULL LIMIT 10
"""  # noqa: S608  # our own number
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
_COUNTS: Final = f"SELECT id, queue, task, {', '.join(Status)} FROM lane_now"  # noqa: S608  # our own names


_DESCRIBED: Final = """
    SELECT store_id, current_setting('server_version'), (SELECT max(number) FROM migration),
           (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
            WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'),
           current_setting('synchronous_commit')
    FROM store_state
"""


def check(db: Connection) -> list[str]:
    """What must hold of the store's rows, at one moment; the problems found."""
    return [problem for part in _PARTS for problem in part(db)]


def _places(db: Connection) -> Iterator[str]:
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


def _counters(db: Connection) -> Iterator[str]:
    counted = {(lane, status): n for lane, status, n in db.execute(_RECOUNT)}
    for lane, queue, task, *kept in db.execute(_COUNTS):
        for status, count in zip(Status, kept, strict=True):
            found = counted.get((lane, STATUS_CODE[status]), 0)
            if found != count:
                yield (
                    f"queue {queue!r}, task {task!r}: {count} jobs are counted as {status}, "
                    f"but there are {found}"
                )


_PARTS: Final[tuple[Callable[[Connection], Iterable[str]], ...]] = (
    _places,
    graph.problems,
    inheritance.problems,
    metrics.problems,
    key_check.problems,
    _counters,
    lambda db: known.load(db).problems(),
    unreadable_settings,
    SCHEDULES.unreadable,
    lambda db: Tokens(db).unreadable(),
)


def describe(db: Connection, address: Address) -> dict[str, Any]:
    """What this store is."""
    row: Any = db.execute(_DESCRIBED, (address.schema,)).fetchone()
    store_id, version, schema_version, size, durability = row
    sealed: Any = db.execute(READ_SEAL).fetchone()
    return {
        "kind": "postgresql",
        "store_id": store_id,
        "path": address.shown,
        "durability": "full" if durability != "off" else "normal",
        "server_version": version,
        "schema_version": schema_version,
        "size_bytes": size,
        "is_pooled": db.raw.is_pooled,
        "seal": refusal_of(sealed and sealed[0], address.shown),
    }
