"""`dlq`: dead letters from the shell."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator

import pytest

from cli.conftest import Shell
from leasehold import TaskQueue
from leasehold.cli.exits import Exit

ANSWER_FIELDS = ["id", "ok", "status", "priority", "error"]


@pytest.fixture
def queue(shell: Shell) -> Iterator[TaskQueue]:
    """The store of the shell, with three dead letters and a job that waits."""
    made = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    for name, task, error in (
        ("job1", "mail", "no such address"),
        ("job2", "mail", "timed out\x1b[31m"),
        ("job3", "resize", "timed out"),
    ):
        made.submit(task, name, job_id=name)
        lease = made.lease(wait=0, worker="w1")
        assert lease is not None
        made.nack(lease, error, requeue=False)
    made.submit("mail", job_id="waits")
    yield made
    made.shutdown()


def statuses(queue: TaskQueue) -> dict[str, str]:
    return {job.id: job.status.value for job in queue.search()}


def test_list_for_people_and_programs(shell: Shell, queue: TaskQueue) -> None:
    table = shell.ok("dlq", "list").out.splitlines()
    assert table[0].split() == [
        *("ID", "QUEUE", "TASK", "ATTEMPTS", "FAILURES", "FIRST", "FAILED", "DEAD", "SINCE", "WHY")
    ]
    assert [line.split()[0] for line in table[2:]] == ["job3", "job2", "job1"]
    assert table[3].endswith("Nack: timed out\\x1b[31m")
    found = shell.ok("dlq", "list", "--error", "TIMED", "--task", "resize", "-o", "jsonl").jsonl
    assert [(job["id"], job["status"], job["why"]) for job in found] == [
        ("job3", "dead", "Nack: timed out")
    ]


def test_list_says_when_there_are_more_or_none(shell: Shell, queue: TaskQueue) -> None:
    done = shell.ok("dlq", "list", "-n", "1", "-o", "json")
    assert [job["id"] for job in done.json] == ["job3"]
    assert "showing the first 1: --limit 0 shows all" in done.err
    done = shell.ok("dlq", "list", "--queue", "nowhere")
    assert (done.out, done.err) == ("", "no dead letter matches\n")


def test_show_tells_everything(shell: Shell, queue: TaskQueue) -> None:
    document = shell.ok("dlq", "show", "job2", "-o", "json").json
    assert document["payload"] == {"args": ["job2"], "kwargs": {}}
    [attempt] = document["attempt_records"]
    assert (attempt["worker"], attempt["outcome"]) == ("w1", "dead")
    shown = shell.ok("dlq", "show", "job2")
    assert "\x1b" not in shown.out
    assert "why              Nack: timed out\\x1b[31m" in shown.out
    assert "to run it again: queuectl dlq retry job2" in shown.err
    assert document["failure_count"] == 1
    assert document["first_failed_at"] == document["last_failed_at"] == attempt["ended_at"]
    assert "failures         1\n" in shown.out


def test_show_what_is_no_dead_letter(shell: Shell, queue: TaskQueue) -> None:
    assert shell.run("dlq", "show", "nobody").code == Exit.NOT_FOUND
    done = shell.run("dlq", "show", "waits")
    assert (done.code, done.out) == (Exit.CONFLICT, "")
    assert "job waits is pending, not a dead letter" in done.err


def test_retry_by_id_and_by_filter(shell: Shell, queue: TaskQueue) -> None:
    done = shell.run("dlq", "retry", "job1", "waits", "-o", "json")
    assert done.code == Exit.PARTIAL
    assert [list(answer) for answer in done.json] == [ANSWER_FIELDS] * 2
    assert [(answer["id"], answer["ok"]) for answer in done.json] == [
        ("job1", True),
        ("waits", False),
    ]
    assert "job waits is already pending" in done.err
    asked = shell.run("dlq", "retry", "--error", "timed out")
    assert asked.code == Exit.USAGE
    assert "this would replay 2 jobs: pass --yes" in asked.err
    told = shell.ok("dlq", "retry", "--error", "timed out", "--dry-run")
    assert told.out == ""
    assert told.err.splitlines()[:3] == [
        "2 jobs: 2 dead",
        "  job3  dead  resize in default",
        "  job2  dead  mail in default",
    ]
    assert told.err.endswith("would replay 2 jobs; nothing was changed\n")
    assert statuses(queue)["job2"] == "dead"
    assert shell.ok("dlq", "retry", "--all", "--yes").out == "replayed 2 jobs\n"
    assert set(statuses(queue).values()) == {"pending"}


def test_a_retry_of_one_job_tells_of_those_that_stay_cancelled(
    shell: Shell, queue: TaskQueue
) -> None:
    queue.submit("rare", job_id="root", queue="graph")
    for name in ("left", "right"):
        queue.submit("after", job_id=name, queue="graph", depends_on=["root"])
    lease = queue.lease("graph", wait=0)
    assert lease is not None
    queue.nack(lease, requeue=False)
    shown = shell.ok("dlq", "show", "root").err
    assert "with the 2 jobs that ended because of it: queuectl retry --graph root\n" in shown
    to_do = "2 jobs that ended because of it stay as before; to replay them, too: "
    for chosen in ("root", "--queue=graph"):
        planned = shell.ok("dlq", "retry", chosen, "--dry-run").err
        assert f"{to_do}queuectl retry --graph root\n" in planned
    told = shell.ok("dlq", "retry", "root").err
    assert told == (
        "2 jobs that ended because of it stay as before; to replay them, too: "
        "queuectl retry --graph root\n"
    )
    assert shell.ok("retry", "--graph", "root").err == ""
    after = statuses(queue)
    assert (after["root"], after["left"], after["right"]) == ("pending", "blocked", "blocked")


def test_purge_asks_even_for_one(shell: Shell, queue: TaskQueue) -> None:
    refused = shell.run("dlq", "purge", "job1")
    assert refused.code == Exit.USAGE
    assert "this would delete 1 job" in refused.err
    assert shell.run("dlq", "purge").code == Exit.USAGE
    assert shell.run("dlq", "purge", "waits", "--yes").code == Exit.CONFLICT
    assert shell.ok("dlq", "purge", "job1", "--yes").out == "job1 deleted\n"
    assert shell.ok("dlq", "purge", "--task", "mail", "--yes").out == "deleted 1 job\n"
    assert statuses(queue) == {"job3": "dead", "waits": "pending"}


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y", Exit.OK, []), ("n", Exit.FAILURE, ["job3"])]
)
def test_on_a_terminal_you_are_asked(
    shell: Shell, queue: TaskQueue, answer: str, code: int, left: list[str]
) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(shell.folder)
        command = shell.command("dlq", "purge", "job3")
        os.execve(command[0], command, shell.environment)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(terminal, 1024)
    assert b"Really delete 1 job?" in seen
    os.write(terminal, answer.encode() + b"\n")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    os.close(terminal)
    assert [job.id for job in queue.dead_letters.list(task="resize")] == left
