"""A cache of recent findings, since many people may have the same page open."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar, cast

from leasehold.env import Env
from leasehold.errors import LeaseholdError

KEPT_SECONDS: Final = 2.0
"""How long a finding is reused."""
KEPT_REST: Final = 100.0
"""Or so many times as long as it took to find out: hundreds of queues take a while, and none of the
findings that open pages wait for is to cost more than a hundredth of a core.
"""
KEPT_SECONDS_MAX: Final = 10.0
"""But never longer than this: on a busy machine everything takes long, and people look for
problems.
"""
SLOW_SECONDS: Final = 0.2
"""A slower finding is made in the background, while pages show the previous one."""
OLD_SECONDS: Final = 15.0
"""If the previous one was due longer ago than this, a page waits for the new one."""

T = TypeVar("T")
_rests: ContextVar[list[float] | None] = ContextVar("rests", default=None)


@contextmanager
def rests() -> Iterator[list[float]]:
    """For findings reused within the block: in how many seconds there will be new ones."""
    noted: list[float] = []
    before = _rests.set(noted)
    try:
        yield noted
    finally:
        _rests.reset(before)


@dataclass(frozen=True)
class _Kept:
    """A finding, how long it took, and until when it is reused."""

    value: Any
    took: float
    end: float
    is_renewed: bool = False
    """Whether it is being renewed right now."""


class Recent:
    """A bounded number of recent findings."""

    def __init__(self, env: Env, kept_max: int) -> None:
        self._clock = env.clock
        self._kept_max = kept_max
        self._lock = Lock()
        self._kept: dict[Hashable, _Kept] = {}
        self._changes = 0
        """How often everything was forgotten; a finding begun before that is not kept."""
        self._at_it: dict[Hashable, Event] = {}
        """Findings in progress; the event is set when one is ready."""

    def get(self, what: Hashable, find_out: Callable[[], T]) -> T:
        """A recent finding, which is reused for a multiple of the time it took.

        A slow finding is made in the background while pages show the previous one, unless that one
        is too old. If several pages need a missing finding at once, one of them makes it.
        """
        while True:
            with self._lock:
                kept = self._kept.get(what)
                now = self._clock.monotonic()
                if kept is not None and now >= kept.end + OLD_SECONDS:
                    kept = None
                if kept is not None and (now < kept.end or kept.is_renewed):
                    _note(kept.took if kept.is_renewed else kept.end - now)
                    return cast("T", kept.value)
                if kept is not None and kept.took > SLOW_SECONDS and what not in self._at_it:
                    self._kept[what] = replace(kept, is_renewed=True)
                    self._at_it[what] = Event()
                    renew = partial(self._renew, what, find_out)
                    try:
                        Thread(target=renew, name="leasehold-dashboard", daemon=True).start()
                    except RuntimeError:
                        break  # This process may have no more threads: this one does it.
                    _note(kept.took)
                    return cast("T", kept.value)
                other = self._at_it.get(what)
                if other is None:
                    self._at_it[what] = Event()
            if other is None:
                break
            other.wait()
        return self._find_out(what, find_out)

    def forget(self, *what: Hashable) -> None:
        """Forget these findings, or all of them, after a change."""
        with self._lock:
            for each in what or tuple(self._kept):
                self._kept.pop(each, None)
            self._changes += 1

    def _renew(self, what: Hashable, find_out: Callable[[], T]) -> None:
        # The next page makes the finding itself, and is told the error.
        with suppress(LeaseholdError):
            self._find_out(what, find_out)

    def _find_out(self, what: Hashable, find_out: Callable[[], T]) -> T:
        began, changes = self._clock.monotonic(), self._changes
        try:
            value = find_out()
            self._keep(what, value, began, changes)
        except BaseException:
            with self._lock:
                self._kept.pop(what, None)
            raise
        finally:
            with self._lock:
                self._at_it.pop(what).set()
        return value

    def _keep(self, what: Hashable, value: object, began: float, changes: int) -> None:
        took = self._clock.monotonic() - began
        end = began + took + min(max(KEPT_SECONDS, KEPT_REST * took), KEPT_SECONDS_MAX)
        with self._lock:
            if changes != self._changes:
                return
            self._kept.pop(what, None)
            if len(self._kept) >= self._kept_max:
                self._kept.pop(next(iter(self._kept)))
            self._kept[what] = _Kept(value, took, end)


def _note(rest: float) -> None:
    noted = _rests.get()
    if noted is not None:
        noted.append(rest)
