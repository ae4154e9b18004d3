"""How a write is tried, and how it is tried again when others are in its way.

At first side by side with others, where it may be; alone, where it found that it must be, and then
it gives way now and then (`Patience`). Each try undoes all of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from leasehold.stores.postgres.writing.step import MinuteIsOver, Step, WasRestored
from leasehold.stores.postgres.writing.turn import Patience

TRIES_MAX: Final = 20
"""How often a write is tried that others got in the way of."""

MaySideBySide = Callable[[Step], bool]
"""Whether a write may go side by side with others, given the state it finds."""


MINUTE_WAIT_SECONDS: Final = 0.25
"""How long a write that could share its turn waits to be alone, to end a minute."""


class Way(NamedTuple):
    """How a write goes about it."""

    side_by_side: MaySideBySide | None
    """Whether it may share its turn; None if it has it alone."""
    in_any_minute: bool = False
    """Whether it may count to a minute that is over, if it shares its turn."""
    seconds: float | None = None
    """How long it waits for its turn, if it has it alone."""


class Tries:
    """Those of one write."""

    def __init__(self, way: Way, seconds_max: float) -> None:
        self.way = way
        self._left = TRIES_MAX
        self._patience = Patience(seconds_max)
        self._if_kept_waiting: Way | None = None
        self.may_send_ahead = True
        """Whether statements may be sent before the state of the store is known."""
        if self._is_alone:
            self._wait()

    @property
    def _is_alone(self) -> bool:
        return self.way.side_by_side is None

    def _wait(self) -> None:
        self.way = Way(None, seconds=self._patience.seconds)

    def begin(self) -> None:
        self._left -= 1

    @property
    def is_last(self) -> bool:
        return not self._left

    def go_alone(self, reason: Exception) -> None:
        """Try it alone next, which is no try of its own; raises the reason if it was alone."""
        if isinstance(reason, WasRestored):
            self.may_send_ahead = False
        elif self._is_alone:
            raise reason
        self._left += 1
        if isinstance(reason, MinuteIsOver):
            self._if_kept_waiting = self.way._replace(in_any_minute=True)
            self.way = Way(None, seconds=MINUTE_WAIT_SECONDS)
        else:
            self._wait()

    def give_way(self) -> bool:
        """After a wait in vain: whether to try again at once; else somebody is in the way."""
        if self._if_kept_waiting is not None:
            # The minute is ended by who comes later.
            self.way, self._if_kept_waiting = self._if_kept_waiting, None
            return True
        if self._is_alone and self._patience.goes_on():
            # Nothing was done that could be undone: that was no try.
            self._left += 1
            self._wait()
            return True
        return False

    def go_on(self) -> None:
        """Who was in the way is gone."""
        self._patience.begin_anew()
        if self._is_alone:
            self._wait()
