"""Why a job is not running: one sentence and its data for everything that can stand in its way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasehold.core.model.job import Job
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.outcome import JobError
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.reason import ReasonKind, reason_for
from leasehold.core.model.records import SILENT_SECONDS, WorkerInfo
from leasehold.core.model.status import Status

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=90)


def job(status: Status = Status.PENDING, **options: Any) -> Job:
    return Job(
        **{
            "id": "job", "queue": "mail", "task": "send", "status": status, "priority": 50,
            "payload_data": b"{}", "created_at": NOW, "updated_at": NOW, "run_at": NOW, **options,
        }
    )  # fmt: skip


def worker(queues: tuple[str, ...] = ("mail",), running: int = 0) -> WorkerInfo:
    return WorkerInfo(
        id="w1", host="h", pid=1, queues=queues, slots=2, started_at=NOW, heartbeat_at=NOW,
        running=running,
    )  # fmt: skip


QUEUE = QueueInfo(name="mail")


def test_a_job_whose_worker_died_waits_for_a_sweep() -> None:
    held = job(Status.RUNNING, worker="w1", lease_version=3)
    reason = reason_for(held, QUEUE, [worker()], None, NOW, lost={"w1"})
    assert reason.kind is ReasonKind.WORKER_LOST
    assert "w1 died" in reason.text
    assert reason_for(held, QUEUE, [worker()], None, NOW, lost={"w2"}).kind is ReasonKind.RUNNING


def test_nobody_serves_a_queue_whose_workers_are_dead_or_silent() -> None:
    workers = [worker()]
    assert reason_for(job(), QUEUE, workers, 0, NOW).kind is ReasonKind.NEXT
    assert reason_for(job(), QUEUE, workers, 0, NOW, lost={"w1"}).kind is ReasonKind.NO_WORKER
    later = NOW + timedelta(seconds=SILENT_SECONDS)
    assert reason_for(job(), QUEUE, workers, 0, later).kind is ReasonKind.NEXT
    later += timedelta(seconds=1)
    assert reason_for(job(), QUEUE, workers, 0, later).kind is ReasonKind.NO_WORKER


def test_nobody_else_can_serve_a_store_in_memory() -> None:
    alone = reason_for(job(), QUEUE, [], 0, NOW, is_in_memory=True)
    assert alone.kind is ReasonKind.NO_WORKER
    assert alone.text == (
        "No worker serves queue 'mail', and only this process can run the jobs of a store in "
        'memory: use TaskQueue("memory://", num_workers=1), or drain(queue) in a test.'
    )
    assert "command" not in alone.details
    others = reason_for(job(), QUEUE, [worker(("print",))], 0, NOW, is_in_memory=True)
    assert others.text == (
        "No worker serves queue 'mail': name it in the queues= of the TaskQueue."
    )
    busy = reason_for(job(), QUEUE, [worker(running=2)], 0, NOW, is_in_memory=True)
    assert busy.kind is ReasonKind.WORKERS_BUSY


def test_a_job_that_was_handed_back_may_have_a_renamed_task() -> None:
    about = "no worker could run it: the worker has none"
    renamed = job(Status.SCHEDULED, run_at=LATER, reason=about)
    text = reason_for(renamed, QUEUE, [worker()], None, NOW).text
    assert "If the task was renamed, add the old name to its aliases. The next try" in text
    command = job(Status.SCHEDULED, run_at=LATER, reason=about, task="command")
    assert "renamed" not in reason_for(command, QUEUE, [worker()], None, NOW).text


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.FAILED])
def test_a_job_that_was_due_before_waits_for_a_worker(status: Status) -> None:
    late = job(status, reason="no worker could run it")
    after = NOW + timedelta(seconds=1)
    reason = reason_for(late, QUEUE, [], None, after)
    assert reason.kind is ReasonKind.NO_WORKER
    assert reason.text == ("No worker serves queue 'mail': start one (no worker could run it).")
    assert reason_for(late, QUEUE, [], None, NOW - timedelta(seconds=1)).kind in (
        ReasonKind.NOT_DUE,
        ReasonKind.RETRY_WAITS,
    )
    assert reason_for(late, QUEUE, [worker()], None, after).kind is not ReasonKind.NO_WORKER


@pytest.mark.parametrize(
    ("asked", "kind", "words", "detail"),
    [
        (job(Status.COMPLETED, completed_at=NOW), ReasonKind.ENDED, "completed at", "status"),
        (
            job(Status.CANCELLED, completed_at=NOW, reason="sold out"),
            ReasonKind.ENDED,
            "sold out",
            "reason",
        ),
        (
            job(Status.DEAD, completed_at=NOW, attempts=4, error=JobError("OSError", "x")),
            ReasonKind.ENDED,
            "after 4 attempts, the last error being OSError",
            "status",
        ),
        (
            job(
                Status.RUNNING,
                worker="w9",
                lease_version=3,
                lease_acquired_at=NOW,
                lease_expires_at=LATER,
            ),
            ReasonKind.RUNNING,
            "on w9 since 2030-01-01",
            "lease_version",
        ),
        (job(Status.SCHEDULED, run_at=LATER), ReasonKind.NOT_DUE, "in 1m30s", "run_at"),
        (
            job(Status.FAILED, run_at=LATER, attempts=1, error=JobError("OSError", "no line")),
            ReasonKind.RETRY_WAITS,
            "Attempt 1 of 4 failed with OSError: no line",
            "attempts",
        ),
        (job(Status.BLOCKED, depends_on=("a", "b")), ReasonKind.BLOCKED, "a and b", "depends_on"),
        (
            job(Status.BLOCKED, depends_on=tuple(f"job-{n}" for n in range(10_000))),
            ReasonKind.BLOCKED,
            "job-0, job-1, job-2 and 9,997 others.",
            "depends_on",
        ),
    ],
)
def test_a_job_that_is_not_pending(asked: Job, kind: ReasonKind, words: str, detail: str) -> None:
    reason = reason_for(asked, QUEUE, [], None, NOW)
    assert reason.kind is kind
    assert words in reason.text
    assert str(reason) == reason.text
    assert detail in reason.details


PAUSED = QueueInfo(name="mail", state=QueueState.PAUSED)
HELD = QueueInfo(name="mail", held_until={"send": LATER})
FULL = QueueInfo(name="mail", config=QueueConfig(max_concurrency=2), running=2)


@pytest.mark.parametrize(
    ("queue", "workers", "position", "kind", "words"),
    [
        (PAUSED, [worker()], 0, ReasonKind.QUEUE_PAUSED, "'mail' is paused"),
        (HELD, [worker()], 0, ReasonKind.BREAKER_OPEN, "until 2030-01-01T00:01:30"),
        (FULL, [worker()], 0, ReasonKind.LIMIT_REACHED, "2 jobs at once and 2 are running"),
        (QUEUE, [], 0, ReasonKind.NO_WORKER, "No worker serves queue 'mail'"),
        (QUEUE, [worker(("other",))], 0, ReasonKind.NO_WORKER, "start one"),
        (QUEUE, [worker(running=2)], 0, ReasonKind.WORKERS_BUSY, "busy"),
        (QUEUE, [worker()], 7, ReasonKind.OTHERS_FIRST, "7 jobs"),
        (QUEUE, [worker()], 0, ReasonKind.NEXT, "next to be leased"),
    ],
)
def test_a_pending_job(
    queue: QueueInfo, workers: list[WorkerInfo], position: int, kind: ReasonKind, words: str
) -> None:
    reason = reason_for(job(), queue, workers, position, NOW)
    assert reason.kind is kind
    assert words in reason.text


def test_draining_is_no_reason() -> None:
    draining = QueueInfo(name="mail", state=QueueState.DRAINING)
    assert reason_for(job(), draining, [worker()], 0, NOW).kind is ReasonKind.NEXT


def test_a_breaker_of_another_task_is_no_reason() -> None:
    other = QueueInfo(name="mail", held_until={"resize": LATER})
    assert reason_for(job(), other, [worker()], 0, NOW).kind is ReasonKind.NEXT


def test_the_limit_of_its_key() -> None:
    limited = QueueInfo(name="mail", config=QueueConfig(key_concurrency=2))
    keyed = job(limit_key="tenant-7")
    reason = reason_for(keyed, limited, [worker()], 0, NOW, KeyInfo(2))
    assert reason.kind is ReasonKind.KEY_LIMIT_REACHED
    assert "Key 'tenant-7' has 2 of 2 jobs running" in reason.text
    assert reason_for(keyed, limited, [worker()], 0, NOW, KeyInfo(1)).kind is ReasonKind.NEXT
    assert reason_for(job(), limited, [worker()], 0, NOW, KeyInfo(2)).kind is ReasonKind.NEXT
    assert reason_for(keyed, QUEUE, [worker()], 0, NOW, KeyInfo(2)).kind is ReasonKind.NEXT


def test_the_start_rate_of_its_queue() -> None:
    config = QueueConfig(starts_per_second=5)
    paced = QueueInfo(name="mail", config=config, next_start_at=NOW + timedelta(seconds=0.2))
    reason = reason_for(job(), paced, [worker()], 0, NOW)
    assert reason.kind is ReasonKind.START_RATE_REACHED
    assert "starts at most 5 jobs per second: the next may start at" in reason.text
    assert reason.text.endswith("in 200ms.")
    assert reason.details["next_start_at"] == paced.next_start_at
    free = QueueInfo(name="mail", config=config)
    assert reason_for(job(), free, [worker()], 0, NOW).kind is ReasonKind.NEXT


def test_the_start_rate_of_its_key() -> None:
    config = QueueConfig(starts_per_second=5, key_starts_per_second=0.5)
    paced = QueueInfo(name="mail", config=config, next_start_at=NOW + timedelta(seconds=0.2))
    keyed = job(limit_key="tenant-7")
    resting = KeyInfo(0, NOW + timedelta(seconds=2))
    reason = reason_for(keyed, paced, [worker()], 0, NOW, resting)
    assert reason.kind is ReasonKind.KEY_START_RATE_REACHED
    assert "at most 0.5 jobs per second of key 'tenant-7'" in reason.text
    soon = KeyInfo(0, NOW + timedelta(seconds=0.1))
    later = reason_for(keyed, paced, [worker()], 0, NOW, soon)
    assert later.kind is ReasonKind.START_RATE_REACHED
