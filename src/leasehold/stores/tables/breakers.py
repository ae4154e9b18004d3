"""The circuit breakers of lanes, as rows; `core.model.breaker` says how they move."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.breaker import Breaker, BreakerState
from leasehold.stores.tables.step import TableStep

LOAD: Final = "SELECT failures_in_row, held_until, hold_micros FROM lane WHERE id = $1"
KEEP: Final = """
    UPDATE lane SET failures_in_row = $1, held_until = $2, hold_micros = $3 WHERE id = $4
"""


def failed(step: TableStep, lane: int, rule: Breaker) -> None:
    """Count one more failure in a row, and hold the lane back when they are too many."""
    step.flush()  # Earlier completions close the breaker first.
    row = step.execute(LOAD, (lane,)).fetchone()
    keep(step, lane, BreakerState(*row).failed(rule, step.now))


def keep(step: TableStep, lane: int, breaker: BreakerState) -> None:
    """Write down how a lane's breaker stands."""
    step.look_again()
    step.execute(KEEP, (*breaker, lane))
