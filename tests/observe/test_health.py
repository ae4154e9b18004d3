"""The health checks: every trouble they know, made up, and what they say of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.schedule import Schedule, ScheduleDraft, declared, paused, refused
from leasehold.core.model.timing import Every
from leasehold.observe.findings import Finding, Level
from leasehold.observe.health import CHECKS, Facts, examine

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STORE = {
    "kind": "sqlite",
    "path": "/var/jobs.db",
    "sqlite_version": "3.60.0",
    "schema_version": 5,
    "journal_mode": "wal",
    "file_system": "ext4",
    "free_bytes": 10 * 1024**3,
    "wal_bytes": 1024,
    "warning": None,
    "writing": [],
    "seal": None,
    "oldest_transaction": None,
    "redis": {"path": "redis://cache", "is_up": True, "problem": None, "evicted_keys": 0},
}
OLD = {"oldest_transaction": {"pid": 9, "application": "pg_dump", "host": "db2", "seconds": 601.0}}
FULL = {"is_up": True, "evicted_keys": 1234, "used_bytes": 95, "max_bytes": 100}
AWAY = {"is_up": False, "problem": "connection refused"}
SCHEDULE = declared(
    None, ScheduleDraft(name="nightly", timing=Every(60), job=Draft(id="x", task="t")), NOW
)
ORPHAN = declared(
    None,
    msgspec.structs.replace(SCHEDULE.draft, declared_in="shop", orphaned=True),
    NOW,
)


def worker(**fields: Any) -> WorkerInfo:
    about: dict[str, Any] = {
        "id": "w1",
        "host": "here",
        "pid": 7,
        "queues": ("default",),
        "slots": 4,
        "started_at": NOW,
        "heartbeat_at": NOW,
    }
    return WorkerInfo(**{**about, **fields})


def held(seconds: float, *, stopped: bool = False) -> dict[str, Any]:
    since = (NOW - timedelta(seconds=seconds)).isoformat()
    return {"pid": 7, "what": "is busy", "since": since, "stopped": stopped}


def stuck(holder: str, expires_in: float) -> StuckJob:
    return StuckJob(
        job_id="job1",
        queue="default",
        task="t",
        priority=50,
        worker=holder,
        lease_version=1,
        attempts=1,
        started_at=NOW,
        heartbeat_at=NOW,
        lease_expires_at=NOW + timedelta(seconds=expires_in),
    )


def late(seconds: float) -> Schedule:
    due = NOW - timedelta(seconds=seconds)
    return msgspec.structs.replace(SCHEDULE, next_at=due, due_at=due)


def facts(store: dict[str, Any] | None = None, **known: Any) -> Facts:
    return Facts(**{"store": {**STORE, **(store or {})}, "now": NOW, "wall_clock": NOW, **known})


def findings(given: Facts) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(given)}


def test_an_overdue_schedule_is_told_with_what_fires_it() -> None:
    # A consumer fires what is due only when it leases, so it is not counted on.
    consumer = worker(is_consumer=True)
    unserved = findings(facts(schedules=[late(11)], workers=[consumer]))["overdue_schedules"]
    assert (unserved.meaning, unserved.advice) == (
        "workers fire schedules, and none is running",
        "queuectl worker start --queues default --import MODULE",
    )
    served = findings(facts(schedules=[late(11)], workers=[worker()]))["overdue_schedules"]
    assert "worker logs" in served.advice
    for fine in (late(9), paused(late(11), NOW), refused(late(11), NOW, ValueError("full"))):
        assert findings(facts(schedules=[fine]))["overdue_schedules"].level is Level.OK


def test_a_healthy_store_is_ok_in_everything() -> None:
    found = findings(facts(workers=[worker()], schedules=[SCHEDULE]))
    assert {finding.level for finding in found.values()} == {Level.OK}
    assert list(found) == [check.__name__ for check in CHECKS]


def test_a_consumer_beats_as_it_likes_and_a_worker_may_miss_a_beat() -> None:
    consumer = worker(is_consumer=True, heartbeat_at=NOW - timedelta(seconds=100))
    hasty = worker(heartbeat_at=NOW - timedelta(seconds=70))
    for each in (consumer, hasty):
        assert findings(facts(workers=[each]))["workers"].level is Level.OK


def test_a_write_that_has_just_begun_is_no_trouble() -> None:
    assert findings(facts({"writing": [held(1)]}))["write_lock"].level is Level.OK


def test_redis_says_for_how_many_tasks_leases_ask_it() -> None:
    asked = {**STORE["redis"], "indexed_lanes": 2}  # type: ignore[dict-item]
    found = findings(facts({"redis": asked}))["redis"]
    assert found.level is Level.OK
    assert "leases find the jobs of 2 tasks through it" in found.found
    assert "leases" not in findings(facts())["redis"].found


def test_a_transaction_that_is_not_old_is_no_trouble() -> None:
    young = {"oldest_transaction": {**OLD["oldest_transaction"], "seconds": 599.0}}
    assert findings(facts(young))["old_transaction"].level is Level.OK


def test_a_store_in_memory_has_no_disk() -> None:
    found = findings(Facts(store={"kind": "memory"}, now=NOW, wall_clock=NOW))
    assert set(found) == {
        "clock",
        "workers",
        "pid_files",
        "leases",
        "unknown_tasks",
        "schedules",
        "overdue_schedules",
        "orphaned_schedules",
        "clean_ups",
        "dead_letters",
    }


@pytest.mark.parametrize(
    ("check", "level", "told", "given"),
    [
        ("journal_mode", "critical", "delete", facts({"journal_mode": "delete"})),
        ("file_system", "warning", "tmpfs", facts({"file_system": "tmpfs"})),
        ("file_system", "warning", "overlay", facts({"file_system": "overlay"})),
        ("permissions", "warning", "mode 644", facts({"warning": "mode 644"})),
        ("disk", "warning", "0.5 GiB", facts({"free_bytes": 512 * 1024**2})),
        ("disk", "critical", "20 MiB", facts({"free_bytes": 20 * 1024**2})),
        ("write_ahead_log", "warning", "1,024.0 MiB", facts({"wal_bytes": 1024**3})),
        ("write_lock", "warning", "process 7 is busy for 6s", facts({"writing": [held(6)]})),
        ("write_lock", "critical", "is busy for 1m", facts({"writing": [held(60)]})),
        ("write_lock", "critical", "7 (stopped)", facts({"writing": [held(1, stopped=True)]})),
        ("seal", "critical", "is being moved", facts({"seal": "it is being moved: run it again"})),
        ("old_transaction", "warning", "(pg_dump, db2) has had", facts(OLD)),
        ("redis", "warning", "refused", facts({"redis": {"path": "redis://cache", **AWAY}})),
        ("redis", "critical", "1,234 key", facts({"redis": {"path": "redis://cache", **FULL}})),
        ("clock", "warning", "3s", facts(wall_clock=NOW - timedelta(seconds=3))),
        ("clock", "critical", "1h behind", facts(wall_clock=NOW - timedelta(hours=1))),
        ("workers", "warning", "w1 died", facts(workers=[worker()], lost_workers=["w1"])),
        (
            "workers",
            "warning",
            "w1 has been silent since 20",
            facts(workers=[worker(heartbeat_at=NOW - timedelta(seconds=121))]),
        ),
        (
            "workers",
            "warning",
            "w1 is late: its last heartbeat was 1m20s ago, and 1 more",
            facts(workers=[worker(heartbeat_at=NOW - timedelta(seconds=80)) for _ in range(2)]),
        ),
        (
            "workers",
            "warning",
            "w1 is late: its last heartbeat was 13s ago",
            facts(workers=[worker(heartbeat_at=NOW - timedelta(seconds=13))], beat_seconds=5),
        ),
        ("pid_files", "warning", "process 7 is gone, and 1 more", facts(stale_pids=[7, 8])),
        ("leases", "warning", "job1", facts(stuck=[stuck("w1", 100)])),
        ("leases", "critical", "job1", facts(stuck=[stuck("w1", -1)], workers=[worker()])),
        ("unknown_tasks", "warning", "ghost", facts(unrunnable={"ghost": "no task named ghost"})),
        (
            "schedules",
            "warning",
            "nightly: ValueError: full",
            facts(schedules=[refused(SCHEDULE, NOW, ValueError("full"))]),
        ),
        ("overdue_schedules", "warning", "nightly is 11s overdue", facts(schedules=[late(11)])),
        ("overdue_schedules", "critical", "is 5m1s overdue", facts(schedules=[late(301)])),
        ("orphaned_schedules", "warning", "nightly", facts(schedules=[ORPHAN])),
        ("dead_letters", "warning", "1,234", facts(dead_letters=1234)),
    ],
)
def test_trouble_is_found_and_says_what_to_do(
    check: str, level: str, told: str, given: Facts
) -> None:
    found = findings(given)
    finding = found.pop(check)
    assert finding.level.value == level
    assert told in finding.found
    assert finding.meaning
    assert finding.advice
    # Many who read it use no Python.
    assert not [code for code in ("queue.", "TaskQueue", "=[", "()") if code in finding.advice]
    assert {each.level for each in found.values()} <= {Level.OK}


def test_a_jump_of_the_clock_is_told_before_it_is_believed() -> None:
    found = findings(facts(wall_clock=NOW + timedelta(seconds=1)))
    assert found["clock"].level is Level.OK
    found = findings(facts(wall_clock=NOW + timedelta(days=1)))
    assert found["clock"].level is Level.WARNING
    assert found["clock"].found == "1d ahead of the store's time"


def test_a_store_that_is_ahead_names_the_repair() -> None:
    found = findings(facts(wall_clock=NOW - timedelta(days=1)))
    assert found["clock"].level is Level.CRITICAL
    assert "queuectl check --repair-clock" in (found["clock"].advice or "")


def test_a_worker_that_is_slow_but_alive_has_no_orphans() -> None:
    found = findings(facts(workers=[worker()], stuck=[stuck("w1", 100)]))
    assert found["leases"].level is Level.OK


def test_several_are_counted() -> None:
    found = findings(facts(lost_workers=["w1", "w2", "w3"]))
    assert found["workers"].found == "w1 died, and 2 more"


def test_findings_are_data() -> None:
    assert msgspec.to_builtins(findings(facts())["clock"])["level"] == "ok"
