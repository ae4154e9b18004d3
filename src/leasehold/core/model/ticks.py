"""Find the ticks between two times, in few steps however many there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from leasehold.core.model.timing import Timing

_INSTANT: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)


def ticks_between(timing: Timing, after: datetime, until: datetime) -> Iterator[datetime]:
    """Every tick after the first time, up to and including the second."""
    tick = timing.next_after(after)
    while tick is not None and tick <= until:
        yield tick
        tick = timing.next_after(tick)


def latest_ticks(
    timing: Timing, first: datetime, until: datetime, limit: int
) -> tuple[datetime, ...]:
    """The last `limit` ticks from the tick `first` up to and including `until`, oldest first.

    After a long downtime there may be millions: only the wanted ones are computed.

    >>> from datetime import UTC
    >>> from leasehold.core.model.timing import Every
    >>> [tick.year for tick in latest_ticks(
    ...     Every(1), datetime(1970, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC), 2
    ... )]
    [2029, 2030]
    """
    found = [first]
    for tick in ticks_between(timing, first, until):
        found.append(tick)
        if len(found) > limit:
            return _backwards(timing, first, until, limit)
    return tuple(found)


def _backwards(
    timing: Timing, first: datetime, until: datetime, limit: int
) -> tuple[datetime, ...]:
    latest: deque[datetime] = deque()
    step = _SECOND
    while len(latest) < limit:
        tick = _last(timing, first, until, step)
        latest.appendleft(tick)
        # The previous tick is most likely as far away again.
        step = max(until - tick, _INSTANT)
        until = tick - _INSTANT
    return tuple(latest)


def _last(timing: Timing, first: datetime, until: datetime, step: timedelta) -> datetime:
    """The last tick up to and including `until`; `first` is a tick that is not later."""
    low, high = first, until
    # Look back further and further until there is a tick ...
    while high - step > first:
        tick = timing.next_after(high - step)
        if tick is not None and tick <= until:
            low = tick
            break
        high -= step
        step *= 2
    # ... then halve the rest: `low` is a tick, and none comes after `high`.
    while (tick := timing.next_after(low)) is not None and tick <= high:
        middle = tick + (high - tick) // 2
        later = timing.next_after(middle)
        if later is not None and later <= high:
            low = later
        else:
            low, high = tick, middle
    return low
