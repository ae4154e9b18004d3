"""One call of the gRPC face: its caller, and its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from grpc import aio

from leasehold.core.model.tokens import digest_of
from leasehold.errors import InvalidRequestError, RequestTooLargeError
from leasehold.service.api import Api
from leasehold.service.caller import Caller
from leasehold.service.limits import BODY_BYTES_MAX, BODY_SECONDS_MAX


class IncomingCall:
    """One call: its caller, and its message."""

    def __init__(self, api: Api, context: Any) -> None:
        self.api = api
        self.context = context
        self.headers: Mapping[str, str] = {
            key: value for key, value in context.invocation_metadata() if isinstance(value, str)
        }
        self.secret = bearer_in(self.headers)
        self.known: Caller | None = None
        """Who calls, if it was asked already."""

    async def read(self, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """The message; from strangers none is read.

        The message of a known caller is read before the store is asked whether their token is still
        good, which saves a change of threads.
        """
        if self.secret is None or self.api.known_callers.find(digest_of(self.secret)) is None:
            self.known = await self.api.on_thread(lambda: self.api.authenticate(self.secret))
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                body = await self.context.read()
        except TimeoutError:
            raise InvalidRequestError(
                f"no message arrived within {BODY_SECONDS_MAX:g} seconds"
            ) from None
        if body is aio.EOF:
            raise InvalidRequestError("the call ended without a message")
        if len(body) > bytes_max:
            raise RequestTooLargeError(
                f"a message has at most {bytes_max:,} bytes: send less at once"
            )
        return bytes(body)

    async def read_next(self) -> bytes | None:
        """The next message of a stream, from whoever has sent the first; None at its end."""
        body = await self.context.read()
        # It may have come long after the last one: whether the token is still good is asked anew.
        self.known = None
        return None if body is aio.EOF else bytes(body)

    def caller(self) -> Caller:
        """Who calls; asks for it if it was not asked yet."""
        return self.known or self.api.authenticate(self.secret)


def bearer_in(headers: Mapping[str, str]) -> str | None:
    """The secret that a call shows; None if it shows none."""
    shown = headers.get("authorization")
    if shown is None:
        return None
    scheme, _, secret = shown.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
