"""`cancel`, `retry`, `reprioritize`: named jobs, filters, questions, what became of each."""

from __future__ import annotations

import pytest

from cli.conftest import Shell
from cli.seed import kill, run_here, store_of
from cli.terminal import Terminal
from leasehold import NewJob, Workflow
from leasehold.cli.exits import Exit

FIELDS = ["id", "ok", "status", "priority", "error"]


def statuses(shell: Shell) -> dict[str, str]:
    with store_of(shell) as queue:
        return {job.id: job.status.value for job in queue.search()}


def test_cancel_named_jobs(shell: Shell) -> None:
    with store_of(shell) as queue:
        for name in ("busy", "one", "two", "two-b"):
            queue.submit("work", job_id=name)
        queue.lease()
    done = shell.ok("cancel", "one", "two", "one", "--reason", "too late")
    assert done.out == "one cancelled\ntwo cancelled\n"
    assert shell.ok("cancel", "bus").out == "busy is running: its worker was asked to stop it\n"
    with store_of(shell) as queue:
        assert queue.get("one").reason == "too late"
        assert queue.get("busy").cancel_requested is not None
        [*_, record] = queue.audit_log()
        assert record.actor.startswith("cli")


def test_some_done_and_some_not(shell: Shell) -> None:
    with store_of(shell) as queue:
        for name in ("one", "two-a", "two-b", "over"):
            queue.submit("work", job_id=name)
        queue.cancel("over")
    done = shell.run("cancel", "one", "two", "over", "nobody", "-o", "json")
    assert done.code == Exit.PARTIAL
    assert [list(each) for each in done.json] == [FIELDS] * 4
    assert {each["id"]: each["ok"] for each in done.json} == {
        "one": True, "over": False, "two": False, "nobody": False,
    }  # fmt: skip
    over, two, nobody = done.err.splitlines()
    assert over.startswith("leasehold: job over is already cancelled")
    assert "'two'" in two
    assert nobody == "leasehold: there is no job 'nobody': it never existed, or was deleted"


def test_none_done(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="one")
        queue.cancel("one")
    assert run_here(shell, "cancel", "one").code == Exit.CONFLICT
    assert run_here(shell, "cancel", "nobody", "noone").code == Exit.NOT_FOUND
    assert run_here(shell, "cancel", "one", "nobody").code == Exit.FAILURE
    assert run_here(shell, "reprioritize", "one", "-p", "high").code == Exit.CONFLICT


def test_retry_one_and_all_that_fit(shell: Shell) -> None:
    with store_of(shell) as queue:
        for number in range(3):
            queue.submit("work", job_id=f"job-{number}", max_retries=0)
            kill(queue, error="timeout" if number else "crash")
        queue.submit("work", job_id="waits")
        queue.cancel("waits")
    assert shell.ok("retry", "job-0").out == "job-0 replayed\n"
    done = shell.ok("retry", "--error", "timeout", "--reset-attempts", "--yes")
    assert done.out == "replayed 2 jobs\n"
    assert statuses(shell) == {
        "job-0": "pending", "job-1": "pending", "job-2": "pending", "waits": "cancelled",
    }  # fmt: skip
    assert shell.ok("retry", "--status", "cancelled", "-y").out == "replayed 1 job\n"
    with store_of(shell) as queue:
        assert [queue.get(f"job-{n}").attempts for n in range(3)] == [1, 0, 0]
    assert "there is no job to replay" in shell.ok("retry", "--all", "--yes").err


