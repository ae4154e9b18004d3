"""Awaitable calls made of blocking ones: the base of every awaitable face."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from itertools import islice
from types import FunctionType, MethodType
from typing import Any, Final, Generic, TypeVar

from leasehold.core.contract.transactions import OwnConnection
from leasehold.errors import UnsupportedError
from leasehold.queue.awaiting import Bridge
from leasehold.worker.context import plain_code

T = TypeVar("T")
C = TypeVar("C", bound=type)

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


def refused_in_plain_code(called: str, instead: str) -> Callable[[C], C]:
    """Refuse the coroutines of a class to a task that is a plain function: it cannot await them.

    Its job would complete, and what it asked for would silently never happen. `called` and
    `instead` say what was called and what does the same; `{name}` in them is the method, and
    `{task}` the task.
    """

    def guard(cls: C) -> C:
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and inspect.iscoroutinefunction(method):
                setattr(cls, name, _ForThoseWhoAwait(method, called, instead))
        return cls

    return guard


class _ForThoseWhoAwait:
    """A coroutine function as a method, which a thread that cannot await it does not get.

    A function around it would be no coroutine function, by which frameworks decide how to call it.
    """

    __slots__ = ("_called", "_instead", "_method")

    def __init__(self, method: FunctionType, called: str, instead: str) -> None:
        self._method = method
        self._called = called
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self._method
        if plain_code.job_id is not None and not _can_await():
            self._refuse(instance)
        return MethodType(self._method, instance)

    def _refuse(self, instance: object) -> None:
        names = {"name": self._method.__name__, "task": getattr(instance, "__name__", "")}
        called, instead = (text.format(**names) for text in (self._called, self._instead))
        raise UnsupportedError(
            f"job {plain_code.job_id}: `{called}` is a coroutine here, and a task that is a plain "
            f"function cannot await it: make the task `async def`, or use `{instead}`"
        )


def _can_await() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
