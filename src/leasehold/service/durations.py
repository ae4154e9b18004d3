"""Durations as people write them in a request: `"timeout_seconds": "5m"` means 300.

Every field whose name ends in `_seconds` takes text with units in place of a number.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import inspect as types

from leasehold.core.model.durations import read_seconds

ENDING: Final = "_seconds"
SCHEMA: Final = {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+$"}
"""The OpenAPI document's description of such a text."""


def with_seconds(value: Any, kind: types.Type) -> Any:
    """A request with its durations as numbers; any other value is left to be refused.

    Only values of our own types are looked at: payloads and metadata are their owners'.
    """
    while isinstance(kind, types.Metadata):
        kind = kind.type
    if isinstance(kind, types.UnionType):
        for each in kind.types:
            value = with_seconds(value, each)
        return value
    if isinstance(value, list) and isinstance(kind, types.ListType | types.VarTupleType):
        return [with_seconds(each, kind.item_type) for each in value]
    if not (isinstance(value, dict) and isinstance(kind, types.StructType)):
        return value
    made = dict(value)
    for field in kind.fields:
        name = field.encode_name
        if name in made:
            given = made[name]
            is_text = name.endswith(ENDING) and isinstance(given, str)
            made[name] = read_seconds(given) if is_text else with_seconds(given, field.type)
    return made
