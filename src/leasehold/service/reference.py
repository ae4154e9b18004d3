"""The API reference as a page, made from the OpenAPI document: docs/http-api.md.

python -m leasehold.service.reference > docs/http-api.md
"""

from __future__ import annotations

import json
import sys
from typing import Any

from leasehold.service.openapi import openapi_document

_HEAD = """\
# HTTP API reference

This page covers every operation of [the service](service.md), made from
[openapi.json](openapi.json): the fields of its request, with their types and defaults, and its
answer. A field with a default may be left out. Errors are [problems](service.md#errors). The same
operations over gRPC are in [the proto](../src/leasehold/service/grpc/leasehold.proto).
"""
_END = "Next: [security](security.md)."


def reference() -> str:
    """The whole page."""
    document = openapi_document()
    schemas = document["components"]["schemas"]
    parts = [_HEAD, _contents(document)]
    for path, methods in document["paths"].items():
        parts += [
            _operation(method, path, told, schemas)
            for method, told in methods.items()
            if "requestBody" in told or "parameters" in told
        ]
    parts.append("## Types\n\nThe types of the fields above.")
    parts += [
        f"### Type {name}\n\n{_said(schema)}{_table(schema) or _type(schema)}"
        for name, schema in sorted(schemas.items())
    ]
    parts.append(_END)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _contents(document: dict[str, Any]) -> str:
    lines = ["| operation | |", "| --- | --- |"]
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            name = told["operationId"]
            lines.append(f"| [`{method.upper()} {path}`](#{name}) | {told['summary']} |")
    return "\n".join(lines)


def _operation(method: str, path: str, told: dict[str, Any], schemas: dict[str, Any]) -> str:
    name = told["operationId"]
    parts = [f"## {name}", f"`{method.upper()} {path}`", f"{_sentence(told['summary'])}"]
    parts.append(told["description"])
    parameters = told.get("parameters", [])
    if parameters:
        rows = [
            (
                each["name"],
                f"{_type(each['schema'])}, in the {each['in']}",
                each["required"],
                each["schema"].get("default"),
                each.get("description", ""),
            )
            for each in parameters
        ]
        parts.append(_rows(rows))
    body = told.get("requestBody")
    if body is not None:
        schema = _resolved(body["content"]["application/json"]["schema"], schemas)
        parts.append(_table(schema))
    answer = next(iter(told["responses"].values()))
    content = answer["content"].get("application/json")
    if content is not None:
        parts.append(f"Answer: {_type(content['schema'])}.")
    return "\n\n".join(part for part in parts if part)


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    resolved: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]]
    return resolved


def _table(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        (name, _type(each), name in required, each.get("default"), each.get("description", ""))
        for name, each in schema.get("properties", {}).items()
    ]
    return _rows(rows) if rows else ""


def _rows(rows: list[tuple[str, str, bool, Any, str]]) -> str:
    lines = ["| field | type | |", "| --- | --- | --- |"]
    for name, kind, is_required, default, text in rows:
        notes = ["required"] if is_required else []
        if default not in (None, {}, [], ()):
            notes = [f"default `{json.dumps(default)}`"]
        notes += [text.replace("|", "\\|")] if text else []
        lines.append(f"| `{name}` | {kind} | {'. '.join(notes)} |")
    return "\n".join(lines)


def _type(schema: Any) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#type-{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        return "object"
    words = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}
    said = words.get(kind, "null" if kind == "null" else "any JSON")
    if schema.get("format") == "date-time":
        said = "moment"
    bounds = [
        f"{sign} {schema[key]}"
        for key, sign in (
            ("minimum", "≥"),
            ("exclusiveMinimum", ">"),
            ("maximum", "≤"),
            ("exclusiveMaximum", "<"),
        )
        if key in schema
    ]
    return f"{said} ({', '.join(bounds)})" if bounds else said


def _said(schema: dict[str, Any]) -> str:
    text = " ".join(schema.get("description", "").split())
    return f"{text}\n\n" if text else ""


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


if __name__ == "__main__":
    sys.stdout.write(reference())
