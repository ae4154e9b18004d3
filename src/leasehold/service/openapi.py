"""The OpenAPI 3.1 document, made of the operations and their types.

`python -m leasehold.service.openapi > docs/openapi.json` writes it; a test compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from leasehold.service.answers import Problem
from leasehold.service.api import OPERATIONS
from leasehold.service.descriptions import SOURCE, description_of, field_descriptions
from leasehold.service.durations import ENDING, SCHEMA
from leasehold.service.operation import ApiOperation

ROOT: Final = "/api/v1"
_NAMES: Final = re.compile(r"\{(\w+)\}")
_REF: Final = "#/components/schemas/{name}"
_ABOUT: Final = frozenset({"default", "description", "title"})
"""A schema's remarks on a field, beside its valid values."""


class ProblemDocument(msgspec.Struct, kw_only=True, rename={"kind": "type"}):
    """What went wrong (RFC 9457): go by the `code`, which stays the same."""

    kind: str
    title: str
    status: int
    detail: str
    code: str
    fields: dict[str, Any]


_PROBLEMS: Final = {
    "400": "The request is malformed.",
    "401": "The token is missing or invalid.",
    "403": "The token does not allow it.",
    "404": "There is no such job, queue, schedule or token.",
    "405": "The path does not support this method.",
    "408": "The body did not arrive in time.",
    "409": "The current state does not allow it; a late settlement is `lease_lost`.",
    "410": "The result's time to live is over.",
    "413": "The request, or a payload in it, is too large.",
    "415": "The content type is not JSON.",
    "422": "The request is invalid.",
    "429": "The queue is full, or jobs arrive too fast: Retry-After says when to try again.",
    "503": "The store is unavailable: Retry-After says when to try again.",
}


_EVENTS: Final = {
    "operationId": "events",
    "summary": "Follow the changes in the store",
    "description": (
        "A stream of server-sent events: `changes`, whose data is a list of changes, and `gap`, "
        "after which everything must be read again. The id of an event is the position after it. "
        "Roles: operator, observer."
    ),
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "description": "Continue after this event; without it, begin with new changes.",
            "schema": {"type": "string"},
        }
    ],
    "responses": {
        "200": {"description": "The stream.", "content": {"text/event-stream": {}}},
        **{
            status: {"$ref": f"#/components/responses/{status}"}
            for status in ("400", "401", "403", "429", "503")
        },
    },
}
"""The one operation that is no question with an answer: `http_events.py` serves it."""


def openapi_document() -> dict[str, Any]:
    """The whole document."""
    bodies = {each.name: body_type(each) for each in OPERATIONS}
    answers = {each.name: each.answer for each in OPERATIONS}
    kinds = [each for each in (*bodies.values(), *answers.values()) if each is not None]
    schemas, components = msgspec.json.schema_components(
        [*kinds, ProblemDocument, Problem], ref_template=_REF
    )
    structs = {each.__name__: each for each in _structs([*kinds, ProblemDocument, Problem])}
    for name, component in components.items():
        if "description" in component:
            component["description"] = description_of(component["description"])
        if name in structs:
            for field, text in field_descriptions(structs[name]).items():
                if field in component["properties"]:
                    component["properties"][field].setdefault("description", text)
    known = dict(zip([*map(id, kinds), "problem", "error"], schemas, strict=True))
    for body in bodies.values():
        if body is not None:
            _let_durations_be_texts(known[id(body)], components, set())
    _say_items([*schemas, components])
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        body = bodies[operation.name]
        paths.setdefault(ROOT + operation.path, {})[operation.method.lower()] = _described(
            operation,
            None if body is None else known[id(body)],
            known[id(operation.answer)],
        )
    paths[f"{ROOT}/events"] = {"get": _EVENTS}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Leasehold",
            "version": "1",
            "description": "Background jobs: submit them, lease them, look after them.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                status: {
                    "description": text,
                    "content": {"application/problem+json": {"schema": known["problem"]}},
                }
                for status, text in _PROBLEMS.items()
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _say_items(schema: Any) -> None:
    """Say of every array what is in it, be it anything: some generators insist on that."""
    if isinstance(schema, list):
        for each in schema:
            _say_items(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "array" and "prefixItems" not in schema:
            schema.setdefault("items", {})
        for each in schema.values():
            _say_items(each)


def _structs(kinds: list[Any]) -> Iterator[type]:
    """All structs that these types are made of."""
    waiting, seen = list(types.multi_type_info(kinds)), set()
    while waiting:
        match waiting.pop():
            case types.StructType() as struct if struct.cls not in seen:
                seen.add(struct.cls)
                yield struct.cls
                waiting += [field.type for field in struct.fields]
            case types.Metadata(type=inner):
                waiting.append(inner)
            case types.UnionType(types=choices):
                waiting += choices
            case types.ListType(item_type=inner) | types.VarTupleType(item_type=inner):
                waiting.append(inner)
            case types.DictType(value_type=inner):
                waiting.append(inner)


@cache
def openapi_json() -> bytes:
    """The document as text."""
    return msgspec.json.format(msgspec.json.encode(openapi_document(), order="sorted"), indent=1)


def body_type(operation: ApiOperation) -> type[msgspec.Struct] | None:
    """What stands in the body: the request without what stands in the path."""
    if operation.method in ("GET", "DELETE"):
        return None
    in_path = _NAMES.findall(operation.path)
    if not operation.request.__struct_fields__:
        return None
    if not in_path:
        return operation.request
    fields: list[Any] = [
        (each.name, each.type, _field(each))
        for each in msgspec.structs.fields(operation.request)
        if each.name not in in_path
    ]
    if not fields:
        return None
    return msgspec.defstruct(
        f"{operation.name.title().replace('_', '')}Body",
        fields,
        kw_only=True,
        forbid_unknown_fields=True,
        namespace={"__doc__": operation.request.__doc__, SOURCE: operation.request},
    )


def _field(info: msgspec.structs.FieldInfo) -> Any:
    if info.default is not msgspec.NODEFAULT:
        return msgspec.field(default=info.default)
    if info.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=info.default_factory)
    return msgspec.field()


