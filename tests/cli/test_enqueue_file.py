"""`enqueue --file`: JSON lines, all or nothing or each by itself."""

from __future__ import annotations

import json

import pytest

from cli.conftest import Shell
from cli.seed import run_here
from cli.test_enqueue import payloads
from leasehold.cli import intake
from leasehold.cli.exits import Exit
from leasehold.cli.jobdocument import FIELDS
from leasehold.core.model.phrases import listed

GOOD = '{"id": "a", "command": "echo a"}'
ALSO_GOOD = '{"task": "t", "payload": null}'
MADE = "created a new store: leasehold.db"
BAD = ("not json", '{"command": "a", "colour": 1}', '{"task": "t", "max_retries": -1}', GOOD)


def test_every_line_is_stored_with_the_options_it_leaves_out(shell: Shell) -> None:
    done = shell.ok("enqueue", "--file", "-", "--queue", "bulk", stdin=f"{GOOD}\n\n  \n{ALSO_GOOD}")
    assert (done.out, done.err) == ("submitted 2 jobs\n", f"{MADE}\n")
    assert payloads(shell) == [{"shell": "echo a"}, None]
    assert shell.ok("status", "-o", "json").json["queues"][0]["queue"] == "bulk"


def test_one_bad_line_and_nothing_is_stored(shell: Shell) -> None:
    done = shell.run("enqueue", "--file", "-", stdin="\n".join((GOOD, *BAD, ALSO_GOOD)))
    assert done.code == Exit.USAGE
    assert done.out == ""
    assert done.err.splitlines() == [
        MADE,
        "line 2: the job is not JSON: Expecting value: line 1 column 1 (char 0)",
        f"line 3: unknown field 'colour'; there are {listed(FIELDS)}",
        "line 4: max_retries must be a whole number from 0 (never) to 1,000,000, not -1",
        "line 5: line 1 has the id 'a', too",
        "4 bad lines: nothing was stored",
    ]
    assert payloads(shell) == []


def test_a_clash_with_the_store_stores_nothing_either(shell: Shell) -> None:
    shell.ok("enqueue", GOOD)
    done = shell.run("enqueue", "--file", "-", stdin=f"{ALSO_GOOD}\n{GOOD}\n")
    assert done.code == Exit.CONFLICT
    assert done.err.splitlines() == [
        "leasehold: line 2: the id 'a' is taken",
        "nothing was stored",
    ]
    assert len(payloads(shell)) == 1


def test_a_dependency_that_is_not_there_is_named_with_its_line(shell: Shell) -> None:
    shell.ok("enqueue", GOOD)
    lines = (
        '{"task": "t", "depends_on": ["a", "b"]}',
        '{"id": "b", "task": "t", "depends_on": "nobody"}',
    )
    done = shell.run("enqueue", "--file", "-", stdin="\n".join(lines))
    assert done.code == Exit.NOT_FOUND
    assert done.err.splitlines() == [
        "leasehold: line 2: there is no job 'nobody' to depend on",
        "nothing was stored",
    ]
    assert len(payloads(shell)) == 1


def test_a_line_without_end_does_not_fill_the_memory_nor_hide_the_next(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "LINE_BYTES_MAX", 64)
    (shell.folder / "jobs.jsonl").write_text("x" * 1000 + f"\n{GOOD}\n")
    done = run_here(shell, "enqueue", "--file", "jobs.jsonl", "--partial")
    assert done.code == Exit.PARTIAL
    assert "line 1: a line has at most 64 bytes" in done.err
    assert len(payloads(shell)) == 1


def test_partial_stores_the_good_lines_and_reports_each(shell: Shell) -> None:
    text = "\n".join((GOOD, *BAD, ALSO_GOOD))
    done = shell.run("enqueue", "--file", "-", "--partial", "-o", "jsonl", stdin=text)
    assert done.code == Exit.PARTIAL
    assert [list(document) for document in done.jsonl] == [
        ["line", "id", "is_duplicate", "error"]
    ] * 6
    assert [(each["line"], each["error"] is None) for each in done.jsonl] == [
        (1, True),
        (2, False),
        (3, False),
        (4, False),
        (5, False),
        (6, True),
    ]
    assert done.jsonl[0]["id"] == "a"
    assert len(payloads(shell)) == 2
    again = shell.run("enqueue", "--file", "-", "--partial", stdin=GOOD)
    assert again.code == Exit.FAILURE
    assert "already exists" in again.err


def test_lines_may_depend_on_each_other_in_any_order(shell: Shell) -> None:
    second = '{"id": "second", "task": "t", "depends_on": "first"}'
    shell.ok("enqueue", "--file", "-", stdin=f'{second}\n{{"id": "first", "task": "t"}}')
    assert shell.ok("status", "-o", "json").json["jobs"]["blocked"] == 1


def test_thousands_of_lines_with_known_keys(shell: Shell) -> None:
    lines = [json.dumps({"task": "t", "args": [n], "idempotency_key": str(n)}) for n in range(2500)]
    assert shell.ok("enqueue", "--file", "-", "--partial", stdin="\n".join(lines)).out == (
        "submitted 2,500 jobs\n"
    )
    assert shell.ok("enqueue", "--file", "-", stdin="\n".join(lines[:3])).out == (
        "submitted 3 jobs, 3 of them known by their keys\n"
    )


def test_only_so_many_errors_are_shown(shell: Shell) -> None:
    done = shell.run("enqueue", "--file", "-", stdin="\x1b]0;pwned\x07\n" * 50)
    assert len(done.err.splitlines()) == 23
    assert "... and 30 more" in done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    "arguments", [["--wait"], ["--id", "x"], ["--command", "x"], ["--", "ls"], ["--task", "x"]]
)
def test_a_file_brings_its_own_jobs(shell: Shell, arguments: list[str]) -> None:
    assert shell.run("enqueue", "--file", "-", *arguments, stdin=GOOD).code == Exit.USAGE
    assert not (shell.folder / "leasehold.db").exists()
