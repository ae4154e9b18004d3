"""`schedule`: recurring jobs from the shell."""

from __future__ import annotations

import msgspec
import pytest

from cli.conftest import Shell
from leasehold import Every, TaskQueue
from leasehold.cli.exits import Exit

FIELDS = [
    "name",
    "state",
    "timing",
    "cron",
    "zone",
    "every_seconds",
    "starting",
    "task",
    "queue",
    "payload",
    "priority",
    "max_retries",
    "timeout_seconds",
    "metadata",
    "misfire",
    "catch_up_max",
    "grace_seconds",
    "overlap",
    "declared_in",
    "orphaned",
    "next_at",
    "overdue",
    "next_runs",
    "last_at",
    "last_job_id",
    "fired",
    "missed",
    "missed_at",
    "error",
    "created_at",
    "updated_at",
]


def test_a_schedule_from_its_beginning_to_its_end(shell: Shell) -> None:
    nightly = shell.ok(
        *("schedule", "add", "nightly", "--cron", "0 3 * * *", "--zone", "Europe/Berlin"),
        *("--task", "reports:nightly", "--args", "[1]", "--kwargs", '{"a": 2}'),
        *("--queue", "reports", "--priority", "high", "--max-retries", "5", "--timeout", "10m"),
        *("--meta", "team=blue", "--misfire", "catch_up", "--catch-up-max", "3"),
        *("--overlap", "skip", "--grace", "1m", "-o", "json"),
    ).json
    assert list(nightly) == FIELDS
    assert nightly["payload"] == {"args": [1], "kwargs": {"a": 2}}
    told = {name: nightly[name] for name in ("cron", "zone", "queue", "priority", "max_retries")}
    assert told == {
        "cron": "0 3 * * *",
        "zone": "Europe/Berlin",
        "queue": "reports",
        "priority": 75,
        "max_retries": 5,
    }
    assert (nightly["misfire"], nightly["catch_up_max"], nightly["overlap"]) == (
        "catch_up",
        3,
        "skip",
    )
    assert nightly["metadata"] == {"team": "blue"}
    assert (nightly["timeout_seconds"], nightly["grace_seconds"]) == (600, 60)
    assert len(nightly["next_runs"]) == 3
    assert nightly["next_runs"][0] == nightly["next_at"]

    shell.ok("schedule", "add", "tidy", "--every", "1h", "--", "find", "-name", "*.tmp", "-delete")
    table = shell.ok("schedule", "list").out.splitlines()
    assert table[2].startswith("nightly   active   0 3 * * * Europe/Berlin   reports:nightly")
    assert table[3].startswith("tidy      active   every 1h                  command")

    assert shell.ok("schedule", "pause", "tidy", "-o", "json").json["next_runs"] == []
    run = shell.ok("schedule", "run", "tidy", "-o", "json").json
    assert (run["task"], run["metadata"]) == ("command", {"schedule": "tidy"})
    assert run["payload"] == {"argv": ["find", "-name", "*.tmp", "-delete"]}
    assert shell.ok("schedule", "resume", "tidy", "-o", "json").json["state"] == "active"

    for verb in ("run", "pause", "show", "remove"):
        unknown = shell.run("schedule", verb, "tiddy")
        assert unknown.code == Exit.NOT_FOUND
        assert "there is no schedule 'tiddy': did you mean 'tidy'?" in unknown.err
    assert shell.run("schedule", "remove", "tidy").code == Exit.USAGE
    assert shell.ok("schedule", "remove", "tidy", "--dry-run").out == ""
    assert shell.ok("schedule", "remove", "tidy", "--yes", "-o", "json").json["name"] == "tidy"
    assert shell.run("schedule", "show", "tidy").code == Exit.NOT_FOUND
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    assert [known.name for known in queue.schedules] == ["nightly"]
    queue.shutdown()


def test_orphaned_schedules_are_shown_and_pruned(shell: Shell) -> None:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        for name in ("kept", "left"):
            made = queue.schedule(name, "work", Every(3600), declared_in="shop")
        orphan = msgspec.structs.replace(made.draft, orphaned=True)
        queue.store.set_schedule(orphan, actor="test")
    table = shell.ok("schedule", "list").out.splitlines()
    assert [line.split()[:2] for line in table[2:]] == [["kept", "active"], ["left", "orphaned"]]
    assert "left" in shell.ok("doctor").out
    assert "remove 1 orphaned schedule: left" in shell.ok("schedule", "prune", "--dry-run").err
    assert shell.ok("schedule", "prune", "--yes").out == "removed left\n"
    shell.ok("schedule", "add", "short", "--every", "1h", "--task", "t")
    assert shell.ok("schedule", "remove", "short", "--yes").out == "schedule 'short' removed\n"
    again = shell.ok("schedule", "prune", "-o", "json")
    assert (again.json, again.err) == ({"removed": []}, "no schedule is orphaned\n")


def test_a_shell_string_is_one(shell: Shell) -> None:
    made = shell.ok("schedule", "add", "x", "--every", "90", "--command", "a | b", "-o", "json")
    assert made.json["payload"] == {"shell": "a | b"}
    assert made.json["every_seconds"] == 90


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--task", "t"], "say when it ticks"),
        (["--task", "t", "--cron", "@daily", "--every", "1h"], "say when it ticks"),
        (["--every", "1h"], "give a --task, a --command"),
        (["--every", "1h", "--task", "t", "--command", "x"], "give a --task, a --command"),
        (["--every", "1h", "--zone", "UTC", "--task", "t"], "--zone requires --cron"),
        (["--cron", "@daily", "--starting", "now", "--task", "t"], "--starting requires --every"),
        (["--cron", "99 * * * *", "--task", "t"], "is not a cron expression"),
        (["--cron", "@daily", "--zone", "Mars/Base", "--task", "t"], "is not a time zone"),
        (["--every", "1h", "--task", "t", "--args", "{}"], "{} is not a list"),
        (["--every", "1h", "--command", "x", "--args", "[]"], "require --task"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], shell: Shell
) -> None:
    # In this process: these are many, and what they show is the same.
    from leasehold.cli.main import run

    store = shell.folder / "leasehold.db"
    assert run(["--store", str(store), "schedule", "add", "x", *arguments]) == Exit.USAGE
    assert told in capsys.readouterr().err
    assert not store.exists()
