"""The rows about keys, for `core.rules.key_check` to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from leasehold.core.rules import key_check
from leasehold.core.rules.key_accounts import Account
from leasehold.core.rules.key_check import KeyFacts, PendingJob
from leasehold.core.rules.starting import key_starts
from leasehold.stores.tables.queues import TableQueues
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
# When the last write happened (on PostgreSQL, one that was alone): shown jobs were right then.
_CLOCK: Final = "SELECT clock FROM store_state"
_UNSETTLED: Final = """
    SELECT queue FROM rescoring JOIN lane ON lane.id = rescoring.lane
    UNION SELECT queue FROM rescoring JOIN key_lane ON key_lane.id = -rescoring.lane
"""


def problems(db: SqlConnection, queues: type[TableQueues]) -> Iterator[str]:
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
