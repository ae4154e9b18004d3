"""The types of the operations as messages of a proto.

Types that proto knows are written in it; any other value (payloads, metadata, a command that is
text or a list) crosses as JSON text, in a field whose name ends in `_json`: exact in any case.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal, NamedTuple

from msgspec import inspect as types

from leasehold.core.model.changes import Changes
from leasehold.service.api import OPERATIONS
from leasehold.service.descriptions import description_of
from leasehold.service.operation import Request

Kind = Literal["string", "int64", "double", "bool", "moment", "number", "word", "json", "message"]
"""A `moment` is a Timestamp, a `number` a double that may be meant as an integer, a `word` a number
or a name, as text."""
Label = Literal["one", "optional", "repeated", "map"]

_SCALARS: Final[dict[type[types.Type], Kind]] = {
    types.StrType: "string",
    types.EnumType: "string",
    types.LiteralType: "string",
    types.IntType: "int64",
    types.FloatType: "double",
    types.BoolType: "bool",
    types.DateTimeType: "moment",
}
_CHOICES: Final = {"retry": "RetryPolicy", "settlements": "Settlement"}
"""The name of a choice of messages, where its field's own name would not do."""


class Field(NamedTuple):
    """A field of a message."""

    name: str
    key: str
    """Its name in JSON."""
    kind: Kind
    label: Label
    message: str | None = None
    """Which message it holds, if its kind is that."""
    is_required: bool = False


class Message(NamedTuple):
    """A message: a struct, or a choice of structs, each of which is a field of its `oneof`."""

    name: str
    text: str
    fields: tuple[Field, ...]
    tag: str | None = None
    """The key that says in JSON which of a choice it is."""
    struct: type | None = None
    """What it is made of, if that is one struct."""


class FollowChanges(Request):
    """Follow the changes in the store."""

    cursor: str | None = None
    """Continue after this cursor; without it, begin with new changes."""


@cache
def messages() -> dict[str, Message]:
    """Every message, by name, in the order in which they are met."""
    found: dict[str, Message] = {}
    for operation in OPERATIONS:
        for struct in (operation.request, operation.answer):
            _add(types.type_info(struct), found)
    for struct in (FollowChanges, Changes):
        _add(types.type_info(struct), found)
    return found


def _add(struct: Any, found: dict[str, Message]) -> str:
    name: str = struct.cls.__name__
    if name not in found:
        text = description_of(struct.cls.__doc__)
        found[name] = Message(name, text, ())  # it may hold itself
        fields = tuple(_field(each, found) for each in struct.fields)
        found[name] = Message(name, text, fields, struct=struct.cls)
    return name


def _field(field: types.Field, found: dict[str, Message]) -> Field:
    kind, is_optional = _without_none(field.type)
    label: Label = "optional" if is_optional or not field.required else "one"
    if isinstance(kind, types.ListType | types.VarTupleType):
        label, kind = "repeated", kind.item_type
    elif isinstance(kind, types.DictType):
        label, kind = "map", kind.value_type
    said, message = _single(kind, field.name, found)
    is_many = label in ("repeated", "map")
    if said == "json" or (is_many and (said == "word" or _without_none(kind)[1])):
        # Also where it must be there: null is left out, as everywhere.
        return Field(f"{field.name}_json", field.encode_name, "json", "optional")
    is_required = field.required and not is_optional
    return Field(field.name, field.encode_name, said, label, message, is_required)


def _single(kind: types.Type, name: str, found: dict[str, Message]) -> tuple[Kind, str | None]:
    """The kind of one value, and which message it is if it is one."""
    kind, _ = _without_none(kind)
    if isinstance(kind, types.StructType):
        return "message", _add(kind, found)
    if isinstance(kind, types.UnionType):
        members = kind.types
        if all(isinstance(each, types.StructType) for each in members):
            return "message", _add_choice(members, name, found)
        kinds = {type(each) for each in members}
        if kinds == {types.IntType, types.FloatType}:
            return "number", None
        if kinds == {types.IntType, types.LiteralType}:
            return "word", None
    return _SCALARS.get(type(kind), "json"), None


def _add_choice(members: tuple[Any, ...], name: str, found: dict[str, Message]) -> str:
    choice = _CHOICES.get(name, name.title())
    if choice not in found:
        arms = tuple(
            Field(str(each.tag), str(each.tag), "message", "one", _add(each, found))
            for each in members
        )
        found[choice] = Message(choice, "One of these.", arms, members[0].tag_field)
    return choice


def _without_none(kind: types.Type) -> tuple[types.Type, bool]:
    """A type without its bounds and without None, and whether it had that."""
    while isinstance(kind, types.Metadata):
        kind = kind.type
    if not isinstance(kind, types.UnionType):
        return kind, False
    rest = tuple(each for each in kind.types if not isinstance(each, types.NoneType))
    is_optional = len(rest) < len(kind.types)
    if len(rest) == 1:
        return _without_none(rest[0])[0], is_optional
    return types.UnionType(rest), is_optional


def method_name(operation: str) -> str:
    """An operation's name as that of a method.

    >>> method_name("submit_batch")
    'SubmitBatch'
    """
    return operation.title().replace("_", "")
