"""The HTTP face of the store itself, for remote stores: one verb of the contract per path."""

from __future__ import annotations

from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leasehold.core.contract.wire import MEDIA_TYPE, VERBS
from leasehold.service.api import Api
from leasehold.service.caller import Caller
from leasehold.service.http_request import bearer_of, is_small, read_body
from leasehold.service.limits import CALL_BYTES_MAX


def store_routes(api: Api, root: str) -> list[Route]:
    """The verbs of the store."""
    return [Route(f"{root}/store/{{verb}}", partial(_serve, api), methods=["POST"])]


async def _serve(api: Api, request: Request) -> Response:
    verb = VERBS.get(request.path_params["verb"])
    if verb is None:
        raise HTTPException(404, "a store has no such verb")
    secret = bearer_of(request)
    known: Caller | None = None
    if not is_small(request) or verb.name == "hints":
        known = await api.on_thread(lambda: api.authenticate(secret))
    body = await read_body(request, CALL_BYTES_MAX)
    if request.headers.get("content-type") != MEDIA_TYPE:
        raise HTTPException(415, f"send {MEDIA_TYPE}")
    if verb.name == "hints":
        assert known is not None
        return Response(await api.store_calls.hints(known, body), media_type=MEDIA_TYPE)

    def answer() -> bytes:
        caller = known or api.authenticate(secret)
        return api.guarded(lambda: api.store_calls.call(verb, caller, body))

    return Response(await api.on_thread(answer), media_type=MEDIA_TYPE)
