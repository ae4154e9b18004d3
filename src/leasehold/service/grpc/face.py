"""The gRPC face: methods made from the operations; nothing is decided here.

Messages arrive as bytes and are parsed here, after their sender is checked: a malformed one is
reported as the caller's error, and nothing is accepted from a caller without a valid token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import grpc
import msgspec
from grpc import aio

from leasehold.core.contract.wire import STREAMED, VERBS, Verb
from leasehold.error_codes import CodedError
from leasehold.observe.tracing import arriving
from leasehold.service.api import OPERATIONS, Api
from leasehold.service.caller import Caller
from leasehold.service.converting import request_from
from leasehold.service.following import first_look, looks, no_room
from leasehold.service.grpc.call import IncomingCall
from leasehold.service.grpc.errors import Refusal, refusal_of
from leasehold.service.grpc.schema import method_name
from leasehold.service.grpc.store_streams import IdleStreams, answer, first_answer
from leasehold.service.grpc.text import SERVICE, STORE_SERVICE
from leasehold.service.grpc.values import message_of, parsed, value_of
from leasehold.service.limits import SMALL_BODY_BYTES
from leasehold.service.operation import ApiOperation
from leasehold.service.submit_line import Submission, may_be_grouped
from leasehold.service.waiting import answer_unless_gone

logger = logging.getLogger("leasehold.service")

_METHOD: Final = "GRPC"
"""What calls are counted under, where HTTP has GET and POST."""

Work = Callable[[IncomingCall], Awaitable[bytes]]


class GrpcFace:
    """The methods of both services, on one API."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.idle_streams = IdleStreams()

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
        store = {method_name(verb.name): self._store_handler(verb) for verb in VERBS.values()}
        return [
            grpc.method_handlers_generic_handler(SERVICE, methods),
            grpc.method_handlers_generic_handler(STORE_SERVICE, store),
        ]

    def _handler(self, endpoint: str, work: Work) -> grpc.RpcMethodHandler:
        # To the caller it is one message; here it is a stream, of which nothing is read unasked.
        return grpc.stream_unary_rpc_method_handler(partial(self._serve, endpoint, work))

    def _store_handler(self, verb: Verb) -> grpc.RpcMethodHandler:
        endpoint = f"/{STORE_SERVICE}/{method_name(verb.name)}"
        if verb.name not in STREAMED:
            return self._handler(endpoint, partial(first_answer, verb))
        return grpc.stream_stream_rpc_method_handler(partial(self._serve_stream, endpoint, verb))

    async def _serve_stream(self, endpoint: str, verb: Verb, _: object, context: Any) -> None:
        call = IncomingCall(self.api, context)
        await context.write(await self._counted(endpoint, partial(first_answer, verb), call))
        while (body := await self.idle_streams.next_of(call)) is not None:
            work = partial(answer, verb, body=body)
            await context.write(await self._counted(endpoint, work, call))

    async def _serve(self, endpoint: str, work: Work, _: object, context: Any) -> bytes:
        return await self._counted(endpoint, work, IncomingCall(self.api, context))

    async def _counted(self, endpoint: str, work: Work, call: IncomingCall) -> bytes:
        clock = self.api.requests.clock
        began = clock.monotonic()
        status = 499  # unless it comes to an end, its caller has hung up
        try:
            done = await work(call)
            status = 200
            return done
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
        await call.context.abort(refused.code, refused.message, refused.metadata)
        raise AssertionError("abort raises")


async def _carry_out(operation: ApiOperation, call: IncomingCall) -> bytes:
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


def _prepared(operation: ApiOperation, call: IncomingCall, body: bytes) -> tuple[Caller, Any]:
    caller = call.caller()
    return caller, _allowed(operation, body, caller)


def _allowed(operation: ApiOperation, body: bytes, caller: Caller) -> Any:
    caller.check_role(operation.roles)  # before a look at the request
    return _asked(operation, body)


def _asked(operation: ApiOperation, body: bytes) -> Any:
    name = operation.request.__name__
    return request_from(operation, value_of(name, parsed(name, body)))


def _encoded(operation: ApiOperation, answer: Any) -> bytes:
    value = msgspec.json.decode(msgspec.json.encode(answer))
    message: bytes = message_of(operation.answer.__name__, value).SerializeToString()
    return message


async def _follow(call: IncomingCall) -> bytes:
    """Send what changes until the caller hangs up, their token ends or the service does."""
    asked = value_of("FollowChanges", parsed("FollowChanges", await call.read()))

    def authenticate() -> Caller:
        return call.api.authenticate(call.secret)

    first = await first_look(call.api, authenticate, asked.get("cursor"))
    caller = await call.api.on_thread(authenticate)
    if refusal := no_room(call.api, caller):
        await call.context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, refusal)
    async for news in looks(call.api, authenticate, first, caller.name):
        if news is first or news.changes or news.gap:
            message = message_of("Changes", msgspec.to_builtins(news))
            await call.context.write(message.SerializeToString())
    return b""
