"""From an HTTP request to the request of an operation: path, query and body in one struct."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as types
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from leasehold.errors import InvalidRequestError, RequestTooLargeError
from leasehold.service.converting import converted, request_from
from leasehold.service.durations import with_seconds
from leasehold.service.json_in import decode_json
from leasehold.service.limits import BODY_BYTES_MAX, BODY_SECONDS_MAX, SMALL_BODY_BYTES
from leasehold.service.operation import ApiOperation, type_of


class RequestTimeoutError(InvalidRequestError):
    """Raised when the body did not arrive in time."""


def bearer_of(request: Request) -> str | None:
    """The secret in a request; None if it has none."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def is_small(request: Request) -> bool:
    """Whether the body is known to be small."""
    if "transfer-encoding" in request.headers:
        return False
    told = request.headers.get("content-length", "0")
    return told.isdecimal() and int(told) <= SMALL_BODY_BYTES


async def read_body(request: Request, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """The whole body, within bounds of size and time; the declared size is checked first."""
    told = request.headers.get("content-length")
    if told is not None and told.isdecimal() and int(told) > bytes_max:
        raise _too_large(bytes_max)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > bytes_max:
                    raise _too_large(bytes_max)
    except TimeoutError:
        raise RequestTimeoutError(
            f"the body did not arrive within {BODY_SECONDS_MAX:g} seconds"
        ) from None
    except ClientDisconnect:
        raise InvalidRequestError("the body ended before it was complete") from None
    return bytes(body)


def is_json(request: Request) -> bool:
    """Whether a body is declared as JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("application/json", "")


def request_of(
    operation: ApiOperation,
    path: Mapping[str, str],
    query: QueryParams,
    body: bytes,
    more: Mapping[str, str],
) -> Any:
    """The request to the operation; raises InvalidRequestError, or the error of a part.

    `more` has fields from a header.
    """
    given: dict[str, Any] = {}
    if operation.method in ("GET", "DELETE"):
        if body:
            raise InvalidRequestError(f"{operation.method} takes no body: use the query")
        given = _from_query(operation, query)
    else:
        if query:
            raise InvalidRequestError(f"{operation.method} takes no query: use the body")
        value = decode_json(body) if body else {}
        if not isinstance(value, dict):
            raise InvalidRequestError("the body must be a JSON object")
        given = value
    for fields in (path, more):
        for name, text in fields.items():
            if given.setdefault(name, text) != text or (name in path and fields is more):
                raise InvalidRequestError(f"{name} is given twice, with different values")
    # Every value of a query is text.
    is_strict = operation.method not in ("GET", "DELETE")
    try:
        return converted(given, operation.request, strict=is_strict)
    except msgspec.ValidationError:
        # Durations as text are rare: requests with numbers pay nothing for them.
        read = with_seconds(given, type_of(operation.request))
    return request_from(operation, read, strict=is_strict)


def _from_query(operation: ApiOperation, query: QueryParams) -> dict[str, Any]:
    lists = lists_of(operation.request)
    given: dict[str, Any] = {}
    for name in query:
        values = query.getlist(name)
        if name in lists:
            given[name] = values
        elif len(values) > 1:
            raise InvalidRequestError(f"{name} is given twice")
        else:
            given[name] = values[0]
    return given


@cache
def lists_of(request: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of a request that are lists: in a query they may be repeated."""
    return frozenset(field.name for field in type_of(request).fields if _is_list(field.type))


def _is_list(kind: types.Type) -> bool:
    if isinstance(kind, types.UnionType):
        return any(_is_list(each) for each in kind.types)
    return isinstance(kind, types.ListType | types.VarTupleType)


def _too_large(bytes_max: int) -> RequestTooLargeError:
    return RequestTooLargeError(f"a request has at most {bytes_max:,} bytes: send less at once")
