"""`queue`: rules from the fields of QueueConfig, states, purge and delete."""

from __future__ import annotations

from typing import Any

from cli.conftest import Shell
from cli.seed import golden, kill, run_here, store_of
from leasehold.cli.exits import Exit
from leasehold.core.model.queue_config import QueueConfig

FIGURES = [
    "scheduled", "blocked", "pending", "running", "failed", "completed", "dead", "cancelled",
]  # fmt: skip
LATER = ["next_start_at", "created_at", "created_by", "changed_at", "changed_by"]


def config_of(shell: Shell, name: str) -> Any:
    return run_here(shell, "queue", "show", name, "-o", "json").json["config"]


def test_create_show_update(shell: Shell) -> None:
    made = shell.ok(
        "queue", "create", "mail", "--max-concurrency", "5", "--rate-per-second", "2.5",
        "--lease-seconds", "2m", "--retry", "1,10,60", "-o", "json",
    ).json  # fmt: skip
    assert list(made) == ["queue", "state", *FIGURES, "config", "held_until", *LATER]
    assert made["created_by"] == made["changed_by"]
    assert made["created_at"] == made["changed_at"]
    assert made["config"] == config_of(shell, "mail")
    assert list(made["config"]) == list(QueueConfig.__struct_fields__)
    told = {name: value for name, value in made["config"].items() if value is not None}
    assert {name: told[name] for name in ("max_concurrency", "lease_seconds", "retry")} == {
        "max_concurrency": 5,
        "lease_seconds": 120.0,
        "retry": {"type": "delays", "seconds": [1.0, 10.0, 60.0]},
    }
    linear = '{"type":"linear","step_seconds":5}'
    shell.ok("queue", "update", "mail", "--max-concurrency", "none", "--retry", linear)
    changed = config_of(shell, "mail")
    assert (changed["max_concurrency"], changed["rate_per_second"]) == (None, 2.5)
    assert changed["retry"]["step_seconds"] == 5
    shell.ok("queue", "update", "mail", "--retry", "30")
    assert config_of(shell, "mail")["retry"] == {"type": "constant", "seconds": 30.0}


def test_rules_that_are_times_are_given_as_times(shell: Shell) -> None:
    times = ("--aging-factor", "30m", "--deadline-horizon", "2h", "--rebalance-interval", "90")
    shell.ok("queue", "create", "mail", *times)
    config = config_of(shell, "mail")
    assert config["aging_factor"] == 1800
    assert config["deadline_horizon"] == 7200
    assert config["rebalance_interval"] == 90


def test_bad_rules_are_refused_and_change_nothing(shell: Shell) -> None:
    shell.ok("queue", "create", "mail", "--max-depth", "10")
    before = config_of(shell, "mail")
    for option, value in (
        ("--max-depth", "many"),
        ("--max-depth", "0"),
        ("--rate-per-second", "-1"),
        ("--lease-seconds", "soon"),
        ("--retry", "{"),
        ("--retry", '{"type":"linear","step":5}'),
        ("--retry", '"often"'),
    ):
        assert run_here(shell, "queue", "update", "mail", option, value).code == Exit.USAGE, value
    assert run_here(shell, "queue", "update", "mail").code == Exit.USAGE
    assert run_here(shell, "queue", "create", "mail", "--max-depth", "9").code == Exit.CONFLICT
    assert run_here(shell, "queue", "update", "nobody", "--max-depth", "9").code == Exit.NOT_FOUND
    assert config_of(shell, "mail") == before


def test_the_help_says_what_the_code_says_of_each_rule(shell: Shell) -> None:
    told = " ".join(shell.ok("queue", "create", "--help").out.split())
    assert "--max-concurrency" in told
    assert "How many jobs may run at once, over all workers." in told


