"""The HTTP face: Starlette routes made from the operations; nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from leasehold.error_codes import CodedError
from leasehold.observe.exposition import CONTENT_TYPE
from leasehold.observe.tracing import arriving
from leasehold.service.api import OPERATIONS, Api
from leasehold.service.caller import Caller
from leasehold.service.http_answers import (
    encode,
    failure,
    json_bytes,
    problem,
    refusal,
    respond,
)
from leasehold.service.http_events import event_routes
from leasehold.service.http_guard import Guard
from leasehold.service.http_request import (
    bearer_of,
    is_json,
    is_small,
    read_body,
    request_of,
)
from leasehold.service.http_store import store_routes
from leasehold.service.openapi import openapi_json
from leasehold.service.operation import ApiOperation
from leasehold.service.producers import Submit
from leasehold.service.request_figures import RequestMeter
from leasehold.service.submit_line import Submission, may_be_grouped
from leasehold.service.waiting import answer_unless_gone

ROOT: Final = "/api/v1"


def http_app(api: Api, *, hosts: Sequence[str] = (), beside: Sequence[BaseRoute] = ()) -> Starlette:
    """The service as an ASGI application, for requests to one of these hosts.

    `beside` are further routes that it serves.
    """
    routes = [
        # These come first, since routes are tried in turn, and remote workers call these
        # constantly.
        *store_routes(api, ROOT),
        *_operation_routes(api),
        *event_routes(api, ROOT),
        *_other_routes(api),
    ]
    app = Starlette(
        routes=[*routes, *beside],
        middleware=[
            Middleware(RequestMeter, figures=api.requests, routes=routes),
            Middleware(Guard, hosts=hosts),
        ],
        exception_handlers={
            CodedError: lambda _, error: problem(error),
            HTTPException: lambda _, error: refusal(error),
            Exception: lambda _, error: failure(error),
        },
    )
    app.router.redirect_slashes = False
    return app


# -- operations -----------------------------------------------------------------------------------


def _operation_routes(api: Api) -> list[Route]:
    """One route per path, which knows the operation of each method."""
    by_path: dict[str, dict[str, ApiOperation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    # A path without parameters precedes one with them: /jobs/batch is not a job.
    ordered = sorted(by_path, key=lambda path: "{" in path)
    routes = [
        Route(ROOT + path, partial(_serve, api, by_path[path]), methods=list(by_path[path]))
        for path in ordered
    ]
    for route in routes:
        assert route.methods is not None
        route.methods.discard("HEAD")  # Starlette adds it to GET.
    return routes


async def _serve(api: Api, by_method: dict[str, ApiOperation], request: Request) -> Response:
    operation = by_method[request.method]
    secret = bearer_of(request)
    caller: Caller | None = None
    if not is_small(request):
        caller = await api.on_thread(lambda: api.authenticate(secret))
    elif secret is None:
        caller = api.authenticate(None)  # asks no store
    body = await read_body(request)
    if body and not is_json(request):
        raise HTTPException(415, "send application/json")
    if operation.waits:
        return await _wait(api, operation, caller, request, body)
    if operation.name == "submit" and is_small(request) and may_be_grouped(request.headers):
        return json_bytes(await _submit(api, operation, caller, request, body), operation.status)

    def answer() -> bytes:
        known = caller or api.authenticate(secret)
        known.check_role(operation.roles)  # before a look at the request
        with arriving(request.headers):
            return encode(api.call(operation, known, _asked(operation, request, body)))

    return json_bytes(await api.on_thread(answer), operation.status)


async def _submit(
    api: Api, operation: ApiOperation, caller: Caller | None, request: Request, body: bytes
) -> bytes:
    """Store a job, together with others that arrive at the same time."""

    def asked(known: Caller) -> Submit:
        known.check_role(operation.roles)
        submit: Submit = _asked(operation, request, body)
        return submit

    return await api.submit_line.submit(Submission(caller, bearer_of(request), asked, encode))


async def _wait(
    api: Api, operation: ApiOperation, caller: Caller | None, request: Request, body: bytes
) -> Response:
    """Carry out an operation that may wait, unless its caller hangs up meanwhile."""
    secret = bearer_of(request)

    def prepare() -> tuple[Caller, Any]:
        known = caller or api.authenticate(secret)
        known.check_role(operation.roles)
        return known, _asked(operation, request, body)

    known, asked = await api.on_thread(prepare)
    answer = await answer_unless_gone(api, operation, known, asked, _hung_up(request))
    return Response(status_code=499) if answer is None else respond(answer, operation.status)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _asked(operation: ApiOperation, request: Request, body: bytes) -> Any:
    more = {}
    if operation.name == "submit" and (key := request.headers.get("idempotency-key")):
        more["idempotency_key"] = key
    in_path = {name: unquote(value) for name, value in request.path_params.items()}
    return request_of(operation, in_path, request.query_params, body, more)


# -- the rest -------------------------------------------------------------------------------------


def _other_routes(api: Api) -> list[Route]:
    async def health(_: Request) -> Response:
        return respond({"status": "alive"})

    async def ready(_: Request) -> Response:
        await api.in_thread(api.store.now)
        return respond({"status": "ready"})

    async def openapi(request: Request) -> Response:
        secret = bearer_of(request)

        def document() -> bytes:
            api.authenticate(secret)
            return openapi_json()

        return json_bytes(await api.on_thread(document), 200)

    async def metrics(request: Request) -> Response:
        secret = bearer_of(request)
        body = await api.on_thread(lambda: api.exposition(api.authenticate(secret)))
        return Response(body, media_type=CONTENT_TYPE)

    return [
        Route("/metrics", metrics),
        Route("/healthz", health),
        Route("/readyz", ready),
        Route(f"{ROOT}/openapi.json", openapi),
    ]
