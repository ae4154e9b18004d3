"""A listener's subscription to the store, made when somebody first waits.

It is not made on the event loop: a store over a network may take seconds to subscribe, and while it
is away all other callers must still be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leasehold.core.contract.store import Store
from leasehold.core.model.records import Listener


class Subscription:
    """The subscription of one listener; everything happens on the event loop of its server."""

    def __init__(self, store: Store, listener: Listener) -> None:
        self._store = store
        self._listener = listener
        self._begun: asyncio.Future[Callable[[], None]] | None = None

    async def begin(self) -> None:
        """Return once every later change will be heard; raises the store's errors."""
        begun = self._begun
        if begun is None:
            begin = asyncio.to_thread(self._store.subscribe, self._listener)
            begun = self._begun = asyncio.ensure_future(begin)
        try:
            # Other callers may be waiting for it too.
            await asyncio.shield(begun)
        except Exception:
            self._begun = None
            raise

    def end(self) -> None:
        """End the subscription."""
        begun = self._begun
        if begun is None:
            return
        if begun.done():
            _end(begun)
        else:
            begun.add_done_callback(_end)


def _end(begun: asyncio.Future[Callable[[], None]]) -> None:
    if not begun.cancelled() and begun.exception() is None:
        begun.result()()
