"""The proto's descriptors and message classes, made from the types and the numbers in the file."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)

from leasehold.core.contract.wire import STREAMED, VERBS
from leasehold.service.api import OPERATIONS
from leasehold.service.grpc.schema import Field, Message, messages, method_name
from leasehold.service.grpc.text import FILE, PACKAGE, numbered, numbers

_Type = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    "string": _Type.TYPE_STRING,
    "word": _Type.TYPE_STRING,
    "json": _Type.TYPE_STRING,
    "int64": _Type.TYPE_INT64,
    "double": _Type.TYPE_DOUBLE,
    "number": _Type.TYPE_DOUBLE,
    "bool": _Type.TYPE_BOOL,
}


def file_descriptor() -> descriptor_pb2.FileDescriptorProto:
    """The file as protoc would read it."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"leasehold/v1/{FILE}",
        package=PACKAGE,
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"],
    )
    for message in messages().values():
        _describe(message, file.message_type.add(name=message.name))
    service = file.service.add(name="Leasehold")
    for each in OPERATIONS:
        _method(service, method_name(each.name), each.request.__name__, each.answer.__name__)
    _method(service, "Events", "FollowChanges", "Changes").server_streaming = True
    store = file.service.add(name="Store")
    for verb in VERBS:
        made = store.method.add(name=method_name(verb))
        made.input_type = made.output_type = ".google.protobuf.BytesValue"
        if verb in STREAMED:
            made.client_streaming = made.server_streaming = True
    return file


def _method(service: Any, name: str, asked: str, answered: str) -> Any:
    return service.method.add(
        name=name, input_type=f".{PACKAGE}.{asked}", output_type=f".{PACKAGE}.{answered}"
    )


def _describe(message: Message, descriptor: Any) -> None:
    known = numbers().get(message.name, {})
    mine = numbered(message, known)
    for gone in sorted(set(known.values()) - set(mine.values())):
        descriptor.reserved_range.add(start=gone, end=gone + 1)
    if message.tag is not None:
        descriptor.oneof_decl.add(name=message.tag)
    for field in message.fields:
        made = descriptor.field.add(
            name=field.name, number=mine[field.name], label=_Type.LABEL_OPTIONAL
        )
        if message.tag is not None:
            made.oneof_index = 0
        if field.label == "map":
            _map(message, field, made, descriptor)
        else:
            _type(field, made)
            if field.label == "repeated":
                made.label = _Type.LABEL_REPEATED
    for field, made in zip(message.fields, descriptor.field, strict=True):
        if field.label == "optional" and field.kind not in ("message", "moment"):
            made.proto3_optional = True
            made.oneof_index = len(descriptor.oneof_decl)
            descriptor.oneof_decl.add(name=f"_{field.name}")


def _type(field: Field, made: Any) -> None:
    if field.kind == "message":
        made.type, made.type_name = _Type.TYPE_MESSAGE, f".{PACKAGE}.{field.message}"
    elif field.kind == "moment":
        made.type, made.type_name = _Type.TYPE_MESSAGE, ".google.protobuf.Timestamp"
    else:
        made.type = _TYPES[field.kind]


def _map(message: Message, field: Field, made: Any, descriptor: Any) -> None:
    """A map is a list of entries, by protoc's rules."""
    entry = descriptor.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    optional = _Type.LABEL_OPTIONAL
    entry.field.add(name="key", number=1, type=_Type.TYPE_STRING, label=optional)
    _type(field, entry.field.add(name="value", number=2, label=optional))
    made.type, made.label = _Type.TYPE_MESSAGE, _Type.LABEL_REPEATED
    made.type_name = f".{PACKAGE}.{message.name}.{entry.name}"


@cache
def pool() -> descriptor_pool.DescriptorPool:
    """A pool of our own: programs with classes made from the proto have them in the common one."""
    pool = descriptor_pool.DescriptorPool()
    for used in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(used.DESCRIPTOR.serialized_pb)
    pool.Add(file_descriptor())
    return pool


@cache
def message_class(name: str) -> Any:
    """The class of a message."""
    descriptor = pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)