def test_retry_with_all_that_the_job_brought_down(shell: Shell) -> None:
    with store_of(shell) as queue:
        flow = Workflow("w")
        for name, after in (("a", ()), ("b", "a"), ("c", "b")):
            flow.add(name, NewJob("work"), after=after)
        queue.submit_workflow(flow)
        lease = queue.lease()
        assert lease is not None
        queue.nack(lease, "no", requeue=False)
    assert shell.run("retry", "w:c").code != Exit.OK
    assert shell.ok("retry", "--graph", "w:c").out.count("replayed") == 3
    assert statuses(shell) == {"w:a": "pending", "w:b": "blocked", "w:c": "blocked"}
    done = shell.run("retry", "--graph", "w")
    assert done.code == Exit.CONFLICT
    assert "none of these 3 jobs is dead or cancelled: there is nothing to replay" in done.err
    assert "job w:c is blocked: only dead or cancelled jobs" in (
        shell.run("retry", "--graph", "w:c").err
    )
    shell.ok("cancel", "w:a", "w:b", "w:c")
    assert "'w' is a workflow: w:a, w:b, w:c; type the end" in shell.run("retry", "w").err
    assert shell.ok("retry", "--graph", "w").out.count("replayed") == 3
    assert statuses(shell) == {"w:a": "pending", "w:b": "blocked", "w:c": "blocked"}
    assert shell.run("retry", "--graph", "nobody").code == Exit.NOT_FOUND
    assert "--graph requires the ids" in shell.run("retry", "--graph", "--all", "--yes").err


def test_reprioritize(shell: Shell) -> None:
    with store_of(shell) as queue:
        for number in range(3):
            queue.submit("work", job_id=f"job-{number}", queue="mail" if number else "default")
    assert shell.ok("reprioritize", "job-0", "-p", "critical").out == "job-0 reprioritized\n"
    done = shell.ok("reprioritize", "--queue", "mail", "-p", "7", "-y", "-o", "jsonl")
    assert {each["id"]: each["priority"] for each in done.jsonl} == {"job-1": 7, "job-2": 7}
    assert run_here(shell, "reprioritize", "job-0", "-p", "101").code == Exit.USAGE
    assert run_here(shell, "reprioritize", "job-0").code == Exit.USAGE


def test_running_jobs_that_fit_are_asked_to_stop(shell: Shell) -> None:
    with store_of(shell) as queue:
        for number in range(3):
            queue.submit("work", job_id=f"job-{number}")
        queue.lease()
    done = shell.ok("cancel", "--all", "--yes")
    assert done.out == "cancelled 3 jobs\n"
    assert done.err == "1 of them are running: their workers were asked to stop them\n"
    assert statuses(shell) == {"job-0": "running", "job-1": "cancelled", "job-2": "cancelled"}


def test_a_filter_is_counted_and_never_obeyed_unasked(shell: Shell) -> None:
    with store_of(shell) as queue:
        for number in range(12):
            queue.submit("work", job_id=f"job-{number}")
    before = statuses(shell)
    refused = shell.run("cancel", "--task", "work")
    assert refused.code == Exit.USAGE
    assert "this would cancel 12 jobs: pass --yes" in refused.err
    tried = shell.ok("cancel", "--task", "work", "--dry-run", "-o", "json")
    assert "would cancel 12 jobs; nothing was changed" in tried.err
    assert [each["ok"] for each in tried.json] == [None] * 12
    assert "would cancel 1 job;" in shell.ok("cancel", "job-11", "--dry-run").err
    assert statuses(shell) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "which jobs to cancel?"),
        (("one", "--queue", "mail"), "not both"),
        (("one", "--all"), "not both"),
        (("--status", "completed,dead", "--yes"), "jobs that are completed or dead cannot be"),
    ],
)
def test_an_order_that_makes_no_sense(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    run_here(shell, "init")
    refused = run_here(shell, "cancel", *arguments)
    assert refused.code == Exit.USAGE
    assert said in refused.err


@pytest.mark.parametrize(
    ("typed", "code", "after"),
    [("y\n", Exit.OK, "cancelled"), ("n\n", Exit.FAILURE, "pending"), ("\x04", 130, "pending")],
)
def test_a_person_is_asked(shell: Shell, typed: str, code: int, after: str) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="one")
    with Terminal(
        shell.command("cancel", "--all"), cwd=shell.folder, env=shell.environment
    ) as terminal:
        terminal.see("Really cancel 1 job? [y/N]:")
        terminal.press(typed)
        assert terminal.end() == code
    assert statuses(shell) == {"one": after}
