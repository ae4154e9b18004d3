"""How a write is tried, and how it is tried again when others are in its way.

At first side by side with others, where it may be; alone, where it found that it must be. A turn
alone is waited for in spells (`writing.turn`). Each try undoes all of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from leasehold.stores.postgres.writing.step import MinuteIsOver, Step

TRIES_MAX: Final = 20
"""How often a write is tried that others got in the way of."""

MaySideBySide = Callable[[Step], bool]
"""Whether a write may go side by side with others, given what it finds."""


class Way(NamedTuple):
    """How a write goes about it."""

    side_by_side: MaySideBySide | None
    """Whether it may share its turn; None if it has it alone."""
    in_any_minute: bool = False
    """Whether it may count to a minute that is over, if it shares its turn."""


ALONE: Final = Way(None)


class Tries:
    """Those of one write."""

    def __init__(self, side_by_side: MaySideBySide | None, spells: int) -> None:
        self.way = Way(side_by_side)
        self._left = TRIES_MAX
        self._spells_left = spells
        self._if_kept_waiting: Way | None = None

    def begin(self) -> None:
        self._left -= 1

    @property
    def is_last(self) -> bool:
        return not self._left

    def go_alone(self, reason: Exception) -> None:
        """Try it alone next, which is no try of its own; raises the reason if it was alone."""
        if self.way is ALONE:
            raise reason
        if isinstance(reason, MinuteIsOver):
            self._if_kept_waiting = self.way._replace(in_any_minute=True)
        self.way = ALONE
        self._left += 1

    def was_kept_waiting(self) -> bool:
        """Whether to try again as if nothing had been; else somebody is in the way for long."""
        if self._if_kept_waiting is not None:
            # The minute is ended by who comes later.
            self.way, self._if_kept_waiting = self._if_kept_waiting, None
            return True
        if self.way is ALONE and self._spells_left:
            self._spells_left -= 1
            self._left += 1
            return True
        return False
