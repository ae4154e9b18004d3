"""`show`, `history` and `why`: one job from all sides, and how it is named."""

from __future__ import annotations

import json
from pathlib import Path

from cli.conftest import Shell
from cli.seed import HOSTILE, assert_harmless, golden, kill, run_here, store_of
from cli.test_listing import FIELDS
from leasehold import NewJob, TaskQueue, chain
from leasehold.cli.exits import Exit
from leasehold.testing.conformance.base import said


def seed(queue: TaskQueue) -> None:
    queue.submit("resize", "cat.png", job_id="picture-1")
    queue.submit("resize", "dog.png", job_id="picture-2")
    queue.submit("publish", job_id="page", depends_on=["picture-1"])
    lease = queue.lease(worker="consumer")
    assert lease is not None
    queue.store.append_log(lease.job_id, lease.version, said("half done", HOSTILE))
    queue.nack(lease, "no such picture", requeue=False)


def test_everything_about_a_job(shell: Shell) -> None:
    with store_of(shell) as queue:
        seed(queue)
    shown = shell.ok("show", "picture-1").out
    assert_harmless(shown)
    assert golden(shown) == golden(
        r"""
id                     picture-1
queue                  default
task                   resize
status                 dead
priority               50
created at             YYYY-MM-DD HH:MM:SSZ
updated at             YYYY-MM-DD HH:MM:SSZ
run at                 YYYY-MM-DD HH:MM:SSZ
started at             YYYY-MM-DD HH:MM:SSZ
ended at               YYYY-MM-DD HH:MM:SSZ
attempts               1
max retries            3
allowance              4
lease version          1
failure count          1
first failed at        YYYY-MM-DD HH:MM:SSZ
last failed at         YYYY-MM-DD HH:MM:SSZ
reason                 Nack: no such picture
on dependency failure  cancel

PAYLOAD
{
  "args": [
    "cat.png"
  ],
  "kwargs": {}
}

DEPENDENCIES
            ID     TASK      STATUS
──────────────────────────────────────
needed by   page   publish   cancelled

ATTEMPTS
"""
        + golden(shown).partition("ATTEMPTS\n")[2].partition("\nHISTORY")[0]
        + r"""
HISTORY
NO   AT                     EVENT     BEFORE    AFTER     TRIES   WORKER     MESSAGE
"""
        + "─" * 122
        + r"""
 1   YYYY-MM-DD HH:MM:SSZ   created   -         pending       0   -          submitted
 2   YYYY-MM-DD HH:MM:SSZ   leased    pending   running       1   consumer   leased by consumer until YYYY-MM-DD HH:MM:SSZ
 3   YYYY-MM-DD HH:MM:SSZ   dead      running   dead          1   consumer   Nack: no such picture

LOG
half done
\x1b[2J\x1b]0;owned\x07\u202egnp.exe\r\x9b31m

ERROR
Nack: no such picture

given up: not retried: the consumer refused a retry
"""  # noqa: E501
    )


def test_programs_get_one_document(shell: Shell) -> None:
    with store_of(shell) as queue:
        seed(queue)
    document = shell.ok("show", "picture-1", "-o", "json").json
    assert list(document) == [
        "job", "passed", "attempts", "history", "dependencies", "dependents", "log", "output",
        "archived",
    ]  # fmt: skip
    assert list(document["job"]) == FIELDS
    [attempt] = document["attempts"]
    assert set(attempt) >= {"number", "worker", "started_at", "duration_seconds", "outcome"}
    assert document["dependents"] == [{"id": "page", "task": "publish", "status": "cancelled"}]
    assert document["log"] == ["half done", HOSTILE]
    events = shell.ok("history", "picture-1", "-o", "jsonl").jsonl
    assert events == document["history"]
    assert list(events[0]) == [
        "job_id", "sequence", "at", "event", "before", "after", "worker", "lease_version",
        "attempts", "message",
    ]  # fmt: skip


