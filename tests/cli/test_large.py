"""Payloads and results kept as blobs, from the command line."""

from __future__ import annotations

import json
import shutil

import pytest

from cli.conftest import Shell
from cli.seed import run_here, store_of
from leasehold.blobs import folder
from leasehold.cli.exits import Exit

LARGE = "x" * 400_000


@pytest.fixture
def large(shell: Shell) -> Shell:
    """A job with a large payload that is completed, with a large result."""
    line = json.dumps({"id": "large", "task": "t", "payload": {"text": LARGE}})
    assert shell.ok("enqueue", "--file", "-", stdin=line).out == "submitted 1 job\n"
    with store_of(shell) as queue:
        lease = queue.lease()
        assert lease is not None
        queue.ack(lease, {"copy": LARGE})
    return shell


def test_show_and_wait_fetch_them(large: Shell) -> None:
    job = large.ok("show", "lar", "-o", "json").json["job"]
    assert (job["payload"], job["result"]) == ({"text": LARGE}, {"copy": LARGE})
    [waited] = run_here(large, "wait", "large", "-o", "jsonl").jsonl
    assert waited["result"] == {"copy": LARGE}
    people = run_here(large, "show", "large").out
    assert '"text": "xxx' in people
    assert "400,016 characters in all: -o json has them" in people
    assert len(people) < 10_000


def test_a_list_never_fetches_them(large: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*_: object) -> bytes:
        raise AssertionError("a list must not read blobs")

    monkeypatch.setattr(folder.FolderBlobs, "get", get)
    [job] = run_here(large, "list", "-o", "json").json
    assert (job["id"], job["payload"], job["result"]) == ("large", None, None)
    assert run_here(large, "wait", "large").code == Exit.OK, "its table shows no result"


def test_what_is_gone_is_said_and_the_rest_shown(large: Shell) -> None:
    [blobs] = [each for each in large.folder.iterdir() if each.name.endswith("blobs")]
    shutil.rmtree(blobs)
    done = run_here(large, "show", "large", "-o", "json")
    assert done.code == Exit.OK
    assert (done.json["job"]["id"], done.json["job"]["payload"]) == ("large", None)
    assert "the payload of job large cannot be read" in done.err
