"""What was found out lately is told again: many may have the same page open."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar, cast

from leasehold.env import Env
from leasehold.errors import LeaseholdError

KEPT_SECONDS: Final = 2.0
"""So long, what was found out is told again to whoever asks."""
KEPT_REST: Final = 10.0
"""Or so many times as long as it took to find out: hundreds of queues take a while."""
SLOW_SECONDS: Final = 0.2
"""Nobody waits for longer than this for what was known before."""

T = TypeVar("T")


@dataclass(frozen=True)
class _Kept:
    """What was found out, how long that took, and until when it is told again."""

    value: Any
    took: float
    end: float
    is_renewed: bool = False
    """Whether somebody finds it out anew just now."""


class Recent:
    """What was found out lately, at most so many things."""

    def __init__(self, env: Env, kept_max: int) -> None:
        self._clock = env.clock
        self._kept_max = kept_max
        self._lock = Lock()
        self._kept: dict[Hashable, _Kept] = {}
        self._at_it: dict[Hashable, Event] = {}
        """What is being found out for the first time; the event is set when that is over."""

    def get(self, what: Hashable, find_out: Callable[[], T]) -> T:
        """What was found out lately; for so many times as long as it took, nobody finds out again.

        What takes long is found out behind the pages, which show meanwhile what was known before.
        Of several who ask at once for what nobody knows, one finds out.
        """
        while True:
            with self._lock:
                kept = self._kept.get(what)
                if kept is not None and (self._clock.monotonic() < kept.end or kept.is_renewed):
                    return cast("T", kept.value)
                if kept is not None and kept.took > SLOW_SECONDS:
                    self._kept[what] = replace(kept, is_renewed=True)
                    renew = partial(self._renew, what, find_out)
                    Thread(target=renew, name="leasehold-dashboard", daemon=True).start()
                    return cast("T", kept.value)
                other = self._at_it.get(what)
                if other is None:
                    mine = self._at_it[what] = Event()
            if other is None:
                break
            other.wait()
        try:
            return self._find_out(what, find_out)
        finally:
            with self._lock:
                del self._at_it[what]
            mine.set()

    def forget(self) -> None:
        """Find out everything anew: something was changed."""
        with self._lock:
            self._kept.clear()

    def _renew(self, what: Hashable, find_out: Callable[[], T]) -> None:
        # Whoever asks next finds out for themselves, and is told what is wrong.
        with suppress(LeaseholdError):
            self._find_out(what, find_out)

    def _find_out(self, what: Hashable, find_out: Callable[[], T]) -> T:
        began = self._clock.monotonic()
        try:
            value = find_out()
        except BaseException:
            with self._lock:
                self._kept.pop(what, None)
            raise
        took = self._clock.monotonic() - began
        end = began + took + max(KEPT_SECONDS, KEPT_REST * took)
        with self._lock:
            self._kept.pop(what, None)
            if len(self._kept) >= self._kept_max:
                self._kept.pop(next(iter(self._kept)))
            self._kept[what] = _Kept(value, took, end)
        return value
