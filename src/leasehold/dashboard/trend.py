"""The trend of a failure: a bar for each of the latest hours, drawn on the server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from leasehold.core.model.failure import Failure

HOURS_SHOWN: Final = 24
HEIGHT: Final = 16.0
BAR: Final = 0.8
LEAST: Final = 1.0
"""A single attempt is seen beside a thousand."""


@dataclass(frozen=True)
class Trend:
    """How often something failed in each of the latest hours, oldest first."""

    hours: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.hours)

    @property
    def bars(self) -> str:
        """The bars as one path, in a box of the width and HEIGHT.

        >>> Trend((0, 1, 4)).bars
        'M1 16v-4.0h0.8v4.0z M2 16v-16.0h0.8v16.0z'
        """
        top = max(self.hours, default=0)
        heights = (
            (place, max(LEAST, HEIGHT * count / top), count)
            for place, count in enumerate(self.hours)
            if count
        )
        return " ".join(
            f"M{place} {HEIGHT:g}v-{height:.1f}h{BAR}v{height:.1f}z" for place, height, _ in heights
        )

    @property
    def words(self) -> str:
        """The same in words, for people who cannot see it."""
        return (
            f"{self.hours[-1]:,} in this hour, {sum(self.hours):,} in the last {self.width} hours"
        )


def trend_of(failure: Failure, now: datetime, hours: int = HOURS_SHOWN) -> Trend:
    """The trend of a failure up to now."""
    known = failure.hours_at(now)[:hours]
    return Trend((*(0,) * (hours - len(known)), *known[::-1]))
