"""Folding in what writes that went side by side have counted.

Guard: only in a write that has the store to itself, before it reads a counter.
"""

from __future__ import annotations

from typing import Final

from leasehold.core.model.span import BANDS, SUMMED
from leasehold.core.model.status import Status
from leasehold.stores.postgres.server.connection import SqlConnection

COUNTERS: Final = (
    *(status.value for status in Status),
    *(f"total_{name}" for name in SUMMED),
    *(f"pending_{band}" for band in BANDS),
)
FOLD: Final = f"""
    WITH gone AS (DELETE FROM lane_delta RETURNING *), total AS (
        SELECT lane, {", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in COUNTERS)}
        FROM gone GROUP BY lane)
    UPDATE lane SET {", ".join(f"{name} = lane.{name} + total.{name}" for name in COUNTERS)}
    FROM total WHERE total.lane = lane.id
"""  # noqa: S608  # our own names


def fold(db: SqlConnection) -> None:
    """Add up what was counted side by side."""
    db.execute(FOLD)
