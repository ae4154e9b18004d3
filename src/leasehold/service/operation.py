"""Operations: the methods of the API, with what every face needs to know to offer them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import inspect as types

from leasehold.core.model.tokens import Role

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__operation__"


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request to an operation: over HTTP from the path, the query and the body together."""


class Answer(msgspec.Struct, kw_only=True):
    """Its answer."""


@cache
def type_of(request: type[msgspec.Struct]) -> types.StructType:
    """The fields of a request, with their types.

    Each is looked at once: a look takes longer than most requests, and interns a new string (the
    `__module__` of msgspec's own type), for which Python's table of such strings grows.
    """
    info = types.type_info(request)
    assert isinstance(info, types.StructType)
    return info


class ApiOperation(NamedTuple):
    """One operation, for a transport that offers it."""

    name: str
    method: Method
    path: str
    """Below /api/v1; names in braces are fields of the request."""
    roles: tuple[Role, ...]
    """Any one of them will do."""
    request: type[Request]
    answer: Any
    status: int
    waits: bool
    """Whether it is a coroutine, which may take long without a thread."""
    summary: str
    description: str


def operation(method: Method, path: str, *roles: Role, status: int = 200) -> Callable[[F], F]:
    """Make an operation of a method that takes the caller and a request."""

    def mark(function: F) -> F:
        setattr(function, _MARK, (method, path, roles, status))
        return function

    return mark


def operations_of(part: type) -> Iterator[ApiOperation]:
    """The operations of a part of the API, in the order in which they are written."""
    for name, function in vars(part).items():
        if (marked := getattr(function, _MARK, None)) is None:
            continue
        method, path, roles, status = marked
        hints = get_type_hints(function)
        summary, _, description = inspect.cleandoc(function.__doc__ or "").partition("\n")
        yield ApiOperation(
            name=name,
            method=method,
            path=path,
            roles=roles,
            request=hints["request"],
            answer=hints["return"],
            status=status,
            waits=inspect.iscoroutinefunction(function),
            summary=summary.rstrip("."),
            description=" ".join(description.split()),
        )
