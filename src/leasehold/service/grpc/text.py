"""The proto as text: what clients of other languages are made from, and where numbers are kept.

The file is written by `python -m leasehold.service.grpc.text`. A field keeps the number that it has
there for good: a new field gets the next, and the number of a removed one is not used again.
"""

from __future__ import annotations

import re
import sys
import textwrap
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from leasehold.core.contract.wire import STREAMED, VERBS
from leasehold.service.api import OPERATIONS
from leasehold.service.descriptions import field_descriptions
from leasehold.service.grpc.schema import Field, Message, messages, method_name

PACKAGE: Final = "leasehold.v1"
SERVICE: Final = f"{PACKAGE}.Leasehold"
STORE_SERVICE: Final = f"{PACKAGE}.Store"
FILE: Final = "leasehold.proto"

_TYPES: Final = {"moment": "google.protobuf.Timestamp", "number": "double", "word": "string"} | {
    "json": "string"
}
_MESSAGE: Final = re.compile(r"^message (\w+) \{")
_NUMBERED: Final = re.compile(r"(\w+) = (\d+);$")
_RESERVED: Final = re.compile(r"^  reserved ([\d, ]+);")

_HEAD: Final = f"""\
// Leasehold over gRPC: background jobs for other machines and other languages.
//
// Every call carries a token in its metadata: `authorization: Bearer lh_...`. grpc.health.v1
// needs none; reflection does.
//
// A field whose name ends in `_json` is JSON text: arguments, payloads, results, metadata. A list
// that is empty is the same as one that is not there.
//
// A refused call has a status, and in its details (google.rpc.ErrorInfo) the stable code of the
// error as `reason`, with what else it carries as JSON text in `metadata["fields"]`; a
// google.rpc.RetryInfo says when to try again.
//
// This file is made from the types of the operations:
// python -m leasehold.service.grpc.text

syntax = "proto3";

package {PACKAGE};

import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
"""

_EVENTS: Final = """\
  // Follow the changes in the store: the changes since the message before, and the cursor after
  // them. With `gap`, something was missed: read everything again. Roles: operator,
  // observer.
  rpc Events(leasehold.v1.FollowChanges) returns (stream leasehold.v1.Changes);"""

Numbers = dict[str, dict[str, int]]


@cache
def numbers() -> Numbers:
    """The numbers of the fields of each message, as the file that is shipped has them."""
    return _numbers_in(files(__package__).joinpath(FILE).read_text())


def _numbers_in(text: str) -> Numbers:
    """By message and field; reserved ones have no name, only "reserved N"."""
    found: Numbers = {}
    here: dict[str, int] = {}
    for line in text.splitlines():
        if message := _MESSAGE.match(line):
            here = found.setdefault(message[1], {})
        elif reserved := _RESERVED.match(line):
            here.update({f"reserved {each}": int(each) for each in reserved[1].split(", ")})
        elif numbered := _NUMBERED.search(line):
            here[numbered[1]] = int(numbered[2])
    return found


def proto_text(known: Numbers) -> str:
    """The whole file, in which fields that had numbers keep them."""
    parts = [_HEAD, _service(), _store_service()]
    parts += [_message(each, known.get(each.name, {})) for each in messages().values()]
    return "\n".join([parts[0], "\n\n".join(parts[1:])]) + "\n"


def _service() -> str:
    lines = ["// Every operation of the service.", "service Leasehold {"]
    for each in OPERATIONS:
        said = f"{each.summary}. {each.description} Roles: {', '.join(each.roles)}."
        lines += _comment(" ".join(said.split()), "  ")
        # Some methods are called like a message: its full name says which is meant.
        asked, answer = (f"{PACKAGE}.{kind.__name__}" for kind in (each.request, each.answer))
        lines.append(f"  rpc {method_name(each.name)}({asked}) returns ({answer});")
    return "\n".join([*lines, _EVENTS, "}"])


def _store_service() -> str:
    said = (
        "The store itself, for Leasehold's own client, `grpc://` URLs: the verbs of the store "
        "contract, their arguments and answers in MessagePack, made from the signatures in "
        "core/contract/store.py. A stream carries any number of calls of its verb, one after "
        "another: a message, its answer, the next message. Other clients use the service above."
    )
    lines = [*_comment(said, ""), "service Store {"]
    for verb in VERBS:
        carried = f"{'stream ' if verb in STREAMED else ''}google.protobuf.BytesValue"
        lines.append(f"  rpc {method_name(verb)}({carried}) returns ({carried});")
    return "\n".join([*lines, "}"])


def _message(message: Message, known: dict[str, int]) -> str:
    lines = [*_comment(message.text, ""), f"message {message.name} {{"]
    mine = numbered(message, known)
    gone = sorted(set(known.values()) - set(mine.values()))
    if gone:
        lines.append(f"  reserved {', '.join(map(str, gone))};")
    if message.tag is None:
        texts = {} if message.struct is None else field_descriptions(message.struct)
        for each in message.fields:
            lines += _comment(texts.get(each.key, ""), "  ")
            lines.append(f"  {_declared(each)} {each.name} = {mine[each.name]};")
    else:
        lines.append(f"  oneof {message.tag} {{")
        lines += [f"    {each.message} {each.name} = {mine[each.name]};" for each in message.fields]
        lines.append("  }")
    return "\n".join([*lines, "}"])


def numbered(message: Message, known: dict[str, int]) -> dict[str, int]:
    """The number of each field."""
    last = max(known.values(), default=0)
    made = {}
    for field in message.fields:
        if field.name not in known:
            last += 1
        made[field.name] = known.get(field.name, last)
    return made


def _declared(field: Field) -> str:
    kind = field.message or _TYPES.get(field.kind, field.kind)
    match field.label:
        case "repeated":
            return f"repeated {kind}"
        case "map":
            return f"map<string, {kind}>"
        case "optional" if field.kind not in ("message", "moment"):
            return f"optional {kind}"
    return kind


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}// {line}" for line in textwrap.wrap(" ".join(text.split()), 96)]


if __name__ == "__main__":
    place = Path(__file__).with_name(FILE)
    old = _numbers_in(place.read_text()) if place.exists() else {}
    place.write_text(proto_text(old))
    sys.stdout.write(f"{place}\n")
