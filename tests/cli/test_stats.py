"""`stats`: how queues do, over a window, by minute or day, and in all their life."""

from __future__ import annotations

import json

import pytest

from cli.conftest import Shell
from cli.seed import golden, run_here, store_of
from cli.terminal import Terminal
from cli.test_queues import FIGURES
from cli.test_status import seed
from leasehold.cli.exits import Exit

BANDS = ("low", "medium", "high", "critical")


def durations(name: str) -> list[str]:
    figures = ("count", "mean_seconds", "p50_seconds", "p95_seconds", "p99_seconds")
    return [f"{name}_{figure}" for figure in figures]


HAPPENED = [
    "submitted", "leased", "completed", "failed", "retried", "dead", "cancelled", "lost",
    "recovered", "renewed", "rejected", "rate_limited", "cleaned", "deepest", "error_rate",
    *durations("wait"), *durations("run"), *durations("held"),
    *(f"submitted_{band}" for band in BANDS),
    *(name for band in BANDS for name in durations(f"wait_{band}")),
    "retries",
]  # fmt: skip
TOTALS = [
    "total_submitted", "total_leased", "total_completed", "total_failed", "total_retried",
    "total_dead", "total_cancelled", "total_lost", "total_recovered", "total_renewed",
    "total_rejected", "total_rate_limited", "total_cleaned", "failure_percent",
]  # fmt: skip


@pytest.fixture
def seeded(shell: Shell) -> Shell:
    with store_of(shell) as queue:
        seed(queue)
    return shell


def test_a_window_of_every_queue_and_the_whole_store(seeded: Shell) -> None:
    *queues, whole = run_here(seeded, "stats", "-o", "json").json
    assert [each["queue"] for each in queues] == ["default", "mail", "reports"]
    assert list(whole) == [
        "queue", "state", "at", "since", "pending", "running", "scheduled", "blocked",
        "pending_low", "pending_medium", "pending_high", "pending_critical",
        "oldest_pending_age_seconds", "active_workers", "throughput_per_second", *HAPPENED,
    ]  # fmt: skip
    assert (whole["queue"], whole["pending"], whole["submitted"]) == (None, 2, 4)
    assert (queues[0]["completed"], queues[0]["failed"], queues[0]["error_rate"]) == (1, 1, 0.5)
    assert queues[0]["run_count"] == 2
    assert queues[0]["run_p95_seconds"] is not None
    assert (queues[1]["state"], queues[1]["run_p95_seconds"]) == ("paused", None)
    [one] = run_here(seeded, "stats", "mail", "--window", "48h", "-o", "jsonl").jsonl
    assert (one["queue"], one["pending"]) == ("mail", 1)


def test_a_narrow_terminal_does_without_some(seeded: Shell) -> None:
    with Terminal(seeded.command("stats"), cwd=seeded.folder, env=seeded.environment) as terminal:
        assert terminal.end() == 0
        window, heading = terminal.text.splitlines()[:2]
    assert window.startswith("in the last 1h, since 2")
    assert heading.split("  ")[0] == "QUEUE"
    assert "PENDING   OLDEST   RUNNING   DONE/S   FAILED %   WAIT P95   RUN P95" in heading
    assert "P99" not in heading
    everything = run_here(seeded, "stats").out.splitlines()[0]
    assert everything.split()[-3:] == ["RUN", "P99", "WORKERS"]


def test_minutes_and_days(seeded: Shell) -> None:
    minutes = run_here(seeded, "stats", "--by", "minute", "--last", "5", "-o", "json").json
    assert [list(each) for each in minutes] == [["queue", "at", "pending", *HAPPENED]] * 5
    assert sum(each["submitted"] for each in minutes) == 4
    days = run_here(seeded, "stats", "mail", "default", "--by", "day", "-o", "jsonl").jsonl
    assert [each["queue"] for each in days] == ["mail"] * 30 + ["default"] * 30
    assert list(days[0]) == ["queue", "day", "pending", *HAPPENED]
    assert sum(each["completed"] for each in days) == 1
    table = run_here(seeded, "stats", "--by", "day", "--last", "2").out.splitlines()
    assert table[0].split()[:3] == ["DAY", "SUBMITTED", "COMPLETED"]
    assert [line.split()[0] for line in table[2:]] == [each["day"] for each in days[28:30]]
    assert "QUEUE" in run_here(seeded, "stats", "mail", "--by", "minute").out


