"""How a write is tried, and retried when others are in its way.

It is first tried with a shared turn, if that is allowed, and alone once it has found that it must
be; then it gives way now and then (`Patience`). Each try undoes all of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from leasehold.stores.postgres.writing.step import MinuteIsOver, Step, WasRestored
from leasehold.stores.postgres.writing.turn import Patience

TRIES_MAX: Final = 20
"""How often a write is tried if others get in its way."""

MaySideBySide = Callable[[Step], bool]
"""Whether a write may share its turn, given the state that it finds."""


MINUTE_WAIT_SECONDS: Final = 0.25
"""How long a write that could share its turn waits to be alone in order to end a minute."""


class Way(NamedTuple):
    """How a write takes its turn."""

    side_by_side: MaySideBySide | None
    """Decides whether it may share its turn; None if it takes it alone."""
    in_any_minute: bool = False
    """Whether it may count towards a minute that is over, if it shares its turn."""
    seconds: float | None = None
    """How long it waits for its turn, if it takes it alone."""


class Tries:
    """The tries of one write."""

    def __init__(self, way: Way, seconds_max: float) -> None:
        self.way = way
        self._left = TRIES_MAX
        self._patience = Patience(seconds_max)
        self._if_kept_waiting: Way | None = None
        self.went_on = False
        """Whether a write that was in the way has gone before; others may hold another lock."""
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
        """Try it alone next, which does not count as a try; raises the reason if it was alone."""
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
        """After a wait in vain: whether to try again at once; otherwise another write is in the
        way.
        """
        if self._if_kept_waiting is not None:
            # A later write ends the minute.
            self.way, self._if_kept_waiting = self._if_kept_waiting, None
            return True
        if self._is_alone and self._patience.goes_on():
            # Nothing was done, so this did not count as a try.
            self._left += 1
            self._wait()
            return True
        return False

    def go_on(self) -> None:
        """The write that was in the way is gone."""
        self.went_on = True
        self._patience.begin_anew()
        if self._is_alone:
            self._wait()
