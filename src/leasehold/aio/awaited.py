"""Awaitable calls made of blocking ones: the base of every awaitable face."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from leasehold.core.contract.transactions import OwnConnection
from leasehold.queue.awaiting import Bridge

T = TypeVar("T")

_AT_ONCE: Final = 100
"""How many items of an iterator are fetched in one visit to another thread."""


class AsyncItems(Generic[T]):
    """The results of a call: iterate with `async for`, or await them for a list."""

    __slots__ = ("_bridge", "_start")

    def __init__(self, bridge: Callable[[], Bridge], start: Callable[[], Iterator[T]]) -> None:
        self._bridge = bridge
        self._start = start

    async def __aiter__(self) -> AsyncIterator[T]:
        """Read the store as it goes, a page at a time."""
        call = self._bridge().call
        items = await call(self._start)
        while True:
            some = await call(lambda: list(islice(items, _AT_ONCE)))
            for item in some:
                yield item
            if len(some) < _AT_ONCE:
                return

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self._bridge().call(lambda: list(self._start())).__await__()


class Awaited:
    """Carries calls over a queue's bridge, which is made when the first of them comes."""

    __slots__ = ("_bridge",)

    def __init__(self, bridge: Callable[[], Bridge]) -> None:
        self._bridge = bridge

    async def _call(self, func: Callable[[], T]) -> T:
        """Make a short call on one of a few threads."""
        return await self._bridge().call(func)

    async def _call_long(self, func: Callable[[], T]) -> T:
        """Make a call that may take minutes, so that no short one waits behind it."""
        return await self._bridge().call_long(func)

    async def _call_within(self, connection: OwnConnection | None, func: Callable[[], T]) -> T:
        """Make a call that may be a part of a transaction."""
        return await self._bridge().call_within(connection, func)

    def _each(self, start: Callable[[], Iterator[T]]) -> AsyncItems[T]:
        """Go through an iterator that reads the store as it goes."""
        return AsyncItems(self._bridge, start)