def test_lifetime_totals(seeded: Shell) -> None:
    command = seeded.command("stats", "--totals")
    with Terminal(command, cwd=seeded.folder, env=seeded.environment) as terminal:
        assert terminal.end() == 0
        shown = terminal.text
    assert golden(shown) == golden("""
since the store was created:
QUEUE     SUBMITTED   COMPLETED   FAILED   RETRIED   DEAD   CANCELLED   FAILED %
────────────────────────────────────────────────────────────────────────────────
default           2           1        1         0      1           0       50.0
mail              1           0        0         0      0           0          -
reports           1           0        0         0      0           0          -
(all)             4           1        1         0      1           0       50.0
""")
    *queues, whole = run_here(seeded, "stats", "--totals", "-o", "json").json
    assert list(whole) == ["queue", "state", *FIGURES, *TOTALS]
    assert whole["queue"] is None
    assert whole["total_submitted"] == sum(each["total_submitted"] for each in queues) == 4


def test_waits_by_priority(seeded: Shell) -> None:
    with store_of(seeded) as queue:
        queue.submit("work", priority=100)
        assert queue.lease() is not None
    bands = run_here(seeded, "stats", "default", "--by", "priority", "-o", "json").json
    assert [each["priority"] for each in bands] == ["critical", "high", "medium", "low"]
    assert [(each["submitted"], each["leased"]) for each in bands] == [
        (1, 1),
        (0, 0),
        (2, 2),
        (0, 0),
    ]
    assert bands[0]["wait_p95_seconds"] is not None
    assert bands[1]["wait_p95_seconds"] is None
    table = run_here(seeded, "stats", "--by", "priority", "--window", "5m").out.splitlines()
    assert table[0].split()[:4] == ["QUEUE", "PRIORITY", "PENDING", "SUBMITTED"]
    assert table[2].split()[:4] == ["(all)", "critical", "0", "1"]


def test_what_fails_and_who_worked(seeded: Shell) -> None:
    [failure] = run_here(seeded, "stats", "--by", "error", "-o", "json").json
    assert (failure["count"], failure["queue"], failure["task"]) == (1, "default", "work")
    assert failure["jobs"] == ["two"]
    table = run_here(seeded, "stats", "default", "--by", "error").out.splitlines()
    assert table[0].split()[:4] == ["TIMES", "QUEUE", "TASK", "ERROR"]
    assert table[2].split()[:3] == ["1", "default", "work"]
    assert "nothing has failed" in run_here(seeded, "stats", "mail", "--by", "error").err
    workers = run_here(seeded, "stats", "--by", "worker", "-o", "json").json
    assert sum(each["leased"] for each in workers) == 2
    assert sum(each["failed"] for each in workers) == 1
    assert "nothing was retried" in run_here(seeded, "stats", "--by", "attempt").err


