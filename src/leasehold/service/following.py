"""The change feed for its followers: regular looks, as long as their token is valid.

A follower that comes back with a cursor misses nothing, or gets a gap. All followers of a service
look at the same moments, and followers at the same cursor (nearly all of them) share a look, so
twenty cost as much as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from leasehold.core.model.changes import Changes
from leasehold.errors import UnauthenticatedError
from leasehold.service.caller import Caller

if TYPE_CHECKING:
    from leasehold.service.api import Api

LOOK_SECONDS: Final = 0.5
"""How often to look at the feed."""
LOOKS_BETWEEN_CHECKS: Final = 4
"""How many looks pass before a follower's token is checked again."""
FOLLOWERS_MAX: Final = 100
FOLLOWERS_OF_TOKEN_MAX: Final = FOLLOWERS_MAX // 4
"""So that no single token, however few its rights, shuts out all others."""


def no_room(api: Api, caller: Caller) -> str:
    """Why the caller may not follow too; empty if they may."""
    if len(api.followers) >= FOLLOWERS_MAX:
        return f"at most {FOLLOWERS_MAX} may follow at once"
    if caller.token is None:
        return ""
    held = sum(name == caller.name for name in api.followers.values())
    if held >= FOLLOWERS_OF_TOKEN_MAX:
        return f"at most {FOLLOWERS_OF_TOKEN_MAX} may follow at once with token {caller.name!r}"
    return ""


async def first_look(api: Api, authenticate: Callable[[], Caller], cursor: str | None) -> Changes:
    """The changes after a cursor; raises the error that refuses the caller."""

    def begin() -> Changes:
        caller = authenticate()
        caller.check_role(("operator", "observer"))
        caller.check_unscoped()
        return api.guarded(lambda: api.store.changes(cursor))

    return await api.on_thread(begin)


async def looks(
    api: Api,
    authenticate: Callable[[], Caller],
    first: Changes,
    name: str = "",
    place: object = None,
) -> AsyncGenerator[Changes, None]:
    """The first changes for a token of this name, then the result of each look, even if empty.

    It ends once `authenticate` refuses its caller.
    """
    follower = place or object()
    api.followers[follower] = name
    try:
        yield first
        news, looked = first, 0
        while not api.stopping.is_set():
            news = await api.shared_looks.next_after(news.cursor)
            looked += 1
            if looked % LOOKS_BETWEEN_CHECKS == 0:
                try:
                    await api.on_thread(authenticate)
                except UnauthenticatedError:
                    return
            yield news
    finally:
        api.followers.pop(follower, None)


class SharedLooks:
    """The looks of all followers of one service."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._next_moment = asyncio.Event()
        self._found: dict[str, asyncio.Future[Changes]] = {}
        """The changes after each cursor at this moment."""
        self._clockwork: asyncio.Task[None] | None = None

    async def next_after(self, cursor: str) -> Changes:
        """The changes after a cursor at the next moment."""
        if self._clockwork is None:
            self._clockwork = asyncio.create_task(self._go_on())
        await self._next_moment.wait()
        found = self._found.get(cursor)
        if found is None:
            api = self._api
            look = api.on_thread(lambda: api.guarded(lambda: api.store.changes(cursor)))
            found = self._found[cursor] = asyncio.ensure_future(look)
            # If all followers have hung up, nobody else takes its error.
            found.add_done_callback(_taken)
        # Another follower may be waiting for it too.
        return await asyncio.shield(found)

    async def _go_on(self) -> None:
        """Begin one moment after the other, as long as there are followers."""
        while self._api.followers and not self._api.stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._api.stopping.wait()
            self._begin_moment()
        self._clockwork = None
        # A follower that arrived in between must not wait for ever.
        self._begin_moment()

    def _begin_moment(self) -> None:
        self._found = {}
        begun, self._next_moment = self._next_moment, asyncio.Event()
        begun.set()


def _taken(look: asyncio.Future[Changes]) -> None:
    if not look.cancelled():
        look.exception()
