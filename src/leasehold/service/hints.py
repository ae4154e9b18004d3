"""Hints for remote listeners: the store's messages to its listeners, for repeated requests.

A listener waits on the event loop, not on a thread. A hint may be lost, and is then told as "look
at everything": to a listener that comes from another server, or asks too late.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from leasehold.core.contract.store import Store
from leasehold.core.contract.wire import HintsSince
from leasehold.env import Env

WAIT_SECONDS_MAX: Final = 60.0
KEPT_MAX: Final = 1000
"""So many hints about jobs are kept for listeners on their way back."""
IDS_MAX: Final = 1000
"""A listener that missed the end of more jobs than this is not told which."""


class _Hint(NamedTuple):
    number: int
    is_end: bool
    """Else somebody asked to cancel."""
    job_ids: Collection[str] | None


class HintLine:
    """The hints of one server; listeners wait on its event loop."""

    def __init__(self, store: Store, env: Env) -> None:
        self._store = store
        self._origin = env.new_secret()
        """Numbers of another server mean nothing here."""
        self._lock = threading.Lock()
        self._number = 0
        self._ready_number = 0
        self._kept: deque[_Hint] = deque()
        self._forgotten_number = 0
        """All hints about jobs up to this number were forgotten."""
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_waking = False
        self._unsubscribe: Callable[[], None] | None = None
        self._closed = False

    async def after(self, cursor: str | None, wait_seconds: float) -> HintsSince:
        """What there is after a cursor, waiting for it; without one, where to begin."""
        self._listen()
        hints = self._after(cursor)
        if hints is None and wait_seconds > 0 and not self._closed:
            await self._wait(min(wait_seconds, WAIT_SECONDS_MAX), cursor)
            hints = self._after(cursor)
        return HintsSince(cursor or "") if hints is None else hints

    def _after(self, cursor: str | None) -> HintsSince | None:
        """The hints after a cursor, None if there are none."""
        with self._lock:
            here = f"{self._origin}:{self._number}"
            if cursor is None:
                return HintsSince(here)
            if cursor == here:
                return None
            origin, _, number = cursor.partition(":")
            seen = int(number) if number.isdecimal() else -1
            if origin != self._origin or seen < self._forgotten_number:
                return HintsSince(here, is_ready=True, ended=None, cancel_requested=None)
            new = [hint for hint in self._kept if hint.number > seen]
            return HintsSince(
                here,
                self._ready_number > seen,
                _all_ids(hint.job_ids for hint in new if hint.is_end),
                _all_ids(hint.job_ids for hint in new if not hint.is_end),
            )

    async def _wait(self, seconds: float, cursor: str | None) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(place)
        try:
            # A hint that came before it stood here would not wake it.
            if self._after(cursor) is None:
                async with asyncio.timeout(seconds):
                    await place
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(place)

    def _listen(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._unsubscribe = self._store.subscribe(self)

    def close(self) -> None:
        """End every wait."""
        self._closed = True
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._wake()

    def _wake(self) -> None:
        self._is_waking = False
        for place in self._waiting:
            if not place.done():
                place.set_result(None)

    # -- hints from the store, on any thread ----------------------------------------------------

    def on_ready(self) -> None:
        with self._lock:
            self._number += 1
            self._ready_number = self._number
        self._wake_soon()

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        self._keep(job_ids, is_end=True)

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        self._keep(job_ids, is_end=False)

    def _keep(self, job_ids: Collection[str] | None, *, is_end: bool) -> None:
        with self._lock:
            self._number += 1
            self._kept.append(_Hint(self._number, is_end, job_ids))
            if len(self._kept) > KEPT_MAX:
                self._forgotten_number = self._kept.popleft().number
        self._wake_soon()

    def _wake_soon(self) -> None:
        if self._waiting and not self._is_waking and self._loop is not None:
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._wake)


def _all_ids(groups: Iterable[Collection[str] | None]) -> list[str] | None:
    """All of them; None if some are unknown, or they are too many to tell."""
    ids: list[str] = []
    for group in groups:
        if group is None or len(ids) + len(group) > IDS_MAX:
            return None
        ids.extend(group)
    return ids
