"""Server-sent events: what changes in the store, for whoever keeps a connection open.

Each event carries the changes since the one before, and as its id the cursor after them: who comes
back with `Last-Event-ID` misses nothing, or is told by `gap` to look at everything anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from leasehold.core.model.changes import Changes
from leasehold.errors import UnauthenticatedError
from leasehold.service.api import Api
from leasehold.service.caller import Caller
from leasehold.service.http_answers import plain_problem
from leasehold.service.http_request import bearer_of

LOOK_SECONDS: Final = 0.5
"""How often the feed is looked at."""
QUIET_SECONDS_MAX: Final = 15.0
"""After so long without an event a comment keeps the connection open."""
FOLLOWERS_MAX: Final = 100


def event_routes(api: Api, root: str) -> list[Route]:
    """The stream of events."""

    async def events(request: Request) -> Response:
        secret = bearer_of(request)
        return await follow(api, lambda: api.authenticate(secret), request)

    return [Route(f"{root}/events", events)]


async def follow(api: Api, authenticate: Callable[[], Caller], request: Request) -> Response:
    """The stream, for as long as `authenticate` lets in whoever asks; it is asked at each look."""
    cursor = request.headers.get("last-event-id")

    def begin() -> Changes:
        caller = authenticate()
        caller.check_role(("operator",))
        caller.check_unscoped()
        return api.guarded(lambda: api.store.changes(cursor))

    first = await api.on_thread(begin)
    if len(api.followers) >= FOLLOWERS_MAX:
        detail = f"at most {FOLLOWERS_MAX} may follow at once"
        return plain_problem(429, "too_many_followers", detail, {"Retry-After": "10"})
    return StreamingResponse(_stream(api, authenticate, first), media_type="text/event-stream")


async def _stream(
    api: Api, authenticate: Callable[[], Caller], first: Changes
) -> AsyncIterator[bytes]:
    follower = object()
    api.followers.add(follower)
    try:
        yield _event("gap" if first.gap else "changes", first)
        cursor, quiet_seconds = first.cursor, 0.0
        while not api.stopping.is_set():
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await api.stopping.wait()
            except TimeoutError:
                quiet_seconds += LOOK_SECONDS
            news = await api.on_thread(partial(_look, api, authenticate, cursor))
            if news is None:
                return
            if news.changes or news.gap:
                cursor, quiet_seconds = news.cursor, 0.0
                yield _event("gap" if news.gap else "changes", news)
            elif quiet_seconds >= QUIET_SECONDS_MAX:
                quiet_seconds = 0.0
                yield b": nothing new\n\n"
    finally:
        api.followers.discard(follower)


def _look(api: Api, authenticate: Callable[[], Caller], cursor: str) -> Changes | None:
    """What is new; None once the token is not good any more."""
    try:
        authenticate()
    except UnauthenticatedError:
        return None
    return api.guarded(lambda: api.store.changes(cursor))


def _event(kind: str, news: Changes) -> bytes:
    data = msgspec.json.encode(news.changes)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (news.cursor.encode(), kind.encode(), data)
