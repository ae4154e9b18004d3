"""Long polls: callers that wait for jobs queue up, without a thread, and are woken one at a time.

Callers that ask for the same (queues, tasks, group) form one line. News wakes the first of each
line; a caller that got jobs passes the news on, since there may be more, and one that found nothing
does not. So a thousand idle workers cost one look at the store when a job arrives, and one now and
then. A caller that waited in vain does not look again at the end: there was no news, and its line
has looked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta
from typing import Final

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Exchange, LeaseRequest
from leasehold.core.model.records import SILENT_SECONDS, WorkListener
from leasehold.service.subscription import Subscription

POLL_SECONDS: Final = 5.0
"""The interval of the poll that makes up for lost hints."""
PAUSE_SECONDS_MIN: Final = 0.005
"""The least time between two looks for due jobs, to prevent a busy loop."""
SIGN_OF_LIFE_SECONDS: Final = SILENT_SECONDS / 2
"""How long a caller waits without looking itself: its looks keep it in the registry (WRK-2)."""

Shape = tuple[tuple[str, ...], tuple[str, ...] | None, tuple[tuple[str, str], ...], str | None]


class _Line:
    """Callers that wait for the same, and the timer that wakes the first one without news."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.timer: asyncio.TimerHandle | None = None

    def wake_first(self) -> None:
        while self.waiting:
            first = self.waiting.popleft()
            if not first.done():
                first.set_result(None)
                return

    def wake_all(self) -> None:
        while self.waiting:
            self.wake_first()

    def arm(self, seconds: float) -> None:
        """Wake the first caller after this long."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self.timer is not None:
            if loop.time() < self.timer.when() <= at:
                return
            self.timer.cancel()
        self.timer = loop.call_at(at, self.wake_first)


class LeaseLines(WorkListener):
    """The lines of one server; everything but `on_ready` happens on its event loop."""

    def __init__(self, store: Store) -> None:
        self._lines: dict[Shape, _Line] = {}
        self._news = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscription = Subscription(store, self)
        self._closed = False

    async def lease(
        self,
        request: LeaseRequest,
        wait_seconds: float,
        try_lease: Callable[[int], Awaitable[Exchange]],
    ) -> Exchange:
        """Lease, waiting for the first job; `try_lease` gets the number of its earlier calls."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_seconds
        shape = (request.queues, request.tasks, request.except_lanes, request.parent_id)
        tries = 0
        self._loop = loop
        await self._subscription.begin()
        try:
            while True:
                seen = self._news
                exchange = await try_lease(tries)
                looked_at = loop.time()
                tries += 1
                left = end - looked_at
                if exchange.leases:
                    self._pass_on(shape)
                    return exchange
                if left <= 0 or self._closed or _has_hung_up():
                    self._arm(shape, exchange)
                    return exchange
                if seen != self._news:
                    continue
                line = self._lines.setdefault(shape, _Line())
                line.arm(_pause_seconds(exchange))
                is_woken = await self._stand(shape, line, min(left, SIGN_OF_LIFE_SECONDS))
                is_news = is_woken or seen != self._news
                if not is_news and left <= SIGN_OF_LIFE_SECONDS:
                    return _told_later(exchange, loop.time() - looked_at)
        except BaseException:
            # Refused by the store, or cancelled: pass the news that woke it to the next in line.
            self._pass_on(shape)
            raise

    def _pass_on(self, shape: Shape) -> None:
        if (line := self._lines.get(shape)) is not None:
            line.wake_first()

    def _arm(self, shape: Shape, nothing: Exchange) -> None:
        if (line := self._lines.get(shape)) is not None:
            line.arm(_pause_seconds(nothing))

    async def _stand(self, shape: Shape, line: _Line, seconds: float) -> bool:
        """Wait in a line; returns whether the caller was woken rather than timed out."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(place)
        try:
            async with asyncio.timeout(seconds):
                await place
        except TimeoutError:
            pass
        finally:
            if place in line.waiting:
                line.waiting.remove(place)
            if not line.waiting and self._lines.get(shape) is line:
                if line.timer is not None:
                    line.timer.cancel()
                del self._lines[shape]
        # Also true if it was woken at the moment of the timeout.
        return not place.cancelled()

    def close(self) -> None:
        """End every wait without leases."""
        self._closed = True
        self._subscription.end()
        for line in tuple(self._lines.values()):
            line.wake_all()

    # -- hints from the store, on any thread ----------------------------------------------------

    def on_ready(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Ignored."""

    def _wake(self) -> None:
        self._news += 1
        for line in tuple(self._lines.values()):
            line.wake_first()


def _has_hung_up() -> bool:
    """Whether the waiting caller was cancelled during the call of the store."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _told_later(nothing: Exchange, seconds: float) -> Exchange:
    """An exchange that leased nothing, adjusted to be the answer some seconds later."""
    at = None if nothing.at is None else nothing.at + timedelta(seconds=seconds)
    return msgspec.structs.replace(nothing, at=at)


def _pause_seconds(nothing: Exchange) -> float:
    """How long a line may sleep after an exchange that leased nothing."""
    if nothing.next_due_at is None or nothing.at is None:
        return POLL_SECONDS
    due = (nothing.next_due_at - nothing.at).total_seconds()
    return min(POLL_SECONDS, max(due, PAUSE_SECONDS_MIN))
