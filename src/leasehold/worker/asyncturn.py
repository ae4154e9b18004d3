"""Transactions of async tasks, one at a time per event loop, begun without stopping it.

Two tasks of one loop share its thread: if the second waited for the first one's transaction in that
thread, the first could never end.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Final

from leasehold.core.contract.transactions import JobTransaction

_turns: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = (
    weakref.WeakKeyDictionary()
)


async def open_in_turn(
    begin: Callable[[], JobTransaction], gave_up: Callable[[], None]
) -> tuple[JobTransaction, Callable[[], None]]:
    """Open a transaction from another thread; returns it, and a function that ends the turn."""
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    await turn.acquire()
    opening = asyncio.ensure_future(asyncio.to_thread(begin))

    def abandon(opened: asyncio.Future[JobTransaction]) -> None:
        if not opened.cancelled() and opened.exception() is None:
            opened.result().roll_back()
            gave_up()
        turn.release()

    try:
        held = await asyncio.shield(opening)
    except BaseException:
        # Cancelled while the other thread still waits: its transaction will have no owner.
        opening.add_done_callback(abandon)
        raise
    held.adopt()
    return held, turn.release
