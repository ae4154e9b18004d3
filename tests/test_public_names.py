"""The public surface is a promise: this test changes only when the promise does."""

from __future__ import annotations

import subprocess
import sys

import leasehold
import leasehold.errors
import leasehold.testing

NAMES = [
    "TaskQueue",
    "AsyncTaskQueue",
    "Task",
    "AsyncTask",
    "AwaitedTask",
    "NewJob",
    "JobHandle",
    "AsyncJobHandle",
    "Workflow",
    "WorkflowRun",
    "chain",
    "group",
    "Graph",
    "GraphNode",
    "Connection",
    "current_job",
    "JobContext",
    "JobIdFilter",
    "Snooze",
    "Retry",
    "Cancel",
    "PermanentError",
    "RetryableError",
    "Job",
    "Status",
    "Event",
    "Priority",
    "Attempt",
    "HistoryEvent",
    "JobError",
    "JobLog",
    "LogLine",
    "JobFilter",
    "Page",
    "Count",
    "WorkerInfo",
    "CurrentJob",
    "AuditRecord",
    "CancelAll",
    "ReplayAll",
    "DiscardAll",
    "ReprioritizeAll",
    "PurgeAll",
    "Plan",
    "Operation",
    "Pin",
    "OperationState",
    "QueueConfig",
    "QueueInfo",
    "QueueState",
    "QueueRetention",
    "SettingInfo",
    "Reason",
    "ReasonKind",
    "QueueMetrics",
    "MinutePoint",
    "DayPoint",
    "Durations",
    "Timeline",
    "Failure",
    "WorkerTotals",
    "RetentionPolicy",
    "CleanUp",
    "ArchivedJob",
    "Exponential",
    "Linear",
    "Constant",
    "Delays",
    "Breaker",
    "Cron",
    "Every",
    "Schedule",
    "Lease",
    "Renewed",
    "Settled",
    "KeepAlive",
    "KeyInfo",
    "LeaseholdError",
    "InvalidJobError",
    "PayloadError",
    "PayloadTooLargeError",
    "TaskNotImportableError",
    "InvalidScheduleError",
    "ScheduleNotFoundError",
    "CycleError",
    "InvalidRetentionError",
    "InvalidSettingError",
    "DuplicateJobError",
    "IdempotencyConflictError",
    "JobNotFoundError",
    "UnknownDependencyError",
    "InvalidTransitionError",
    "LeaseLostError",
    "LeaseConflictError",
    "LeaseExpiredError",
    "QueueFullError",
    "RateLimitedError",
    "QueueClosedError",
    "InvalidQueueError",
    "QueueExistsError",
    "QueueNotFoundError",
    "QueueNotEmptyError",
    "InvalidWindowError",
    "InvalidFilterError",
    "InvalidPageError",
    "InvalidCursorError",
    "InvalidOrderError",
    "InvalidRequestError",
    "RequestTooLargeError",
    "InvalidFieldError",
    "UnknownFieldError",
    "UnauthenticatedError",
    "ForbiddenError",
    "InvalidPinError",
    "InvalidTokenError",
    "TokenExistsError",
    "BackupExistsError",
    "TokenNotFoundError",
    "OperationNotFoundError",
    "WorkerNotFoundError",
    "UnknownTaskError",
    "JobFailedError",
    "JobCancelledError",
    "JobTimeoutError",
    "ResultExpiredError",
    "ResultTimeoutError",
    "BlobError",
    "BlobLostError",
    "BlobDamagedError",
    "BlobUnavailableError",
    "TransactionError",
    "UnsupportedError",
    "StoreError",
    "StoreUnavailableError",
    "StoreBusyError",
    "StoreFullError",
    "StoreCorruptError",
    "StoreLostError",
    "StoreMovedError",
    "StoreVersionError",
    "StoreClosedError",
]

HEAVY = [
    "asyncio",
    "apsw",
    "multiprocessing",
    "concurrent.futures",
    "subprocess",
    "click",
    "pydantic",
    "hypothesis",
    "pytest",
    "inspect",
    "msgspec",
    "logging",
    "threading",
    "json",
    "pickle",
    "socket",
    "cronsim",
    "zoneinfo",
]


def test_the_public_names_are_these() -> None:
    assert leasehold.__all__ == NAMES
    assert dir(leasehold) == sorted(NAMES)


def test_every_public_name_is_there() -> None:
    for name in NAMES:
        assert getattr(leasehold, name).__name__ == name


def test_every_error_is_public() -> None:
    errors = {
        name
        for name, value in vars(leasehold.errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    # The root that errors of tasks share with ours is for whoever carries errors, not for catching.
    assert errors - {"CodedError"} <= set(NAMES)


def test_the_testing_kit_is_these_names() -> None:
    assert leasehold.testing.__all__ == [
        "Drained",
        "Env",
        "InlineQueue",
        "ManualClock",
        "assert_submitted",
        "drain",
        "memory_queue",
        "refute_submitted",
        "submitted",
    ]


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(leasehold, "Celery")


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print('\\n'.join(sys.modules))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


def test_importing_leasehold_loads_nothing_heavy() -> None:
    assert loaded_by("import leasehold") & set(HEAVY) <= loaded_by("import typing")


def test_a_producer_loads_no_worker_and_no_other_store() -> None:
    loaded = loaded_by(
        "from leasehold import TaskQueue; TaskQueue('memory://', num_workers=0).submit('t', 1)"
    )
    assert not loaded & {
        "apsw",
        "asyncio",
        "concurrent.futures",
        "cronsim",
        "leasehold.worker.worker",
        "multiprocessing",
        "pydantic",
        "subprocess",
    }


def test_the_testing_kit_needs_no_test_framework() -> None:
    assert not loaded_by("import leasehold.testing") & {"pytest", "hypothesis"}
