"""Replies to requests that may be sent twice, written together with what was done."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.rules.replies import REPLIES_KEPT_SECONDS, REPLIES_MAX
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.writing.step import Step

_FIND: Final = "SELECT data FROM reply WHERE id = $1 AND at >= $2"
_KEEP: Final = """
    INSERT INTO reply (id, at, data) VALUES ($1, $2, $3)
    ON CONFLICT (id) DO UPDATE SET at = excluded.at, data = excluded.data
"""
# Faster than they come, so that few are left of however many.
_FORGET: Final = """
    DELETE FROM reply WHERE n IN (SELECT n FROM reply ORDER BY n LIMIT 10)
        AND (at < $1 OR n <= (SELECT max(n) FROM reply) - $2)
"""


def find(db: SqlConnection, request_id: str, now: int) -> bytes | None:
    """What is remembered of a request."""
    row: Any = db.execute(_FIND, (request_id, _oldest(now))).fetchone()
    return None if row is None else row[0]


def keep(step: Step, request_id: str, data: bytes) -> None:
    """Remember a reply, and forget some that are too old."""
    step.execute(_KEEP, (request_id, step.now, data))
    step.execute(_FORGET, (_oldest(step.now), REPLIES_MAX))


def _oldest(now: int) -> int:
    return now - round(REPLIES_KEPT_SECONDS * 1e6)
