"""One call of the gRPC face: its caller, and its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
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
        self.secret = bearer_in(context.invocation_metadata())
        self.known: Caller | None = None
        """The caller, if already identified."""

    async def read(self, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """The message; none is read from unknown callers.

        The message of a known caller is read before the store is asked whether the token is still
        valid, which saves a thread switch.
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
        """The next message of a stream, from the sender of the first; None at its end."""
        body = await self.context.read()
        # It may have come long after the last one, so the token is checked again.
        self.known = None
        return None if body is aio.EOF else bytes(body)

    def caller(self) -> Caller:
        """The caller, identified on first use."""
        return self.known or self.api.authenticate(self.secret)


def bearer_in(metadata: Iterable[tuple[str, Any]]) -> str | None:
    """The secret in a call; None if it has none.

    Of two a proxy might go by one, and the service by the other: then none is good.
    """
    shown = [value for key, value in metadata if key == "authorization"]
    if not shown:
        return None
    scheme, _, secret = str(shown[0]).partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and len(shown) == 1 else ""