def test_a_table_of_queues(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.create_queue("mail", max_depth=5)
        queue.submit("work", queue="default")
        queue.submit("work", queue="mail")
        kill(queue, "mail")
        queue.pause_queue("mail")
    assert golden(shell.ok("queue", "list").out) == golden("""
QUEUE     STATE    PENDING   RUNNING   DEAD   CHANGED                BY       RULES
─────────────────────────────────────────────────────────────────────────────────────────
default   active         1         0      0   -                      -        -
mail      paused         0         0      1   YYYY-MM-DD HH:MM:SSZ   python   max_depth=5
""")
    assert golden(shell.ok("queue", "show", "mail").out) == golden("""
queue       mail
state       paused
dead        1
created at  YYYY-MM-DD HH:MM:SSZ
created by  python
changed at  YYYY-MM-DD HH:MM:SSZ
changed by  python
max depth   5
""")
    assert [each["queue"] for each in shell.ok("queue", "list", "-o", "jsonl").jsonl] == [
        "default", "mail",
    ]  # fmt: skip


def test_pause_resume_drain(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", queue="mail")
        queue.submit("work")
    paused = shell.ok("queue", "pause", "mail", "default", "-o", "json").json
    assert paused == [
        {"queue": "mail", "state": "paused"},
        {"queue": "default", "state": "paused"},
    ]
    some = run_here(shell, "queue", "resume", "mail", "nobody")
    assert (some.code, "active" in some.out) == (Exit.PARTIAL, True)
    assert "there is no queue 'nobody'" in some.err
    assert run_here(shell, "queue", "pause", "nobody").code == Exit.NOT_FOUND
    assert shell.ok("queue", "drain", "mail", "-o", "jsonl").jsonl[0]["state"] == "draining"


def test_purge(shell: Shell) -> None:
    with store_of(shell) as queue:
        for number in range(5):
            queue.submit("odd" if number % 2 else "even", job_id=f"job-{number}")
        queue.submit("work", queue="other")
    assert (
        "delete 2 jobs"
        in run_here(shell, "queue", "purge", "default", "--task", "odd", "--dry-run").err
    )
    assert run_here(shell, "queue", "purge", "default").code == Exit.USAGE
    purged = shell.ok("queue", "purge", "default", "--task", "odd", "--yes", "-o", "json").json
    assert purged == {"queue": "default", "purged": 2}
    assert shell.ok("queue", "purge", "default", "-y").out.split() == [
        "queue", "default", "purged", "3",
    ]  # fmt: skip
    assert "no waiting job" in run_here(shell, "queue", "purge", "default").err
    refused = run_here(shell, "queue", "purge", "default", "--status", "dead", "-y")
    assert refused.code == Exit.USAGE
    assert (
        "dead are not accepted here: choose from scheduled, blocked, pending or failed"
        in refused.err
    )
    assert "dead, cancelled" not in run_here(shell, "queue", "purge", "--help").out
    assert run_here(shell, "queue", "purge", "nobody", "-y").code == Exit.NOT_FOUND
    assert len(shell.ok("list", "-o", "json").json) == 1


def test_purge_counts_whom_it_concerns(shell: Shell) -> None:
    with store_of(shell) as queue:
        first = queue.submit("work")
        queue.submit("work", depends_on=[first])
        for number in range(2):
            queue.submit("work", job_id=f"other-{number}", queue="other", depends_on=[first])
    dry = run_here(shell, "queue", "purge", "default", "--dry-run").err
    assert "delete 2 jobs" in dry
    assert "for good (2 jobs that depend on them see them as cancelled)" in dry
    shell.ok("queue", "purge", "default", "--yes")
    statuses = {job["id"]: job["status"] for job in shell.ok("list", "-o", "json").json}
    assert statuses == {"other-0": "cancelled", "other-1": "cancelled"}


def test_delete(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.create_queue("mail", max_depth=5)
        queue.submit("work", queue="mail", job_id="one")
    refused = run_here(shell, "queue", "delete", "mail", "--yes")
    assert (refused.code, "1 job wait" in refused.err) == (Exit.CONFLICT, True)
    tried = shell.ok("queue", "delete", "mail", "--force", "--dry-run")
    assert "would delete queue 'mail' and make dead letters of 1 job" in tried.err
    done = shell.ok("queue", "delete", "mail", "--force", "--yes", "-o", "json").json
    assert done == {"queue": "mail", "dead": 1}
    [job] = shell.ok("list", "-o", "json").json
    assert job["status"] == "dead"
    [listed] = shell.ok("queue", "list", "-o", "json").json
    assert (listed["queue"], listed["state"]) == ("mail", "deleted")
    assert "deleted" in shell.ok("queue", "list").out
