"""The proto in the repository says what the server speaks, and numbers are never given twice."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import grpc_tools
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from leasehold.service.grpc import text
from leasehold.service.grpc.descriptors import file_descriptor
from leasehold.service.grpc.schema import Field, Message


def test_the_file_is_up_to_date() -> None:
    written = files("leasehold.service.grpc").joinpath(text.FILE).read_text()
    assert text.proto_text(text.numbers()) == written, (
        "run `python -m leasehold.service.grpc.text`, and look at what it changes"
    )


def test_no_comment_holds_python() -> None:
    assert ">>>" not in text.proto_text(text.numbers())


def test_protoc_reads_it_as_the_server_does(tmp_path: Path) -> None:
    place = tmp_path / "leasehold" / "v1" / text.FILE
    place.parent.mkdir(parents=True)
    place.write_text(text.proto_text(text.numbers()))
    made = tmp_path / "descriptors"
    known = Path(grpc_tools.__file__).with_name("_proto")
    arguments = ["protoc", f"-I{tmp_path}", f"-I{known}", f"--descriptor_set_out={made}"]
    assert protoc.main([*arguments, f"leasehold/v1/{text.FILE}"]) == 0
    [theirs] = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    for message in theirs.message_type:
        for each in (message, *message.nested_type):
            for field in each.field:
                field.ClearField("json_name")  # follows from the name
    assert theirs == file_descriptor()


def test_a_field_keeps_its_number_for_good() -> None:
    fields = [Field(name, name, "string", "one") for name in ("new", "b", "newer")]
    known = text._numbers_in("message M {\n  reserved 1;\n  string a = 2;\n  string b = 3;\n}\n")
    written = text._message(Message("M", "", tuple(fields)), known["M"])
    assert written.splitlines()[1:-1] == [
        "  reserved 1, 2;",
        "  string new = 4;",
        "  string b = 3;",
        "  string newer = 5;",
    ]
    assert set(text._numbers_in(written)["M"].values()) == {1, 2, 3, 4, 5}
