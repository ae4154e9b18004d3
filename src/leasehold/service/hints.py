"""Hints for remote listeners: the store's messages to its listeners, fetched by repeated requests.

A listener waits on the event loop, not on a thread. A listener that comes from another server or
asks too late may miss hints, and is then told to look at everything.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from leasehold.core.contract.store import Store
from leasehold.core.contract.wire import HintsSince
from leasehold.env import Env
from leasehold.service.subscription import Subscription

WAIT_SECONDS_MAX: Final = 60.0
KEPT_MAX: Final = 1000
"""How many hints about jobs are kept for listeners between two requests."""
IDS_MAX: Final = 1000
"""A listener that missed the end of more jobs than this is not told which."""

_DIGITS_MAX: Final = 20
"""The most digits of the number in a cursor, which is untrusted."""


class _Hint(NamedTuple):
    number: int
    job_ids: Collection[str] | None


class _Latest:
    """The latest hints of one kind."""

    def __init__(self) -> None:
        self._kept: deque[_Hint] = deque()
        self._forgotten_number = 0
        """Hints up to this number were forgotten."""

    def add(self, number: int, job_ids: Collection[str] | None) -> None:
        self._kept.append(_Hint(number, job_ids))
        if len(self._kept) > KEPT_MAX:
            self._forgotten_number = self._kept.popleft().number

    def ids_after(self, seen: int) -> list[str] | None:
        """The jobs of all hints after a number; None if not all are known, or too many."""
        if seen < self._forgotten_number:
            return None
        return _all_ids(hint.job_ids for hint in self._kept if hint.number > seen)


class HintLine:
    """The hints of one server; listeners wait on its event loop."""

    def __init__(self, store: Store, env: Env) -> None:
        self._origin = env.new_secret()
        """Identifies this server, since numbers of another one mean nothing here."""
        self._lock = threading.Lock()
        self._number = 0
        self._ready_number = 0
        self._ended = _Latest()
        self._cancels = _Latest()
        self._waiting: set[asyncio.Future[None]] = set()
        """Listeners that wait for any hint."""
        self._waiting_for_work: set[asyncio.Future[None]] = set()
        """Listeners that are not woken for ends of jobs."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_waking = False
        self._is_work = False
        """Whether the next wake is also for `_waiting_for_work`."""
        self._subscription = Subscription(store, self)
        self._closed = False

    async def after(
        self, cursor: str | None, wait_seconds: float, *, ends: bool = True
    ) -> HintsSince:
        """The hints after a cursor, waiting for some; without one, only the cursor to begin with.

        Without `ends`, ends of jobs do not count.
        """
        self._loop = asyncio.get_running_loop()
        await self._subscription.begin()
        hints = self._after(cursor, ends=ends)
        if hints is None and wait_seconds > 0 and not self._closed:
            await self._wait(min(wait_seconds, WAIT_SECONDS_MAX), cursor, ends=ends)
            hints = self._after(cursor, ends=ends)
        return HintsSince(cursor or "") if hints is None else hints

    def _after(self, cursor: str | None, *, ends: bool) -> HintsSince | None:
        """The hints after a cursor, None if there are none."""
        with self._lock:
            here = f"{self._origin}:{self._number}"
            if cursor is None:
                return HintsSince(here)
            if cursor == here:
                return None
            origin, _, number = cursor.partition(":")
            is_number = number.isdecimal() and len(number) <= _DIGITS_MAX
            if origin != self._origin or not is_number:
                return HintsSince(here, is_ready=True, ended=None, cancel_requested=None)
            seen = int(number)
            is_ready = self._ready_number > seen
            ended = self._ended.ids_after(seen) if ends else []
            cancels = self._cancels.ids_after(seen)
            is_news = is_ready or ended != [] or cancels != []
            return HintsSince(here, is_ready, ended, cancels) if is_news else None

    async def _wait(self, seconds: float, cursor: str | None, *, ends: bool) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting if ends else self._waiting_for_work
        waiting.add(place)
        try:
            # A hint that came before it was registered would not wake it.
            if self._after(cursor, ends=ends) is None:
                async with asyncio.timeout(seconds):
                    await place
        except TimeoutError:
            pass
        finally:
            waiting.discard(place)

    def close(self) -> None:
        """End every wait."""
        self._closed = True
        self._subscription.end()
        self._is_work = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            self._is_waking = False
            is_work, self._is_work = self._is_work, False
        for waiting in (self._waiting, self._waiting_for_work if is_work else ()):
            for place in waiting:
                if not place.done():
                    place.set_result(None)

    # -- hints from the store, on any thread ----------------------------------------------------

    def on_ready(self) -> None:
        with self._lock:
            self._number += 1
            self._ready_number = self._number
        self._wake_soon(is_work=True)

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        with self._lock:
            self._number += 1
            self._ended.add(self._number, job_ids)
        self._wake_soon(is_work=False)

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        with self._lock:
            self._number += 1
            self._cancels.add(self._number, job_ids)
        self._wake_soon(is_work=True)

    def _wake_soon(self, *, is_work: bool) -> None:
        with self._lock:
            self._is_work = self._is_work or is_work
            is_heard = self._waiting or (is_work and self._waiting_for_work)
            if not is_heard or self._is_waking or self._loop is None:
                return
            self._is_waking = True
        self._loop.call_soon_threadsafe(self._wake)


def _all_ids(groups: Iterable[Collection[str] | None]) -> list[str] | None:
    """All ids; None if some are unknown or there are too many."""
    ids: list[str] = []
    for group in groups:
        if group is None or len(ids) + len(group) > IDS_MAX:
            return None
        ids.extend(group)
    return ids
