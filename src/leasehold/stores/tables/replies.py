"""Replies to requests that may be sent twice, written together with their effects."""

from __future__ import annotations

from typing import Final

from leasehold.core.rules.replies import REPLIES_KEPT_SECONDS, REPLIES_MAX
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

FIND: Final = "SELECT data FROM reply WHERE id = $1 AND at >= $2"
# Faster than they come, so that few are left of however many.
FORGET: Final = """
    DELETE FROM reply WHERE n IN (SELECT n FROM reply ORDER BY n LIMIT 10)
        AND (at < $1 OR n <= (SELECT max(n) FROM reply) - $2)
"""


def find_reply(db: SqlConnection, request_id: str, now: int) -> bytes | None:
    """The memory of a request."""
    row = db.execute(FIND, (request_id, _oldest(now))).fetchone()
    return None if row is None else row[0]


def keep_reply(step: TableStep, request_id: str, data: bytes) -> None:
    """Remember a reply, and forget some that are too old."""
    step.execute(step.insert_reply, (request_id, step.now, data))
    step.execute(FORGET, (_oldest(step.now), REPLIES_MAX))


def _oldest(now: int) -> int:
    return now - round(REPLIES_KEPT_SECONDS * 1e6)
