"""Whatever is sent over gRPC, the answer says what is wrong with it: never INTERNAL."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import grpc
import pytest

from leasehold.connect import connect
from leasehold.core.contract.wire import VERBS
from leasehold.service.api import OPERATIONS
from leasehold.service.grpc.descriptors import message_class
from leasehold.service.grpc.schema import Field, messages, method_name
from leasehold.service.grpc.text import SERVICE, STORE_SERVICE
from service.conftest import serving

WAIT = 60.0
OUR_FAULT = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNAVAILABLE,
}
TEXTS = ("", "x", "ü\x00", "a" * 5000, "null", "[", "[" * 100, '{"a": 1e999}', '"\\ud800"', "-1")
NUMBERS = (0.0, -1.0, 1e308, float("nan"), float("inf"), 0.5)
INTEGERS = (0, 1, -1, 2**53, 2**63 - 1, -(2**63))
STAMPS = ((0, 0), (2**62, 0), (-(2**62), 5), (1, -1), (1, 2_000_000_000))
ROUNDS = 4


@pytest.fixture(scope="module")
def channel() -> Iterator[grpc.Channel]:
    store = connect("memory://")
    with (
        serving(store, insecure=True, grpc_port=0) as service,
        grpc.insecure_channel(service.grpc_url.partition("://")[2]) as channel,
    ):
        yield channel
    store.close()


def fault_of(channel: grpc.Channel, path: str, body: bytes) -> str | None:
    try:
        channel.unary_unary(path)(body, timeout=WAIT)
    except grpc.RpcError as error:
        if error.code() in OUR_FAULT:
            return f"{path} {body[:200]!r}: {error.code()} {error.details()}"
    return None


def any_message(name: str, random: Random, depth: int = 0) -> Any:
    """A message that the proto allows, whatever it makes of its fields."""
    message = message_class(name)()
    for field in messages()[name].fields:
        if random.random() < 0.5 or depth > 3:
            continue
        place = getattr(message, field.name)
        if field.label == "map":
            for key in random.sample(TEXTS, 2):
                if field.kind in ("message", "moment"):
                    place[key].MergeFrom(any_value(field, random, depth))
                else:
                    place[key] = any_value(field, random, depth)
        elif field.label == "repeated":
            place.extend(any_value(field, random, depth) for _ in range(random.randint(1, 3)))
        elif field.kind in ("message", "moment"):
            place.CopyFrom(any_value(field, random, depth))
        elif field.name == "wait_seconds":
            message.wait_seconds = random.choice([0.0, -1.0, float("nan")])
        else:
            setattr(message, field.name, any_value(field, random, depth))
    return message


def any_value(field: Field, random: Random, depth: int) -> Any:
    match field.kind:
        case "message":
            assert field.message is not None
            return any_message(field.message, random, depth + 1)
        case "moment":
            stamp = message_class("Change").DESCRIPTOR.file.pool.FindMessageTypeByName(
                "google.protobuf.Timestamp"
            )
            seconds, nanos = random.choice(STAMPS)
            return stamp._concrete_class(seconds=seconds, nanos=nanos)
        case "int64":
            return random.choice(INTEGERS)
        case "double" | "number":
            return random.choice(NUMBERS)
        case "bool":
            return random.random() < 0.5
    return random.choice(TEXTS)


def test_messages_of_any_content(channel: grpc.Channel) -> None:
    random = Random(1)
    faults = []
    for operation in OPERATIONS:
        for _ in range(ROUNDS):
            message = any_message(operation.request.__name__, random)
            if operation.waits and hasattr(message, "wait_seconds"):
                message.wait_seconds = message.wait_seconds or 0.0  # 20 s unless it is said
            path = f"/{SERVICE}/{method_name(operation.name)}"
            faults.append(fault_of(channel, path, message.SerializeToString()))
    assert list(filter(None, faults)) == []


def test_bytes_that_are_no_message(channel: grpc.Channel) -> None:
    random = Random(2)
    faults = []
    paths = [
        f"/{SERVICE}/{method_name(each.name)}"
        for each in OPERATIONS
        if each.name not in ("lease", "exchange")  # which are good without anything, and wait
    ]
    paths += [f"/{STORE_SERVICE}/{method_name(verb)}" for verb in VERBS]
    for path in paths:
        # The last is a BytesValue, and any other message that begins with a text.
        bodies = (random.randbytes(1), random.randbytes(40), b"\n\x04" + random.randbytes(4))
        faults += [fault_of(channel, path, body) for body in bodies]
    assert list(filter(None, faults)) == []
