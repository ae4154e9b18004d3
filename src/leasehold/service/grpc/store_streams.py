"""The verbs of the store over gRPC, with streams of calls for those that are called often.

A remote worker repeats the same call. On a stream that stays open it costs one message each way
instead of setting up a call. A client that sends one message and reads one answer is served too.
"""

from __future__ import annotations

import asyncio
from typing import Final

from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import BytesValue

from leasehold.core.contract.wire import Verb
from leasehold.errors import InvalidRequestError
from leasehold.service.grpc.call import IncomingCall
from leasehold.service.limits import CALL_BYTES_MAX

IDLE_SECONDS_MAX: Final = 75.0
"""How long a stream is kept open without a call: longer than our own clients keep an idle one."""


class IdleStreams:
    """The streams that wait for their next call, so that a stop need not wait for them."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self._is_over = False

    def end(self) -> None:
        """End those that wait now, and the others after the call that they are at."""
        self._is_over = True
        for wait in self._waits:
            wait.reschedule(0)

    async def next_of(self, call: IncomingCall) -> bytes | None:
        """The next message; None if the stream is over."""
        if self._is_over:
            return None
        wait = asyncio.timeout(IDLE_SECONDS_MAX)
        try:
            async with wait:
                self._waits.add(wait)
                return await call.read_next()
        except TimeoutError:
            return None
        finally:
            self._waits.discard(wait)


async def first_answer(verb: Verb, call: IncomingCall) -> bytes:
    """Read the first message of a call, and carry it out."""
    return await answer(verb, call, await call.read(CALL_BYTES_MAX))


async def answer(verb: Verb, call: IncomingCall, body: bytes) -> bytes:
    """Carry out one call."""
    api = call.api
    try:
        arguments = BytesValue.FromString(body).value
    except DecodeError as error:
        raise InvalidRequestError(f"this is not a BytesValue: {error}") from None
    if verb.name == "hints":
        caller = await api.on_thread(call.caller)
        answer = await api.store_calls.hints(caller, arguments)
    else:

        def carried_out() -> bytes:
            caller = call.caller()
            return api.guarded(lambda: api.store_calls.call(verb, caller, arguments))

        answer = await api.on_thread(carried_out)
    packed: bytes = BytesValue(value=answer).SerializeToString()
    return packed
