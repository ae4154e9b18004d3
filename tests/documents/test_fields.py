"""Documents for the outside keep their field names, tell times in UTC and durations in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import msgspec
import pytest

from leasehold import NewJob, TaskQueue, WorkerInfo
from leasehold.core.model.timing import Every
from leasehold.documents.jobs import attempt_document, job_document, letter_document
from leasehold.documents.metrics import metrics_document, point_document
from leasehold.documents.queues import queue_document, totals_document
from leasehold.documents.records import document_of
from leasehold.documents.schedules import schedule_document

ZONED: Final = datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))

JOB: Final = (
    "id queue task status priority created_at updated_at run_at deadline started_at "
    "completed_at attempts max_retries allowance retry timeout_seconds lease_seconds start_by "
    "result_ttl_seconds worker lease_version lease_acquired_at lease_expires_at heartbeat_at "
    "cancel_requested result_expired error failure_count first_failed_at last_failed_at reason "
    "progress metadata idempotency_key parent_id depends_on on_dependency_failure "
    "inherited_priority limit_key payload result stdout_path stderr_path"
)
ATTEMPT: Final = (
    "job_id lease_version number worker started_at ended_at outcome error message note "
    "lease_expires_at heartbeat_at duration_seconds"
)
EVENT: Final = "job_id sequence at event before after worker lease_version attempts message"
AUDIT: Final = "at actor action detail count archived"
WORKER: Final = (
    "id host pid queues slots started_at heartbeat_at running is_consumer tasks jobs app_version"
)
STATUSES: Final = "scheduled blocked pending running failed completed dead cancelled"
CHANGES: Final = "created_at created_by changed_at changed_by"
QUEUE: Final = f"queue state {STATUSES} config held_until next_start_at {CHANGES}"
TOTALS: Final = (
    f"queue state {STATUSES} total_submitted total_leased total_completed total_failed "
    "total_retried total_dead total_cancelled total_lost total_recovered total_renewed "
    "total_rejected total_rate_limited total_cleaned failure_percent"
)
HAPPENED: Final = (
    "submitted leased completed failed retried dead cancelled lost recovered renewed rejected "
    "rate_limited cleaned deepest error_rate "
    "wait_count wait_mean_seconds wait_p50_seconds wait_p95_seconds wait_p99_seconds "
    "run_count run_mean_seconds run_p50_seconds run_p95_seconds run_p99_seconds "
    "held_count held_mean_seconds held_p50_seconds held_p95_seconds held_p99_seconds "
    "submitted_low submitted_medium submitted_high submitted_critical "
    + " ".join(
        f"wait_{band}_{figure}"
        for band in ("low", "medium", "high", "critical")
        for figure in ("count", "mean_seconds", "p50_seconds", "p95_seconds", "p99_seconds")
    )
    + " retries"
)
METRICS: Final = (
    "queue state at since pending running scheduled blocked pending_low pending_medium "
    "pending_high pending_critical oldest_pending_age_seconds active_workers "
    f"throughput_per_second {HAPPENED}"
)
POINT: Final = f"queue at pending {HAPPENED}"
DAY: Final = f"queue day pending {HAPPENED}"
SCHEDULE: Final = (
    "name state timing cron zone every_seconds starting task queue payload priority max_retries "
    "timeout_seconds metadata misfire catch_up_max grace_seconds overlap declared_in orphaned "
    "next_at overdue next_runs "
    "last_at last_job_id fired missed missed_at error created_at updated_at"
)


@pytest.fixture
def queue() -> Iterator[TaskQueue]:
    with TaskQueue("memory://", num_workers=0) as queue:
        yield queue


@pytest.fixture
def dead(queue: TaskQueue) -> str:
    [handle] = queue.submit_many([NewJob("report", max_retries=0, deadline=ZONED)])
    lease = queue.lease(worker="w")
    assert lease is not None
    queue.nack(lease, "no paper")
    return handle.id


def names(document: dict[str, Any]) -> str:
    return " ".join(document)


def in_json(document: dict[str, Any]) -> dict[str, Any]:
    return dict(msgspec.json.decode(msgspec.json.encode(document)))


def test_jobs(queue: TaskQueue, dead: str) -> None:
    job = queue.get(dead)
    assert names(job_document(job)) == JOB
    assert names(letter_document(job)) == f"{JOB} why"
    assert letter_document(job)["why"] == "Nack: no paper"
    told = in_json(job_document(job))
    assert told["deadline"] == "2029-12-31T23:00:00Z"
    assert told["payload"] == {"args": [], "kwargs": {}}
    assert told["status"] == "dead"


def test_what_happened_to_a_job(queue: TaskQueue, dead: str) -> None:
    [attempt] = queue.attempts(dead)
    assert names(attempt_document(attempt)) == ATTEMPT
    events = queue.history(dead)
    assert {names(document_of(event)) for event in events} == {EVENT}
    assert in_json(document_of(events[0]))["at"].endswith("Z")


def test_audit_and_workers(queue: TaskQueue, dead: str) -> None:
    queue.discard(dead)
    assert {names(document_of(record)) for record in queue.audit_log()} == {AUDIT}
    assert " ".join(WorkerInfo.__struct_fields__) == WORKER


def test_queues(queue: TaskQueue, dead: str) -> None:
    assert names(queue_document(queue.queue_info("default"))) == QUEUE
    totals = totals_document(None, None, queue.get_queue_stats())
    assert names(totals) == TOTALS
    assert totals["failure_percent"] == 100


def test_metrics(queue: TaskQueue, dead: str) -> None:
    assert names(metrics_document(queue.metrics(), None)) == METRICS
    assert {names(point_document(None, point)) for point in queue.series(None, 2)} == {POINT}
    assert {names(point_document(None, point)) for point in queue.daily(None, 1)} == {DAY}


def test_schedules(queue: TaskQueue) -> None:
    queue.schedule("nightly", "report", Every(3600, starting=ZONED))
    document = schedule_document(queue.schedules.get("nightly"), queue.now())
    assert names(document) == SCHEDULE
    assert in_json(document)["starting"] == "2029-12-31T23:00:00Z"
    assert document["every_seconds"] == 3600
