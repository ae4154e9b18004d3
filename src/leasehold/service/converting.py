"""From JSON data to the request of an operation; for a partial batch, the valid jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as types

from leasehold.errors import LeaseholdError
from leasehold.service.explaining import UNKNOWN_FIELD, refusal
from leasehold.service.new_job import NewJob
from leasehold.service.operation import ApiOperation, type_of
from leasehold.service.producers import SortedBatch, SubmitBatch

R = TypeVar("R", bound=msgspec.Struct)


def request_from(operation: ApiOperation, given: dict[str, Any], *, strict: bool = True) -> Any:
    """The request to an operation; raises the error of the part that is wrong."""
    try:
        return converted(given, operation.request, strict=strict)
    except msgspec.ValidationError as error:
        if operation.request is SubmitBatch and given.get("partial") is True:
            return _sorted_batch(given, error)
        raise refusal(error, operation.request) from None


def converted(given: dict[str, Any], request: type[R], *, strict: bool = True) -> R:
    """The request; raises msgspec.ValidationError for invalid data.

    Unknown fields are refused everywhere. Parts that are also stored (rules of queues, orders)
    would accept any field, since a newer version may have written them; in a request, an unknown
    field is a typing error.
    """
    made = msgspec.convert(given, request, strict=strict)
    for name in _lenient_fields(request) & given.keys():
        for place, unknown in _unknown(given[name], _field_type(request, name), f".{name}"):
            raise msgspec.ValidationError(f"{UNKNOWN_FIELD} `{unknown}` - at `${place}`")
    return made


@cache
def _lenient_fields(request: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of a request in which a part takes any field."""
    fields = type_of(request).fields
    return frozenset(each.encode_name for each in fields if _is_lenient(each.type))


def _field_type(request: type[msgspec.Struct], name: str) -> types.Type:
    return next(each.type for each in type_of(request).fields if each.encode_name == name)


def _is_lenient(kind: types.Type) -> bool:
    return any(
        not struct.forbid_unknown_fields or any(_is_lenient(each.type) for each in struct.fields)
        for struct in _structs(kind)
    )


def _structs(kind: types.Type) -> Iterator[types.StructType]:
    """The structs that a value of a type may be."""
    while isinstance(kind, types.Metadata):
        kind = kind.type
    if isinstance(kind, types.UnionType):
        for each in kind.types:
            yield from _structs(each)
    elif isinstance(kind, types.StructType):
        yield kind


def _unknown(value: Any, kind: types.Type, place: str) -> Iterator[tuple[str, str]]:
    """The fields of a value that its type does not have, each with its path."""
    if not isinstance(value, dict):
        return
    for struct in _structs(kind):
        tag = struct.tag_field
        if tag is not None and value.get(tag) != struct.tag:
            continue
        fields = {each.encode_name: each.type for each in struct.fields}
        for name, inner in value.items():
            if name in fields:
                yield from _unknown(inner, fields[name], f"{place}.{name}")
            elif name != tag:
                yield place, name


def _sorted_batch(given: dict[str, Any], error: msgspec.ValidationError) -> SortedBatch:
    jobs = given.get("jobs")
    if not isinstance(jobs, list):
        raise refusal(error, SubmitBatch) from None
    sorted_jobs: list[NewJob | LeaseholdError] = []
    for job in jobs:
        try:
            sorted_jobs.append(msgspec.convert(job, NewJob))
        except msgspec.ValidationError as fault:
            sorted_jobs.append(refusal(fault, NewJob))
    try:
        # Other errors in the batch are not the fault of a job.
        rest = msgspec.convert({**given, "jobs": [{} for _ in jobs]}, SubmitBatch)
    except msgspec.ValidationError as fault:
        raise refusal(fault, SubmitBatch) from None
    return SortedBatch(jobs=[], partial=True, request_id=rest.request_id, sorted_jobs=sorted_jobs)
