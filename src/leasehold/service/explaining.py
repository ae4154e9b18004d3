"""The error of an invalid request, in words that say how to fix it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from leasehold.core.model.phrases import did_you_mean, listed
from leasehold.core.model.search import JobFilter
from leasehold.errors import (
    InvalidCursorError,
    InvalidFieldError,
    InvalidFilterError,
    InvalidJobError,
    InvalidOrderError,
    InvalidPageError,
    LeaseholdError,
    UnknownFieldError,
)
from leasehold.queue.elsewhere import FOREIGN_OPTIONS
from leasehold.service.new_job import NewJob
from leasehold.service.operation import type_of

_PATH: Final = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\.\.\.|\d+)\]")
UNKNOWN_FIELD: Final = "Object contains unknown field"
_WRONG_PATTERN: Final = "Expected `str` matching regex"


_PARTS: Final[dict[str, type[LeaseholdError]]] = {
    "where": InvalidFilterError,
    "order": InvalidOrderError,
    "cursor": InvalidCursorError,
    "jobs": InvalidJobError,
}
"""The errors of parts that requests have in common."""
_OF_LISTS: Final[dict[str, type[LeaseholdError]]] = {
    "limit": InvalidPageError,
    **dict.fromkeys((*JobFilter.__struct_fields__, "queue", "status", "task"), InvalidFilterError),
}
"""The errors of fields with which a list of jobs is narrowed."""


def refusal(error: msgspec.ValidationError, request: type[msgspec.Struct]) -> LeaseholdError:
    """The error for a request that is not of its type, with what its type allows there."""
    told = str(error)
    found = _PATH.search(told)
    steps = _STEP.findall(found[1]) if found else []
    kinds = _at(type_of(request), steps)
    if told.startswith(UNKNOWN_FIELD):
        known = [field.encode_name for kind in kinds for field in getattr(kind, "fields", ())]
        if not known:
            return UnknownFieldError(told)
        field = told.removeprefix(f"{UNKNOWN_FIELD} `").partition("`")[0]
        near = did_you_mean(FOREIGN_OPTIONS.get(field, field), known, 0.7)
        told += f"{near} Known" if near else "; known"
        return UnknownFieldError(f"{told} are {listed(known)}")
    return _error_at(steps, request)(_in_full(told, found, kinds))


def _error_at(steps: list[tuple[str, str]], request: type[msgspec.Struct]) -> type[LeaseholdError]:
    """The error that says which part of the request is wrong."""
    name = steps[0][0] if steps else ""
    kind = _PARTS.get(name)
    if kind is None and "cursor" in request.__struct_fields__:
        kind = _OF_LISTS.get(name)
    return kind or (InvalidJobError if issubclass(request, NewJob) else InvalidFieldError)


def _in_full(told: str, found: re.Match[str] | None, kinds: list[types.Type]) -> str:
    """What is wrong, and what is allowed there."""
    if found and told.startswith(_WRONG_PATTERN):
        for words in (_in_words(kind) for kind in kinds):
            if words is not None:
                return f"{found[1].lstrip('.')} must be {words}"
    allowed = [value for kind in kinds for value in _values(kind)]
    return f"{told}: allowed are {listed(allowed)}" if allowed else told


def _at(kind: types.Type, steps: list[tuple[str, str]]) -> list[types.Type]:
    """The valid types at this place."""
    while isinstance(kind, types.Metadata):
        if not steps and _in_words(kind) is not None:
            return [kind]
        kind = kind.type
    if isinstance(kind, types.UnionType):
        return [found for each in kind.types for found in _at(each, steps)]
    if not steps:
        return [kind]
    (name, _), *rest = steps
    if isinstance(kind, types.StructType):
        if name == kind.tag_field:
            return [types.LiteralType((str(kind.tag),))]
        return [
            found for field in kind.fields if field.encode_name == name
            for found in _at(field.type, rest)
        ]  # fmt: skip
    inner = getattr(kind, "item_type", None) or getattr(kind, "value_type", None)
    return [] if inner is None else _at(inner, rest)


def _in_words(kind: types.Type) -> str | None:
    """The description of a type that has a pattern."""
    described = kind.extra_json_schema if isinstance(kind, types.Metadata) else None
    return None if described is None else described.get("description")


def _values(kind: Any) -> list[str]:
    if isinstance(kind, types.LiteralType):
        return [str(value) for value in kind.values]
    if isinstance(kind, types.EnumType):
        return [str(member.value) for member in kind.cls]
    if isinstance(kind, types.IntType) and kind.ge is not None and kind.le is not None:
        return [f"{kind.ge} to {kind.le}"]
    return []