def test_metrics_over_time(seeded: Shell) -> None:
    names = ("--metric", "submitted,wait_p95_seconds", "--since", "-3m")
    minutes = run_here(seeded, "stats", *names, "-o", "json").json
    assert [list(each) for each in minutes] == [
        ["queue", "at", "known", "submitted", "wait_p95_seconds"]
    ] * len(minutes)
    assert len(minutes) == 4
    assert sum(each["submitted"] for each in minutes) == 4
    assert run_here(seeded, "stats", *names).out.splitlines()[0].split() == [
        "MINUTE", "SUBMITTED", "WAIT_P95_SECONDS",
    ]  # fmt: skip
    old = run_here(seeded, "stats", "mail", "--metric", "leased", "--since", "-50h",
                   "--until", "-49h", "-o", "jsonl")  # fmt: skip
    assert {(each["known"], each["leased"]) for each in old.jsonl} == {(False, None)}
    assert "figures by the minute begin at" in old.err


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["nobody"], Exit.NOT_FOUND, "no queue 'nobody'"),
        (["nobody", "--by", "day"], Exit.NOT_FOUND, "no queue 'nobody'"),
        (["--totals", "--by", "day"], Exit.USAGE, "one of --window, --by and --totals"),
        (["--totals", "--window", "1h"], Exit.USAGE, "one of --window, --by and --totals"),
        (["--last", "5"], Exit.USAGE, "--last is for --by"),
        (["--by", "priority", "--last", "5"], Exit.USAGE, "--last is for --by"),
        (["--by", "worker", "--window", "1h"], Exit.USAGE, "one of --window, --by and --totals"),
        (["mail", "--by", "worker"], Exit.USAGE, "covers all queues"),
        (["nobody", "--by", "priority"], Exit.NOT_FOUND, "no queue 'nobody'"),
        (["nobody", "--by", "error"], Exit.NOT_FOUND, "no queue 'nobody'"),
        (["nobody", "--metric", "failed"], Exit.NOT_FOUND, "no queue 'nobody'"),
        (["--since", "-1h"], Exit.USAGE, "are for --metric"),
        (["--metric", "failed", "--totals"], Exit.USAGE, "--metric can be combined with"),
        (["--metric", "failed", "--by", "worker"], Exit.USAGE, "--metric can be combined with"),
        (["--metric", "fialed"], Exit.USAGE, "there is no metric 'fialed'"),
        (["--window", "49h"], Exit.USAGE, "--by day"),
        (["--window", "0"], Exit.USAGE, "from 1s to 48h"),
        (["--by", "minute", "--last", "2881"], Exit.USAGE, "at most 2,880"),
    ],
)
def test_what_makes_no_sense(seeded: Shell, arguments: list[str], code: Exit, why: str) -> None:
    done = run_here(seeded, "stats", *arguments)
    assert (done.code, done.out) == (code, "")
    assert why in done.err


def test_by_task_says_which_one_is_slow_and_which_one_fails(seeded: Shell) -> None:
    with store_of(seeded) as queue:
        for job_id in ("swift-1", "swift-2"):
            queue.submit("shop:swift", job_id=job_id, queue="tasks")
            lease = queue.lease("tasks", wait=0)
            assert lease is not None
            queue.ack(lease)
    [swift] = [
        each
        for each in json.loads(run_here(seeded, "stats", "--by", "task", "-o", "json").out)
        if each["task"] == "shop:swift"
    ]
    assert (swift["completed"], swift["dead"], swift["failures"]) == (2, 0, 0)
    [queue_figures] = json.loads(run_here(seeded, "stats", "tasks", "-o", "json").out)
    names = [
        f"{kind}_{share}_seconds" for kind in ("wait", "run") for share in ("p50", "p95", "p99")
    ]
    for name in names:
        assert swift[name] == queue_figures[name], "one figure, whichever command shows it"
    assert 0 <= swift["run_p50_seconds"] <= swift["run_p95_seconds"]
    assert swift["run_p95_seconds"] <= 1.1 * swift["run_max_seconds"]
    assert run_here(seeded, "stats", "tasks", "--by", "task").out.split()[0] == "TASK"


def test_what_ended_since_then(seeded: Shell) -> None:
    with store_of(seeded) as queue:
        ended = queue.count(status=("completed", "cancelled", "dead")).jobs
    assert ended
    assert run_here(seeded, "list", "--since", "-1h", "--count").out == f"{ended}\n"
    assert run_here(seeded, "list", "--until", "-1h", "--count").out == "0\n"
    assert run_here(seeded, "dlq", "list", "--since", "+1h").err == "no dead letter matches\n"
    assert run_here(seeded, "list", "--archived", "--since", "-1h").code == Exit.USAGE
