"""Transactions of async tasks, one at a time per event loop, begun without stopping it.

Two tasks of one loop share its thread: if the second waited for the first one's transaction in that
thread, the first could never end.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from typing import Final

from leasehold.core.contract.transactions import JobTransaction

_turns: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = (
    weakref.WeakKeyDictionary()
)


class _Opening:
    """A transaction that another thread opens, for a task that may stop waiting for it.

    Whoever comes second ends an unwanted one: the event loop may be over by the time it is open.
    """

    def __init__(self, begin: Callable[[], JobTransaction], gave_up: Callable[[], None]) -> None:
        self._begin = begin
        self._gave_up = gave_up
        self._lock = threading.Lock()
        self._held: JobTransaction | None = None
        self._is_abandoned = False

    def open(self) -> None:
        """Called in the other thread."""
        held = self._begin()
        with self._lock:
            if not self._is_abandoned:
                self._held = held
                return
        self._end(held)

    def abandon(self) -> None:
        with self._lock:
            self._is_abandoned = True
            held, self._held = self._held, None
        if held is not None:
            self._end(held)

    def take(self) -> JobTransaction:
        """The open transaction, for the task that owns it from now on."""
        with self._lock:
            held, self._held = self._held, None
        assert held is not None, "it has not been opened, or was abandoned"
        return held

    def _end(self, held: JobTransaction) -> None:
        try:
            held.roll_back()
        finally:
            self._gave_up()


async def open_in_turn(
    begin: Callable[[], JobTransaction], gave_up: Callable[[], None]
) -> tuple[JobTransaction, Callable[[], None]]:
    """Open a transaction from another thread; returns it, and a function that ends the turn."""
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    await turn.acquire()
    opening = _Opening(begin, gave_up)
    opened = asyncio.ensure_future(asyncio.to_thread(opening.open))

    def leave(opened: asyncio.Future[None]) -> None:
        if not opened.cancelled():
            opened.exception()  # Nobody else asks for it.
        turn.release()

    try:
        await asyncio.shield(opened)
    except BaseException:
        # Perhaps cancelled while the other thread still waits. The next one's turn comes after it.
        opening.abandon()
        opened.add_done_callback(leave)
        raise
    held = opening.take()
    try:
        held.adopt()
    except BaseException:
        try:
            held.roll_back()
        finally:
            turn.release()
            gave_up()
        raise
    return held, turn.release