def test_a_job_is_named_by_enough_of_its_id(shell: Shell) -> None:
    with store_of(shell) as queue:
        seed(queue)
        queue.submit("work", job_id="pa")
    assert shell.ok("why", "pag", "-o", "json").json["id"] == "page"
    assert shell.ok("why", "pa", "-o", "json").json["id"] == "pa"
    ambiguous = run_here(shell, "show", "picture")
    assert (ambiguous.code, ambiguous.out) == (Exit.USAGE, "")
    assert "picture-1, picture-2; type the end" in ambiguous.err
    unknown = run_here(shell, "history", "picture-9")
    assert unknown.code == Exit.NOT_FOUND
    assert "similar ids: picture-1, picture-2" in unknown.err
    assert "near" not in run_here(shell, "show", "zebra").err
    assert run_here(shell, "show", "").code == Exit.NOT_FOUND


def test_what_is_remembered_of_a_pruned_job(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="one")
        queue.ack(queue.lease(), {"width": 64})  # type: ignore[arg-type]
        queue.prune(emergency=True)
    document = shell.ok("show", "one", "-o", "json").json
    assert document["job"] is None
    assert document["archived"]["result_summary"] == '{"width":64}'
    assert "result summary" in shell.ok("show", "one").out
    gone = run_here(shell, "why", "one")
    assert (gone.code, "was archived at" in gone.err) == (Exit.NOT_FOUND, True)


def test_why(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="one")
        queue.pause_queue("default")
    assert shell.ok("why", "one").out == (
        "Queue 'default' is paused: none of its jobs is leased until it is resumed.\n"
    )
    reason = shell.ok("why", "one", "-o", "json").json
    assert list(reason) == ["id", "kind", "text", "details"]
    assert (reason["kind"], reason["details"]) == ("queue_paused", {"queue": "default"})


def test_the_end_of_a_commands_output(shell: Shell, tmp_path: Path) -> None:
    out, err = tmp_path / "1.out", tmp_path / "1.err"
    out.write_text("\n".join(f"line {number}" for number in range(100)) + f"\n{HOSTILE}")
    err.write_text("")
    named = json.dumps({"stdout_path": str(out), "stderr_path": str(err)}).encode()
    with store_of(shell) as queue:
        for task in ("command", "other"):
            queue.submit(task, job_id=task)
            lease = queue.lease()
            assert lease is not None
            queue.store.report_progress(task, lease.version, named)
    shown = shell.ok("show", "command").out
    assert_harmless(shown)
    assert "line 79\n" not in shown
    assert "\nSTDOUT\n... (`logs` shows all of it)\nline 81\n" in shown
    assert "STDERR" not in shown
    assert "line 99" in shell.ok("show", "command", "-o", "json").json["output"]["stdout"]
    # Any task may report any path: only what the command task says of its own files is opened.
    assert shell.ok("show", "other", "-o", "json").json["output"] is None


def test_a_traceback_is_shown_as_it_is(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="one")
        kill(queue, error=f"first\n  second {HOSTILE}")
    shown = shell.ok("show", "one").out
    assert_harmless(shown)
    assert "\nERROR\nNack: first\n  second \\x1b" in shown


def test_what_is_passed_to_a_step_of_a_chain(shell: Shell) -> None:
    with store_of(shell) as queue:
        run = queue.submit_workflow(
            chain(NewJob("shop:price", (21,), job_id="first")).then(
                NewJob("shop:mail", (), job_id="second"), pass_result=True
            )
        )
        assert run.last.id == "second"
        waiting = json.loads(run_here(shell, "show", "second", "-o", "json").out)
        lease = queue.lease()
        assert lease is not None
        queue.ack(lease, {"total": 42})
    assert waiting["passed"] is None
    shown = run_here(shell, "show", "second")
    assert "FIRST ARGUMENT, PASSED ON" in shown.out
    assert json.loads(run_here(shell, "show", "second", "-o", "json").out)["passed"] == {
        "total": 42
    }
