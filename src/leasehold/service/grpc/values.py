"""Between messages of the proto and the values that JSON has, which the operations know."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from leasehold.errors import InvalidRequestError
from leasehold.service.grpc.descriptors import message_class
from leasehold.service.grpc.schema import Field, messages
from leasehold.service.json_in import decode_json


def parsed(name: str, body: bytes) -> Any:
    """The message in a request's body; raises InvalidRequestError for any other bytes."""
    try:
        return message_class(name).FromString(body)
    except (DecodeError, ValueError) as error:
        raise InvalidRequestError(f"this is not a {name} of the proto: {error}") from None


def value_of(name: str, message: Any) -> dict[str, Any]:
    """A message as JSON data; raises InvalidRequestError."""
    shape = messages()[name]
    if shape.tag is not None:
        which = message.WhichOneof(shape.tag)
        if which is None:
            raise InvalidRequestError(f"a {name} is empty: set one of its fields")
        [arm] = [each for each in shape.fields if each.name == which]
        return {shape.tag: arm.key, **_single_value(arm, getattr(message, which))}
    made: dict[str, Any] = {}
    for field in shape.fields:
        given = getattr(message, field.name)
        if field.label == "map":
            if given or field.is_required:
                made[field.key] = {key: _single_value(field, given[key]) for key in given}
        elif field.label == "repeated":
            if given or field.is_required:
                made[field.key] = [_single_value(field, each) for each in given]
        elif not _has_presence(field) or message.HasField(field.name):
            made[field.key] = _single_value(field, given)
    return made


def _has_presence(field: Field) -> bool:
    return field.label == "optional" or field.kind in ("message", "moment")


def _single_value(field: Field, value: Any) -> Any:
    match field.kind:
        case "message":
            assert field.message is not None
            return value_of(field.message, value)
        case "json":
            return decode_json(value.encode())
        case "moment":
            return _moment(value)
        case "double" | "number":
            if not math.isfinite(value):
                raise InvalidRequestError(f"{field.name} is {value}, which is not a number in JSON")
            return int(value) if field.kind == "number" and value.is_integer() else value
        case "word" if value.isascii() and value.isdecimal() and len(value) <= 9:
            return int(value)
    return value


def _moment(stamp: Any) -> datetime:
    try:
        at: datetime = stamp.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(f"a Timestamp is out of range: {error}") from None
    return at


def message_of(name: str, value: dict[str, Any]) -> Any:
    """The message with the contents of a JSON object."""
    message = message_class(name)()
    _fill(name, value, message)
    return message


def _fill(name: str, value: dict[str, Any], message: Any) -> None:
    shape = messages()[name]
    if shape.tag is not None:
        [arm] = [each for each in shape.fields if each.key == value[shape.tag]]
        _put(arm, value, message)
        return
    for field in shape.fields:
        if (given := value.get(field.key)) is None:
            continue
        place = getattr(message, field.name)
        if field.label == "map":
            for key, each in given.items():
                if field.kind in ("message", "moment"):
                    _into(field, each, place[key])
                else:
                    place[key] = _scalar(field, each)
        elif field.label == "repeated":
            for each in given:
                if field.kind in ("message", "moment"):
                    _into(field, each, place.add())
                else:
                    place.append(_scalar(field, each))
        else:
            _put(field, given, message)


def _put(field: Field, given: Any, message: Any) -> None:
    if field.kind in ("message", "moment"):
        place = getattr(message, field.name)
        place.SetInParent()
        _into(field, given, place)
    else:
        setattr(message, field.name, _scalar(field, given))


def _into(field: Field, given: Any, place: Any) -> None:
    if field.kind == "moment":
        place.FromDatetime(datetime.fromisoformat(given))
    else:
        assert field.message is not None
        _fill(field.message, given, place)


def _scalar(field: Field, given: Any) -> Any:
    if field.kind == "json":
        return msgspec.json.encode(given).decode()
    return str(given) if field.kind == "word" else given
