"""`doctor`: what it finds on a real store, after a real worker was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.conftest import Done, Shell
from leasehold import NewJob, Status, TaskQueue
from leasehold.cli.exits import Exit
from leasehold.cli.root import root
from leasehold.cli.showcase import tasks
from leasehold.cli.showcase.stage import ShowcaseStage
from leasehold.stores.sqlite import SQLiteStore

FIELDS = ["check", "level", "found", "meaning", "advice", "queue"]


def levels(done: Done) -> dict[str, str]:
    return {finding["check"]: finding["level"] for finding in done.json}


def test_a_fresh_store_has_nothing_wrong(shell: Shell) -> None:
    shell.ok("init")
    done = shell.ok("doctor", "-o", "json")
    assert [list(finding) for finding in done.json] == [FIELDS] * len(done.json)
    assert "critical" not in levels(done).values()
    assert {"sqlite_version", "journal_mode", "disk", "clock", "leases"} <= set(levels(done))


def test_a_store_that_cannot_be_opened_is_a_finding(shell: Shell) -> None:
    (shell.folder / "leasehold.db").write_text("buy milk\n" * 200)
    done = shell.run("doctor", "-o", "json")
    assert done.code == Exit.FAILURE
    assert levels(done) == {"store": "critical"}
    assert done.json[0]["advice"]


def test_troubles_of_queues_and_jobs(shell: Shell) -> None:
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    queue.create_queue("narrow", max_depth=1)
    queue.submit("t", queue="narrow")
    queue.submit("t", queue="other", job_id="dies")
    lease = queue.lease("other", wait=0)
    assert lease is not None
    queue.nack(lease, requeue=False)
    # An expired lease that nobody sweeps is what must not go unseen.
    queue.submit("t", job_id="orphan")
    assert queue.lease(wait=0, lease_seconds=0.001) is not None
    done = shell.run("doctor", "-o", "json")
    assert done.code == Exit.FAILURE
    found = levels(done)
    assert (found["leases"], found["dead_letters"]) == ("critical", "warning")
    depth = {each["queue"]: each["level"] for each in done.json if each["check"] == "depth"}
    assert depth == {"default": "ok", "narrow": "warning", "other": "ok"}
    queue.sweep()
    told = shell.ok("doctor").out
    assert "1 of 1 pending" in told
    assert "-> queuectl dlq list" in told
    queue.shutdown()


def test_the_alert_rules_judge_what_happened_lately(shell: Shell) -> None:
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    queue.submit_many([NewJob("t", max_retries=0) for _ in range(120)])
    for lease in queue.lease_many(120, wait=0):
        queue.nack(lease, requeue=False)
    queue.submit("t")
    done = shell.run("doctor", "-o", "json")
    assert done.code == Exit.FAILURE
    found = levels(done)
    assert (found["dead_letter_rate"], found["failure_rate"]) == ("critical", "warning")
    assert found["no_worker"] == "ok"
    queue.shutdown()


def test_a_task_that_no_worker_knows(shell: Shell) -> None:
    stage = ShowcaseStage(str(shell.folder))
    job = stage.queue.submit("ghost")
    with stage.workers():
        stage.until(lambda: job.status() is Status.SCHEDULED)
    stage.close()
    done = shell.ok("doctor", "--store", "jobs.db", "-o", "json")
    [finding] = [each for each in done.json if each["check"] == "unknown_tasks"]
    assert finding["level"] == "warning"
    assert finding["found"].startswith("task ghost: no task named 'ghost' is registered")


@pytest.mark.faults
def test_a_worker_that_was_killed_and_the_way_back(shell: Shell) -> None:
    stage = ShowcaseStage(str(shell.folder))
    job = stage.queue.submit(tasks.survive, 2)
    with stage.worker_process("default") as process:
        stage.until(lambda: job.status() is Status.RUNNING)
        assert levels(shell.ok("doctor", "--store", "jobs.db", "-o", "json"))["workers"] == "ok"
        process.kill()
        process.wait()
    stage.until(lambda: bool(stage.queue.lost_workers()))
    found = levels(shell.ok("doctor", "--store", "jobs.db", "-o", "json"))
    assert (found["workers"], found["leases"]) == ("warning", "warning")
    swept = shell.ok("sweep", "--store", "jobs.db", "-o", "json").json
    assert (swept["recovered"], len(swept["workers_proved_dead"])) == (1, 1)
    found = levels(shell.ok("doctor", "--store", "jobs.db", "-o", "json"))
    assert (found["workers"], found["leases"]) == ("ok", "ok")
    with stage.workers():
        assert job.result(timeout=30) == 2
    stage.close()


@pytest.mark.faults
def test_a_background_worker_that_was_killed_with_its_crew(shell: Shell) -> None:
    hang = "test -e mark || { touch mark; exec sleep 600; }"
    shell.ok("enqueue", "--id", "job1", "--command", hang)
    shell.ok("worker", "start", "--background", "--allow-commands")
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    stage = ShowcaseStage(str(shell.folder))
    stage.until((shell.folder / "mark").exists)
    [worker] = shell.ok("worker", "status", "-o", "json").json
    # The crew first: it would start another worker in the place of this one.
    os.kill(worker["crew_pid"], signal.SIGKILL)
    os.kill(worker["pid"], signal.SIGKILL)
    stage.until(lambda: bool(queue.lost_workers()))
    assert shell.ok("worker", "status", "-o", "json").json[0]["state"] == "dead"
    found = levels(shell.ok("doctor", "-o", "json"))
    assert {name for name, level in found.items() if level == "warning"} >= {
        "workers",
        "pid_files",
        "leases",
    }
    shell.ok("worker", "start", "--allow-commands", "--until-empty", "--quiet")
    assert queue.get_status("job1") is Status.COMPLETED
    shell.ok("worker", "status")
    found = levels(shell.ok("doctor", "-o", "json"))
    assert {found[name] for name in ("workers", "pid_files", "leases")} == {"ok"}
    stage.close()
    queue.shutdown()


@pytest.mark.parametrize("asked", [True, False])
def test_nothing_is_coloured_if_nobody_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", "1" if asked else "")
    path = str(tmp_path / "jobs.db")
    SQLiteStore(path).close()
    done = CliRunner().invoke(root, ["doctor", "--verbose", "--store", path], color=True)
    assert ("\x1b[3" in done.output) is not asked
