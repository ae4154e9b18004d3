"""`enqueue`: commands, tasks, documents; what is refused, and with which exit code."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import Shell
from leasehold import LeaseholdError, TaskQueue
from leasehold.cli.exits import Exit
from leasehold.cli.jobdocument import FIELDS, read_document
from leasehold.cli.main import run


def payloads(shell: Shell) -> list[object]:
    """What is in the store, first submitted first."""
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        return [job.payload for job in queue.search()][::-1]


def test_a_shell_string_and_an_argument_list_stay_what_they_are(shell: Shell) -> None:
    done = shell.ok("enqueue", "--command", "echo $HOME | wc -c")
    shell.ok("enqueue", "--", "echo", "$HOME; rm -rf /", "--help", "{}")
    assert payloads(shell) == [
        {"shell": "echo $HOME | wc -c"},
        {"argv": ["echo", "$HOME; rm -rf /", "--help", "{}"]},
    ]
    # One line on standard output: the id, so that a script can keep it.
    assert len(done.out.strip()) == 36
    assert done.out.count("\n") == 1
    assert done.err == "created a new store: leasehold.db\n"


def test_every_option_reaches_the_job(shell: Shell) -> None:
    shell.ok("enqueue", "--id", "first", "--task", "first")
    shell.ok(
        *("enqueue", "--task", "pkg.mod:send", "--args", '["a@b.c"]', "--kwargs", '{"n": 1}'),
        *("--id", "job", "--queue", "mail", "--priority", "high", "--max-retries", "5"),
        *("--timeout", "10", "--delay", "1h", "--deadline", "2040-01-01T00:00Z"),
        *("--start-within", "2d", "--result-ttl", "10m", "--key", "k", "--depends-on", "first"),
        *("--on-dependency-failure", "ignore", "--meta", "tenant=acme", "--meta", "n=3"),
        *("--parent", "group"),
        *("--limit-key", "acme"),
    )
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        job = queue.get("job")
    assert (job.task, job.queue, job.priority, job.max_retries) == ("pkg.mod:send", "mail", 75, 5)
    assert job.payload == {"args": ["a@b.c"], "kwargs": {"n": 1}}
    assert (job.timeout_seconds, job.result_ttl_seconds) == (10, 600)
    assert (job.run_at - job.created_at).total_seconds() == 3600
    assert job.deadline is not None
    assert job.deadline.isoformat() == "2040-01-01T00:00:00+00:00"
    assert job.start_by is not None
    assert (job.start_by - job.created_at).total_seconds() == 2 * 86_400
    assert (job.idempotency_key, job.depends_on) == ("k", ("first",))
    assert (job.on_dependency_failure, job.parent_id) == ("ignore", "group")
    assert job.limit_key == "acme"
    assert job.metadata == {"tenant": "acme", "n": 3}


def test_options_of_commands_reach_the_program(shell: Shell) -> None:
    shell.ok(
        "enqueue", "--cwd", ".", "--env", "A=1", "--env", "B=x=y", "--stdin", "in", "--", "cat"
    )
    [payload] = payloads(shell)
    assert payload == {
        "argv": ["cat"],
        "cwd": str(shell.folder.resolve()),
        "env": {"A": "1", "B": "x=y"},
        "stdin": "in",
    }


def test_a_document_and_options_that_fill_in_what_it_does_not_say(shell: Shell) -> None:
    document = {"id": "job1", "command": "echo hi", "priority": "low", "delay": "10m"}
    done = shell.ok(
        "enqueue", json.dumps(document), "--priority", "9", "--queue", "q", "-o", "json"
    )
    assert done.json == {"id": "job1", "status": "scheduled", "is_duplicate": False}
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        job = queue.get("job1")
    assert (job.priority, job.queue, job.payload) == (25, "q", {"shell": "echo hi"})


def test_the_same_key_is_the_same_job(shell: Shell) -> None:
    first = shell.ok("enqueue", "--task", "t", "--key", "k", "-o", "json").json
    again = shell.ok("enqueue", "--task", "t", "--key", "k", "-o", "json")
    assert again.json == {**first, "is_duplicate": True}
    assert first["id"] in again.err
    other = shell.run("enqueue", "--task", "other", "--key", "k")
    assert other.code == Exit.CONFLICT


def test_machine_formats_have_stable_fields(shell: Shell) -> None:
    assert list(shell.ok("enqueue", "-o", "jsonl", "--task", "t").jsonl[0]) == [
        "id",
        "status",
        "is_duplicate",
    ]
    assert shell.ok("enqueue", "-o", "csv", "--task", "t").out.splitlines()[0] == (
        "id,status,is_duplicate"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ([], Exit.USAGE, "nothing to run"),
        (["sleep 2"], Exit.USAGE, "use --command; or give the words after -- separately"),
        (["--command", "a", "--task", "b"], Exit.USAGE, "either a command or a task"),
        (["--command", "a", "--", "b"], Exit.USAGE, "one thing to run"),
        (["--command", "a", "--args", "[]"], Exit.USAGE, "a command has no args"),
        (["--task", "a", "--cwd", "."], Exit.USAGE, "a task has no cwd"),
        (["--task", "a", "--args", "{}"], Exit.USAGE, "{} is not a list"),
        (["--task", "a", "--args", "[]", "--payload", "null"], Exit.USAGE, "not both"),
        (
            ["--task", "a", "--args", "[1"],
            Exit.USAGE,
            "'[1' is not JSON (Input data",
        ),
        (["--task", "a", "--args", "tea"], Exit.USAGE, "'tea' is not JSON: give a list, such as"),
        (["--task", "a", "--priority", "urgent"], Exit.USAGE, "must be low, medium"),
        (["--task", "a", "--timeout", "soon"], Exit.USAGE, "not a duration"),
        (["--task", "a", "--run-at", "soon"], Exit.USAGE, "run_at: 'soon' is not a time"),
        (
            ["--task", "a", "--delay", "1", "--run-at", "+1m"],
            Exit.USAGE,
            "either run_at or a delay",
        ),
        (["--task", "a", "--env", "A"], Exit.USAGE, "NAME=VALUE"),
        (["--task", "a", "--partial"], Exit.USAGE, "--partial requires --file"),
        (["--task", "a", "--depends-on", "nobody"], Exit.NOT_FOUND, "nobody"),
        (['{"command": "a", "colour": 1, "size": 2}'], Exit.USAGE, "unknown field 'colour'"),
        (['{"command": "a", "command": "b"}'], Exit.USAGE, "'command' twice"),
        (['{"command": ["a", 1]}'], Exit.USAGE, "$.command"),
        (['{"command": []}'], Exit.USAGE, "empty"),
        (['{"task": "a", "timeout": NaN}'], Exit.USAGE, "NaN"),
        (['{"task": "a", "args": ["\\ud800"]}'], Exit.USAGE, "surrogates not allowed"),
        (["--", "printf", "\udcff"], Exit.USAGE, "an argument is not UTF-8 text"),
        (['{"task": "a", "timeout": -1}'], Exit.USAGE, "timeout_seconds must be above 0"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_stored(
    arguments: list[str],
    code: Exit,
    why: str,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # In this process, for speed: the real one differs only in how it is started.
    monkeypatch.chdir(shell.folder)
    monkeypatch.delenv("LEASEHOLD_STORE", raising=False)
    assert run(["enqueue", *arguments]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert why in said.err
    if (shell.folder / "leasehold.db").exists():
        assert payloads(shell) == []


def test_an_id_that_is_taken_is_a_conflict(shell: Shell) -> None:
    shell.ok("enqueue", "--task", "t", "--id", "one")
    assert shell.run("enqueue", "--task", "t", "--id", "one").code == Exit.CONFLICT


def test_a_memory_store_takes_a_job_and_forgets_it(shell: Shell) -> None:
    shell.ok("--store", "memory://", "enqueue", "--task", "t")
    assert list(shell.folder.iterdir()) == []


CHECKS = TaskQueue("memory://", num_workers=0)
VALUES = st.none() | st.text() | st.integers() | st.floats() | st.lists(st.text(), max_size=2)


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), VALUES, max_size=5))
def test_any_document_is_a_job_or_refused_with_a_reason(document: dict[str, object]) -> None:
    try:
        job = read_document(json.dumps(document)).new_job()
        CHECKS.check_job(job)
        told = job.task
    except LeaseholdError as error:
        told = str(error)
    assert told


def test_a_task_is_not_taken_for_a_program(shell: Shell) -> None:
    refused = shell.run("enqueue", "shop:price")
    assert refused.code == Exit.USAGE
    assert "is 'shop:price' a task? Then use --task" in refused.err
