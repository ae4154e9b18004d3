"""Where pending jobs stand in `ready`: where their own row in `job` says, or else their `place`."""

from __future__ import annotations

from typing import Final

from leasehold.core.rules.placing import Standing
from leasehold.stores.tables.statements import SqlConnection

AT_ITS_PLACE: Final = """
    ready.lane = coalesce(place.lane, job.lane)
    AND ready.tier = coalesce(place.tier, (100 - job.priority) * 1000)
    AND ready.turn = coalesce(place.turn, job.created_at) AND ready.seq = job.seq
"""
"""Joins a job to its row in `ready`, once it is joined to `place` if it has a row there."""
STANDING: Final = """
    ready.lane, ready.tier, ready.turn, ready.seq, ready.attempts, ready.available_at, job.priority,
    coalesce(raised.base, job.priority), job.created_at, job.deadline
"""
"""The columns of a Standing."""
FIND: Final = f"""
    SELECT {STANDING} FROM job LEFT JOIN place ON place.seq = job.seq
        LEFT JOIN raised ON raised.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.seq = $1
"""  # noqa: S608  # our own names


def find(step: SqlConnection, seq: int) -> Standing | None:
    """Where a job stands, if it is pending."""
    row = step.execute(FIND, (seq,)).fetchone()
    return None if row is None else Standing(*row)
