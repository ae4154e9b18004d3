"""`list`: filters, pages, what fits on a terminal, what programs get."""

from __future__ import annotations

import csv
import io

from cli.conftest import Shell
from cli.seed import HOSTILE, assert_harmless, golden, kill, run_here, store_of
from cli.terminal import Terminal
from leasehold import NewJob
from leasehold.cli.exits import Exit

FIELDS = [
    "id", "queue", "task", "status", "priority", "created_at", "updated_at", "run_at", "deadline",
    "started_at", "completed_at", "attempts", "max_retries", "allowance", "retry",
    "timeout_seconds", "lease_seconds", "start_by", "result_ttl_seconds", "worker",
    "lease_version", "lease_acquired_at", "lease_expires_at", "heartbeat_at", "cancel_requested",
    "result_expired", "error", "failure_count", "first_failed_at", "last_failed_at", "reason",
    "progress", "metadata", "idempotency_key", "parent_id",
    "depends_on", "on_dependency_failure", "inherited_priority", "limit_key", "payload", "result",
    "stdout_path", "stderr_path",
]  # fmt: skip


def test_a_table_of_jobs(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("resize", "cat.png", job_id="one")
        kill(queue)
        queue.submit("mail:send", job_id="two", queue="mail", priority="high")
    assert golden(shell.ok("list").out) == golden("""
ID    QUEUE     TASK        STATUS    PRI   TRIES   AGE   ERROR
───────────────────────────────────────────────────────────────────────────────
two   mail      mail:send   pending    75       0    0s   -
one   default   resize      dead       50       1    0s   Nack: no such picture
""")


def test_filters_narrow_it(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("resize", "cat.png", job_id="one", metadata={"size": 1, "vip": True})
        kill(queue)
        queue.submit("resize", "dog.png", job_id="two", metadata={"size": "1"})
        queue.submit("send", job_id="three", queue="mail", priority=90, parent_id="one")

    def listed(*options: str) -> list[str]:
        return [job["id"] for job in run_here(shell, "list", "-o", "jsonl", *options).jsonl]

    assert listed("--queue", "mail,default") == ["three", "two", "one"]
    assert listed("--status", "dead,pending", "--task", "resize") == ["two", "one"]
    assert listed("--meta", "size=1", "--meta", "vip=true") == ["one"]
    assert listed("--priority-min", "high") == listed("--parent", "one") == ["three"]
    assert listed("--search", "DOG", "--created-from", "-1h") == ["two"]
    assert listed("--error", "picture") == ["one"]
    assert listed("--created-before", "-1h") == []
    refused = run_here(shell, "list", "--status", "ded")
    assert refused.code == Exit.USAGE
    assert "no status 'ded': did you mean 'dead'? the statuses are scheduled, " in refused.err


def test_limit_and_pages(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit_many(NewJob("work", job_id=f"job-{number}") for number in range(1001))
    first = shell.ok("list", "-o", "jsonl")
    assert [job["id"] for job in first.jsonl] == [f"job-{n}" for n in range(1000, 950, -1)]
    assert first.err == "showing 50 of 1,001 jobs: --limit 0 shows all\n"
    assert shell.ok("list", "--task", "work", "--count").out == "1,001\n"
    assert shell.ok("list", "--count", "-o", "json").json == {"jobs": 1001, "is_exact": True}
    more = shell.ok("list", "-o", "csv", "-n", "501")
    assert len(list(csv.DictReader(io.StringIO(more.out)))) == 501
    everything = shell.ok("list", "-o", "json", "--limit", "0")
    assert [job["id"] for job in everything.json] == [f"job-{n}" for n in range(1000, -1, -1)]
    assert everything.err == ""
    assert shell.ok("list", "-o", "json", "--limit", "1001").err == ""


def test_programs_get_every_field(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("resize", "cat.png", job_id="one")
        kill(queue)
    [job] = shell.ok("list", "-o", "json").json
    assert list(job) == FIELDS
    assert job["payload"] == {"args": ["cat.png"], "kwargs": {}}
    assert job["error"] == {"type": "Nack", "message": "no such picture", "traceback": None}
    assert job["created_at"].endswith("Z")
    [row] = csv.DictReader(io.StringIO(shell.ok("list", "-o", "csv").out))
    assert list(row) == FIELDS
    assert row["status"] == "dead"


def test_archived_jobs(shell: Shell) -> None:
    with store_of(shell) as queue:
        for name in ("one", "two"):
            queue.submit("work", job_id=name)
            queue.ack(queue.lease())  # type: ignore[arg-type]
        queue.prune(emergency=True)
    assert shell.ok("list").err == "no job matches\n"
    found = shell.ok("list", "--archived", "-o", "json", "-n", "1")
    assert [job["status"] for job in found.json] == ["completed"]
    assert "showing the first 1" in found.err
    assert "two" in shell.ok("list", "--archived").out
    for options in (("--slowest",), ("--ran-min", "0s"), ("--ended-from", "2020-01-31")):
        found = shell.ok("list", "--archived", "--task", "work", "-o", "json", *options)
        assert {job["id"] for job in found.json} == {"one", "two"}
        assert all(job["run_seconds"] >= 0 for job in found.json)
        assert shell.run("list", *options).code == Exit.USAGE
    assert shell.ok("list", "--archived", "--ran-min", "1h").err == "no job matches\n"
    assert shell.run("list", "--archived", "--ended-until", "soon").code == Exit.USAGE
    assert shell.run("list", "--archived", "--count").code == Exit.USAGE
    assert shell.run("list", "--archived", "--priority-min", "5").code == Exit.USAGE


def test_what_a_job_says_cannot_garble_the_terminal(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", HOSTILE, job_id="one", metadata={"note": HOSTILE})
        kill(queue, error=HOSTILE + "x" * 1_000_000)
    for form in ("table", "json", "jsonl"):
        assert_harmless(shell.ok("list", "-o", form).out)
    assert len(shell.ok("list").out) < 2000


def test_one_line_per_job_on_a_narrow_terminal(shell: Shell) -> None:
    with store_of(shell) as queue:
        for number in range(3):
            queue.submit("a_task_with_a_long_name", number)
            kill(queue, error=f"{HOSTILE} a long story " * 20)
        ids = [job.id for job in queue.search()]
    with Terminal(shell.command("list"), cwd=shell.folder, env=shell.environment) as terminal:
        assert terminal.end() == 0
        lines = terminal.text.splitlines()
        assert [line.split()[0] for line in lines[2:]] == [f"…{each[-8:]}" for each in ids]
        assert all("a_task_with_a_long_na…" in line and "dead" in line for line in lines[2:])
        assert lines[0].split() == ["ID", "QUEUE", "TASK", "STATUS", "AGE", "ERROR"]


def test_of_commands_people_see_what_is_run(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit_command(["convert", "a b.png"])
        queue.submit_command("sort names | uniq")
        queue.submit("command-like", {"argv": ["no"]})
    table = run_here(shell, "list").out
    assert "$ convert 'a b.png'" in table
    assert "$ sort names | uniq" in table
    assert "command-like" in table
    assert [job["task"] for job in run_here(shell, "list", "-o", "json").json] == [
        "command-like", "command", "command",
    ]  # fmt: skip


def test_jobs_that_have_not_ended_have_no_end_to_filter_by(shell: Shell) -> None:
    shell.ok("enqueue", "--", "echo", "hello")
    for option in ("--since", "--until"):
        refused = shell.run("list", "--status", "pending,running", option, "-1h")
        assert refused.code == Exit.USAGE
        assert "a job that is pending or running has not: use --created-from" in refused.err
    shell.ok("list", "--status", "pending,dead", "--since", "-1h")
