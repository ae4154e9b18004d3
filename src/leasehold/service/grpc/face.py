"""The gRPC face: methods made of the operations, and nothing decided here.

Messages come as bytes and are read by us, after a look at who sends them: what is malformed is the
caller's fault and told so, and whoever shows no good token sends nothing that is taken in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import grpc
import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import BytesValue
from grpc import aio

from leasehold.core.contract.wire import VERBS, Verb
from leasehold.core.model.tokens import digest_of
from leasehold.error_codes import CodedError
from leasehold.errors import InvalidRequestError, RequestTooLargeError
from leasehold.observe.tracing import arriving
from leasehold.service.api import OPERATIONS, Api
from leasehold.service.caller import Caller
from leasehold.service.explaining import refusal
from leasehold.service.following import TOO_MANY, first_look, has_room, looks
from leasehold.service.grpc.errors import Refusal, refusal_of
from leasehold.service.grpc.schema import method_name
from leasehold.service.grpc.text import SERVICE, STORE_SERVICE
from leasehold.service.grpc.values import message_of, parsed, value_of
from leasehold.service.limits import (
    BODY_BYTES_MAX,
    BODY_SECONDS_MAX,
    CALL_BYTES_MAX,
    SMALL_BODY_BYTES,
)
from leasehold.service.operation import ApiOperation
from leasehold.service.submit_line import Submission, may_be_grouped
from leasehold.service.waiting import answer_unless_gone

logger = logging.getLogger("leasehold.service")

_METHOD: Final = "GRPC"
"""What calls are counted under, where HTTP has GET and POST."""

Work = Callable[["_Call"], Awaitable[bytes]]


class GrpcFace:
    """The methods of both services, on one API."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """For a server: every method, by name."""
        methods = {
            method_name(each.name): self._handler(
                f"/{SERVICE}/{method_name(each.name)}", partial(_carry_out, each)
            )
            for each in OPERATIONS
        }
        methods["Events"] = grpc.stream_stream_rpc_method_handler(
            partial(self._serve, f"/{SERVICE}/Events", _follow)
        )
        store = {
            method_name(name): self._handler(
                f"/{STORE_SERVICE}/{method_name(name)}", partial(_call_store, verb)
            )
            for name, verb in VERBS.items()
        }
        return [
            grpc.method_handlers_generic_handler(SERVICE, methods),
            grpc.method_handlers_generic_handler(STORE_SERVICE, store),
        ]

    def _handler(self, endpoint: str, work: Work) -> grpc.RpcMethodHandler:
        # To the caller it is one message; here it is a stream, of which nothing is read unasked.
        return grpc.stream_unary_rpc_method_handler(partial(self._serve, endpoint, work))

    async def _serve(self, endpoint: str, work: Work, _: object, context: Any) -> bytes:
        clock = self.api.requests.clock
        began = clock.monotonic()
        status = 499  # unless it comes to an end, its caller has hung up
        try:
            answer = await work(_Call(self.api, context))
            status = 200
            return answer
        except CodedError as error:
            refused = refusal_of(error)
            status = refused.http_status
        except aio.AbortError:
            status = 429
            raise
        except Exception as error:
            logger.error("a call failed unexpectedly", exc_info=error)  # noqa: TRY400  # its level
            message = "the service failed; its log says why"
            refused = Refusal(grpc.StatusCode.INTERNAL, message, (), 500)
            status = 500
        finally:
            self.api.requests.count(endpoint, _METHOD, status, clock.monotonic() - began)
        await context.abort(refused.code, refused.message, refused.metadata)
        raise AssertionError("abort raises")


class _Call:
    """One call: who makes it, and what they send."""

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

        That of a known caller is read before the store is asked whether their token is still good,
        which saves a change of threads.
        """
        if self.secret is None or self.api.known_callers.find(digest_of(self.secret)) is None:
            self.known = await self.api.on_thread(lambda: self.api.authenticate(self.secret))
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                body = await self.context.read()
        except TimeoutError:
            raise InvalidRequestError(
                f"no message came within {BODY_SECONDS_MAX:g} seconds"
            ) from None
        if body is aio.EOF:
            raise InvalidRequestError("the call ended without a message")
        if len(body) > bytes_max:
            raise RequestTooLargeError(
                f"a message has at most {bytes_max:,} bytes: send less at once"
            )
        return bytes(body)

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


async def _carry_out(operation: ApiOperation, call: _Call) -> bytes:
    api = call.api
    body = await call.read()

    def answer() -> bytes:
        caller, asked = _prepared(operation, call, body)
        with arriving(call.headers):
            return _encoded(operation, api.call(operation, caller, asked))

    if (
        operation.name == "submit"
        and len(body) <= SMALL_BODY_BYTES
        and may_be_grouped(call.headers)
    ):
        return await api.submit_line.submit(
            Submission(
                call.known,
                call.secret,
                partial(_allowed, operation, body),
                partial(_encoded, operation),
            )
        )
    if not operation.waits:
        return await api.on_thread(answer)
    caller, asked = await api.on_thread(lambda: _prepared(operation, call, body))
    # Who hangs up has this very task cancelled.
    never = asyncio.get_running_loop().create_future()
    return _encoded(operation, await answer_unless_gone(api, operation, caller, asked, never))


def _prepared(operation: ApiOperation, call: _Call, body: bytes) -> tuple[Caller, Any]:
    caller = call.caller()
    return caller, _allowed(operation, body, caller)


def _allowed(operation: ApiOperation, body: bytes, caller: Caller) -> Any:
    caller.check_role(operation.roles)  # before a look at what is asked
    return _asked(operation, body)


def _asked(operation: ApiOperation, body: bytes) -> Any:
    name = operation.request.__name__
    given = value_of(name, parsed(name, body))
    try:
        return msgspec.convert(given, operation.request)
    except msgspec.ValidationError as error:
        raise refusal(error, operation.request) from None


def _encoded(operation: ApiOperation, answer: Any) -> bytes:
    value = msgspec.json.decode(msgspec.json.encode(answer))
    message: bytes = message_of(operation.answer.__name__, value).SerializeToString()
    return message


async def _follow(call: _Call) -> bytes:
    """Send what changes until the caller hangs up, their token ends or the service does."""
    asked = value_of("FollowChanges", parsed("FollowChanges", await call.read()))

    def authenticate() -> Caller:
        return call.api.authenticate(call.secret)

    first = await first_look(call.api, authenticate, asked.get("cursor"))
    if not has_room(call.api):
        await call.context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY)
    async for news in looks(call.api, authenticate, first):
        if news is first or news.changes or news.gap:
            message = message_of("Changes", msgspec.to_builtins(news))
            await call.context.write(message.SerializeToString())
    return b""


async def _call_store(verb: Verb, call: _Call) -> bytes:
    api = call.api
    body = await call.read(CALL_BYTES_MAX)
    try:
        arguments = BytesValue.FromString(body).value
    except DecodeError as error:
        raise InvalidRequestError(f"this is no BytesValue: {error}") from None
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
