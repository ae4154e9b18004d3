"""Server-sent events: the changes of the store, for clients that keep a connection open.

Each event carries the changes since the previous one, and the cursor after them as its id: a client
that comes back with `Last-Event-ID` misses nothing, or is told by `gap` to read everything again.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from leasehold.core.model.changes import Changes
from leasehold.errors import StoreError
from leasehold.service.api import Api
from leasehold.service.caller import Caller
from leasehold.service.following import LOOK_SECONDS, first_look, looks, no_room
from leasehold.service.http_answers import plain_problem
from leasehold.service.http_request import bearer_of

logger = logging.getLogger("leasehold.service")

QUIET_SECONDS_MAX: Final = 15.0
"""After so long without an event a comment keeps the connection open."""


def event_routes(api: Api, root: str) -> list[Route]:
    """The stream of events."""

    async def events(request: Request) -> Response:
        secret = bearer_of(request)
        return await follow(api, lambda: api.authenticate(secret), request)

    return [Route(f"{root}/events", events)]


async def follow(api: Api, authenticate: Callable[[], Caller], request: Request) -> Response:
    """The stream, as long as `authenticate` accepts the caller; it is asked at each look."""
    first = await first_look(api, authenticate, request.headers.get("last-event-id"))
    caller = await api.on_thread(authenticate)
    if refusal := no_room(api, caller):
        return plain_problem(429, "too_many_followers", refusal, {"Retry-After": "10"})
    # Taken at once: of many requests that come together, each would still find room.
    place = object()
    api.followers[place] = caller.name
    news = looks(api, authenticate, first, caller.name, place)
    return _Following(_stream(news, first), lambda: api.followers.pop(place, None))


class _Following(StreamingResponse):
    """A stream that gives up its place in the end, also if it never began."""

    def __init__(self, stream: AsyncIterator[bytes], leave: Callable[[], object]) -> None:
        super().__init__(stream, media_type="text/event-stream")
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


async def _stream(feed: AsyncGenerator[Changes, None], first: Changes) -> AsyncIterator[bytes]:
    quiet_seconds = 0.0
    try:
        async for news in feed:
            if news is first or news.changes or news.gap:
                quiet_seconds = 0.0
                yield _event("gap" if news.gap else "changes", news)
            else:
                quiet_seconds += LOOK_SECONDS
                if quiet_seconds >= QUIET_SECONDS_MAX:
                    quiet_seconds = 0.0
                    yield b": nothing new\n\n"
    except StoreError as error:
        # It is too late for a status: a client that reconnects from its cursor gets the error.
        logger.warning("a stream of events was ended: %s", error)


def _event(kind: str, news: Changes) -> bytes:
    data = msgspec.json.encode(news.changes)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (news.cursor.encode(), kind.encode(), data)