def _described(operation: ApiOperation, body: Any, answer: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": " ".join(
            [operation.description, f"Roles: {', '.join(operation.roles)}."]
        ).strip(),
        "parameters": _parameters(operation),
        "responses": {
            str(operation.status): {
                "description": "Done.",
                "content": {"application/json": {"schema": answer}},
            },
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _PROBLEMS},
        },
    }
    if body is not None:
        required = any(
            field.required
            for field in msgspec.structs.fields(operation.request)
            if f"{{{field.name}}}" not in operation.path
        )
        described["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": body}},
        }
    return described


def _parameters(operation: ApiOperation) -> list[dict[str, Any]]:
    in_path = _NAMES.findall(operation.path)
    in_query = operation.method in ("GET", "DELETE")
    texts = field_descriptions(operation.request)
    found: list[dict[str, Any]] = [
        {
            "name": field.name,
            "in": "path" if field.name in in_path else "query",
            "required": field.name in in_path or field.required,
            "schema": _duration(field.name, _inline_schema(field.type)) | _default(field),
        }
        | ({"description": texts[field.name]} if field.name in texts else {})
        for field in msgspec.structs.fields(operation.request)
        if field.name in in_path or in_query
    ]
    if operation.name == "submit":
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            }
        )
    return found


def _default(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    """The default of a parameter; none is what a parameter is without one."""
    if field.default is msgspec.NODEFAULT or field.default is None:
        return {}
    return {"default": msgspec.to_builtins(field.default)}


def _let_durations_be_texts(schema: Any, components: dict[str, Any], seen: set[str]) -> None:
    """Say it of every duration in a body, and in the schemas it refers to."""
    if isinstance(schema, list):
        for each in schema:
            _let_durations_be_texts(each, components, seen)
    if not isinstance(schema, dict):
        return
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name and name not in seen:
        seen.add(name)
        _let_durations_be_texts(components[name], components, seen)
    fields = schema.get("properties", {})
    fields.update({key: _duration(key, value) for key, value in fields.items()})
    for value in (*fields.values(), schema.get("items"), schema.get("anyOf")):
        _let_durations_be_texts(value, components, seen)


def _duration(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field, which may be text with units if it is a duration."""
    if not name.endswith(ENDING):
        return schema
    about = {key: value for key, value in schema.items() if key in _ABOUT}
    number = {key: value for key, value in schema.items() if key not in _ABOUT}
    choices = number.get("anyOf", [number])
    # A body may refer to what another has referred to before.
    return schema if SCHEMA in choices else {**about, "anyOf": [*choices, SCHEMA]}


def _inline_schema(kind: Any) -> Any:
    """The schema of a parameter, in which nothing is referred to; null cannot be said in a URL."""
    schema, components = msgspec.json.schema_components([kind], ref_template=_REF)
    [found] = schema
    return _resolved(found, components)


def _resolved(schema: Any, components: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_resolved(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolved(components[schema["$ref"].rpartition("/")[2]], components)
    made = {name: _resolved(value, components) for name, value in schema.items()}
    choices = made.get("anyOf")
    if choices is not None:
        real = [each for each in choices if each != {"type": "null"}]
        if len(real) == 1:
            made.pop("anyOf")
            return made | real[0]
        made["anyOf"] = real
    return made


if __name__ == "__main__":
    sys.stdout.write(openapi_json().decode() + "\n")
