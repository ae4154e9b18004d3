"""The change feed for those who follow it: a look now and then, for as long as their token is good.

Who comes back with a cursor misses nothing, or is told of a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

from leasehold.core.model.changes import Changes
from leasehold.errors import UnauthenticatedError
from leasehold.service.api import Api
from leasehold.service.caller import Caller

LOOK_SECONDS: Final = 0.5
"""How often the feed is looked at."""
FOLLOWERS_MAX: Final = 100
TOO_MANY: Final = f"at most {FOLLOWERS_MAX} may follow at once"


def has_room(api: Api) -> bool:
    """Whether one more may follow."""
    return len(api.followers) < FOLLOWERS_MAX


async def first_look(api: Api, authenticate: Callable[[], Caller], cursor: str | None) -> Changes:
    """What there is after a cursor; raises what refuses the caller."""

    def begin() -> Changes:
        caller = authenticate()
        caller.check_role(("operator", "observer"))
        caller.check_unscoped()
        return api.guarded(lambda: api.store.changes(cursor))

    return await api.on_thread(begin)


async def looks(
    api: Api, authenticate: Callable[[], Caller], first: Changes
) -> AsyncIterator[Changes]:
    """The first changes, and what each later look finds, be it nothing.

    It ends once `authenticate` lets its caller in no longer.
    """
    follower = object()
    api.followers.add(follower)
    try:
        yield first
        cursor = first.cursor
        while not api.stopping.is_set():
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await api.stopping.wait()
            except TimeoutError:
                pass
            news = await api.on_thread(partial(_look, api, authenticate, cursor))
            if news is None:
                return
            cursor = news.cursor
            yield news
    finally:
        api.followers.discard(follower)


def _look(api: Api, authenticate: Callable[[], Caller], cursor: str) -> Changes | None:
    """What is new; None once the token is not good any more."""
    try:
        authenticate()
    except UnauthenticatedError:
        return None
    return api.guarded(lambda: api.store.changes(cursor))
