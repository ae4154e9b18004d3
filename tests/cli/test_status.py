"""`status`: the whole store in figures."""

from __future__ import annotations

from cli.conftest import Shell
from cli.seed import golden, kill, run_here, store_of
from cli.test_queues import FIGURES
from leasehold import TaskQueue
from leasehold.cli.exits import Exit
from leasehold.core.model.advice import START_A_WORKER
from leasehold.core.model.records import WorkerInfo
from leasehold.env import SYSTEM, from_micros


def seed(queue: TaskQueue) -> None:
    queue.submit("work", job_id="one")
    queue.submit("work", job_id="two")
    queue.submit("send", queue="mail")
    queue.ack(queue.lease(worker="camera"))  # type: ignore[arg-type]
    kill(queue)
    queue.pause_queue("mail")
    queue.submit("work", queue="reports")


def test_status_for_people(shell: Shell) -> None:
    with store_of(shell) as queue:
        seed(queue)
        done = shell.ok("status")
    heading, queues, workers, failures = golden(done.out).split("\n\n")
    assert heading == f"store {shell.folder / 'leasehold.db'}: 4 jobs"
    assert queues == golden("""
QUEUE     STATE    PENDING   RUNNING   COMPLETED   DEAD
───────────────────────────────────────────────────────
default   active         0         0           1      1
mail      paused         1         0           0      0
reports   active         1         0           0      0
""")
    # Whoever leased by hand counts as a worker; its host and process are not ours to say.
    header, _, *rows = [line.split() for line in workers.splitlines()]
    assert header == ["WORKER", "HOST", "PID", "QUEUES", "SLOTS", "RUNNING", "LAST", "HEARTBEAT"]
    assert [(row[0], *row[3:6]) for row in rows] == [
        ("camera", "default", "1", "0"),
        ("consumer", "default", "1", "0"),
    ]
    assert failures == golden("""
TIMES   TASK   ERROR                   SINCE
───────────────────────────────────────────────────────────
    1   work   Nack: no such picture   YYYY-MM-DD HH:MM:SSZ
""")
    assert done.err.splitlines() == [
        "note: queue 'mail' is paused with 1 pending job: `queuectl queue resume mail`",
        (
            "note: no worker serves queue 'reports' (1 pending job): `queuectl worker start "
            "--queues reports --import MODULE`"
        ),
        "note: 1 dead letter waits for a decision: `queuectl dlq list`",
    ]


def test_status_for_programs(shell: Shell) -> None:
    with store_of(shell) as queue:
        seed(queue)
        now = from_micros(SYSTEM.clock.time_micros())
        life = queue.store.register_worker(
            WorkerInfo(
                id="w/1", host="h", pid=1, queues=("reports",), slots=4, started_at=now,
                heartbeat_at=now,
            )
        )  # fmt: skip
        document = shell.ok("status", "-o", "json").json
        assert "w/1" in shell.ok("status").out
        life.close()
    assert list(document) == ["store", "at", "jobs", "queues", "workers", "failures", "warnings"]
    assert (document["jobs"]["pending"], document["jobs"]["dead"]) == (2, 1)
    assert list(document["queues"][0]) == ["queue", "state", *FIGURES]
    assert list(document["workers"][0]) == [
        "id", "host", "pid", "queues", "slots", "started_at", "heartbeat_at", "running",
        "is_consumer", "tasks", "jobs", "app_version",
    ]  # fmt: skip
    assert [text.split(":")[0] for text in document["warnings"]] == [
        "queue 'mail' is paused with 1 pending job",
        "1 dead letter waits for a decision",
    ]


def test_an_empty_store(shell: Shell) -> None:
    shell.ok("init")
    done = shell.ok("status")
    assert done.out == f"store {shell.folder / 'leasehold.db'}: 0 jobs\n\n\n"
    assert done.err.splitlines() == [
        "there is no queue yet",
        f"no worker is running: {START_A_WORKER}",
    ]
    assert [each["queue"] for each in shell.ok("stats", "-o", "json").json] == [None]


def test_a_store_in_memory_is_of_no_use_but_no_error(shell: Shell) -> None:
    for arguments in (("status",), ("list",), ("stats",), ("top",), ("queue", "list")):
        assert run_here(shell, *arguments, "--store", "memory://").code == Exit.OK
    assert run_here(shell, "show", "one", "--store", "memory://").code == Exit.NOT_FOUND
    assert list(shell.folder.iterdir()) == []
