"""The attempts of a job as one strip, to scale; long idle times are folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from leasehold.core.model.history import Attempt
from leasehold.core.model.job import Job

FOLDED_SHARE: Final = 4.0
"""Idle time is folded if it would take this many times the room of all attempts."""
FOLD: Final = 0.08
"""The width of a folded time, as a share of the part drawn to scale."""
WIDTH: Final = 1000.0
NARROWEST: Final = 6.0

Kind = Literal["waiting", "running", "completed", "failed", "lost", "idle"]


@dataclass(frozen=True)
class Stretch:
    """A stretch of the strip."""

    kind: Kind
    start: datetime
    end: datetime
    label: str
    x: float = 0.0
    width: float = 0.0
    is_folded: bool = False

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


def strip(job: Job, attempts: Sequence[Attempt], now: datetime) -> list[Stretch]:
    """The stretches of a job, from the moment it could run."""
    parts: list[Stretch] = []
    reached = min(max(job.created_at, min(job.run_at, now)), now)
    if attempts:
        reached = min(job.created_at, attempts[0].started_at)
    for attempt in attempts:
        if attempt.started_at > reached:
            kind: Kind = "waiting" if not parts else "idle"
            label = "waited for its first start" if not parts else "waited to be tried again"
            parts.append(Stretch(kind, reached, attempt.started_at, label))
        end = attempt.ended_at or now
        outcome = "is running" if attempt.outcome is None else attempt.outcome.value
        parts.append(
            Stretch(
                _kind_of(attempt), attempt.started_at, end, f"attempt {attempt.number} {outcome}"
            )
        )
        reached = end
    waits = not job.is_terminal and (not attempts or attempts[-1].ended_at is not None)
    if waits and (parts or now > reached):
        parts.append(Stretch("waiting", reached, max(now, reached), "waits"))
    return _to_scale(parts)


def _kind_of(attempt: Attempt) -> Kind:
    if attempt.outcome is None:
        return "running"
    if attempt.outcome.value == "completed":
        return "completed"
    return "lost" if attempt.outcome.value in ("recovered", "released", "snoozed") else "failed"


def _to_scale(parts: Sequence[Stretch]) -> list[Stretch]:
    ran = sum(part.seconds for part in parts if part.kind not in ("waiting", "idle"))
    longest = FOLDED_SHARE * ran
    folded = [
        ran > 0 and part.kind in ("waiting", "idle") and part.seconds > longest for part in parts
    ]
    drawn = sum(part.seconds for part, fold in zip(parts, folded, strict=True) if not fold) or 1.0
    room = [
        FOLD * drawn if fold else part.seconds for part, fold in zip(parts, folded, strict=True)
    ]
    whole = sum(room) or 1.0
    widths = [max(NARROWEST, WIDTH * each / whole) for each in room]
    shrink = WIDTH / sum(widths) if widths else 1.0
    placed: list[Stretch] = []
    x = 0.0
    for part, width, fold in zip(parts, widths, folded, strict=True):
        wide = width * shrink
        placed.append(
            Stretch(part.kind, part.start, part.end, part.label, round(x, 2), round(wide, 2), fold)
        )
        x += wide
    return placed
