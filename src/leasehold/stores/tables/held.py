"""Running jobs as a sweep looks at them, and whom it looks for."""

from __future__ import annotations

from typing import Any, NamedTuple

from leasehold.core.model.lives import Life
from leasehold.core.model.records import SILENT_SECONDS
from leasehold.core.rules.recovery import WORKER_SILENT_MICROS_MAX, HeldJob


class Suspects(NamedTuple):
    """What a reader found for a sweep; each write looks at its part once more."""

    dead: frozenset[Life]
    """Lives that were proved to be over before their jobs were looked for."""
    jobs: list[int]
    late: list[int]
    """Pending jobs past their start_by."""
    silent: list[str]


def silent_since(now: int) -> tuple[int, int]:
    """Since when a consumer, and a worker, must have been silent to be forgotten."""
    return now - round(SILENT_SECONDS * 1e6), now - WORKER_SILENT_MICROS_MAX


class HeldRow(NamedTuple):
    """What names a running job here."""

    seq: int
    id: str
    lane: int
    version: int


def held_of(row: Any) -> tuple[HeldRow, HeldJob] | None:
    """What a row tells of a running job."""
    return None if row is None else (HeldRow(*row[:4]), HeldJob(*row[3:]))
