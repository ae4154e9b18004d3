"""Leasehold: background jobs for Python. One pip install, one SQLite file, nothing lost.

>>> from leasehold import TaskQueue
>>> with TaskQueue("memory://") as queue:
...     queue.submit(len, "twelve bytes").result(timeout=10)
12
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from leasehold.aio import AsyncJobHandle, AsyncTaskQueue, AwaitedTask
    from leasehold.core.archive import ArchivedJob
    from leasehold.core.breaker import Breaker
    from leasehold.core.graph import Graph, GraphNode
    from leasehold.core.histogram import Durations
    from leasehold.core.job import Attempt, HistoryEvent, Job, Priority
    from leasehold.core.joblog import JobLog, LogLine
    from leasehold.core.lease import Lease, Renewed, Settled
    from leasehold.core.metrics import DayPoint, MinutePoint, QueueMetrics
    from leasehold.core.outcome import Cancel, JobError, Retry, Snooze
    from leasehold.core.queue_config import QueueConfig, QueueInfo, QueueState
    from leasehold.core.queue_retention import QueueRetention
    from leasehold.core.reason import Reason, ReasonKind
    from leasehold.core.records import AuditRecord, WorkerInfo
    from leasehold.core.retention import CleanUp, RetentionPolicy
    from leasehold.core.retry import Constant, Delays, Exponential, Linear
    from leasehold.core.schedule import Schedule
    from leasehold.core.search import JobFilter, Page
    from leasehold.core.status import Event, Status
    from leasehold.core.timing import Cron, Every
    from leasehold.core.transactions import Connection
    from leasehold.errors import (
        BlobDamagedError,
        BlobError,
        BlobLostError,
        BlobUnavailableError,
        CycleError,
        DuplicateJobError,
        IdempotencyConflictError,
        InvalidJobError,
        InvalidQueueError,
        InvalidRetentionError,
        InvalidScheduleError,
        InvalidSettingError,
        InvalidTransitionError,
        InvalidWindowError,
        JobCancelledError,
        JobFailedError,
        JobNotFoundError,
        JobTimeoutError,
        LeaseConflictError,
        LeaseExpiredError,
        LeaseholdError,
        LeaseLostError,
        PayloadError,
        PayloadTooLargeError,
        PermanentError,
        QueueClosedError,
        QueueExistsError,
        QueueFullError,
        QueueNotEmptyError,
        QueueNotFoundError,
        RateLimitedError,
        ResultExpiredError,
        ResultTimeoutError,
        RetryableError,
        ScheduleNotFoundError,
        StoreBusyError,
        StoreClosedError,
        StoreCorruptError,
        StoreError,
        StoreFullError,
        StoreLostError,
        StoreUnavailableError,
        StoreVersionError,
        TaskNotImportableError,
        TransactionError,
        UnknownDependencyError,
        UnknownTaskError,
        UnsupportedError,
    )
    from leasehold.queue.facade import TaskQueue
    from leasehold.queue.handle import JobHandle
    from leasehold.queue.options import NewJob
    from leasehold.queue.settings import SettingInfo
    from leasehold.queue.task import AsyncTask, Task
    from leasehold.queue.workflow import Workflow, WorkflowRun, chain, group
    from leasehold.worker.context import JobContext, current_job

__version__: Final = "0.1.0"

__all__ = [
    # What one works with.
    "TaskQueue",
    "AsyncTaskQueue",
    "Task",
    "AsyncTask",
    "AwaitedTask",
    "NewJob",
    "JobHandle",
    "AsyncJobHandle",
    # Jobs that wait for others.
    "Workflow",
    "WorkflowRun",
    "chain",
    "group",
    "Graph",
    "GraphNode",
    # Transactions of your own.
    "Connection",
    # Inside a task.
    "current_job",
    "JobContext",
    "Snooze",
    "Retry",
    "Cancel",
    "PermanentError",
    "RetryableError",
    # What one sees.
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
    "WorkerInfo",
    "AuditRecord",
    # Queues with rules.
    "QueueConfig",
    "QueueInfo",
    "QueueState",
    "QueueRetention",
    "SettingInfo",
    "Reason",
    "ReasonKind",
    # Figures.
    "QueueMetrics",
    "MinutePoint",
    "DayPoint",
    "Durations",
    # Retention.
    "RetentionPolicy",
    "CleanUp",
    "ArchivedJob",
    # Retry policies.
    "Exponential",
    "Linear",
    "Constant",
    "Delays",
    "Breaker",
    # Recurring jobs.
    "Cron",
    "Every",
    "Schedule",
    # For a consumer's own loop.
    "Lease",
    "Renewed",
    "Settled",
    # Errors.
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
    "StoreVersionError",
    "StoreClosedError",
]

_HOMES: Final = {
    "leasehold.aio": ("AsyncJobHandle", "AsyncTaskQueue", "AwaitedTask"),
    "leasehold.core.archive": ("ArchivedJob",),
    "leasehold.core.breaker": ("Breaker",),
    "leasehold.core.graph": ("Graph", "GraphNode"),
    "leasehold.core.histogram": ("Durations",),
    "leasehold.core.job": ("Attempt", "HistoryEvent", "Job", "Priority"),
    "leasehold.core.joblog": ("JobLog", "LogLine"),
    "leasehold.core.lease": ("Lease", "Renewed", "Settled"),
    "leasehold.core.metrics": ("DayPoint", "MinutePoint", "QueueMetrics"),
    "leasehold.core.outcome": ("Cancel", "JobError", "Retry", "Snooze"),
    "leasehold.core.retention": ("CleanUp", "RetentionPolicy"),
    "leasehold.core.retry": ("Constant", "Delays", "Exponential", "Linear"),
    "leasehold.core.schedule": ("Schedule",),
    "leasehold.core.queue_config": ("QueueConfig", "QueueInfo", "QueueState"),
    "leasehold.core.queue_retention": ("QueueRetention",),
    "leasehold.core.reason": ("Reason", "ReasonKind"),
    "leasehold.core.search": ("JobFilter", "Page"),
    "leasehold.core.status": ("Event", "Status"),
    "leasehold.core.records": ("AuditRecord", "WorkerInfo"),
    "leasehold.core.timing": ("Cron", "Every"),
    "leasehold.core.transactions": ("Connection",),
    "leasehold.queue.facade": ("TaskQueue",),
    "leasehold.queue.handle": ("JobHandle",),
    "leasehold.queue.options": ("NewJob",),
    "leasehold.queue.settings": ("SettingInfo",),
    "leasehold.queue.task": ("AsyncTask", "Task"),
    "leasehold.queue.workflow": ("Workflow", "WorkflowRun", "chain", "group"),
    "leasehold.worker.context": ("JobContext", "current_job"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Each name is imported when it is first asked for: `import leasehold` alone costs next to
    # nothing, and a producer never loads what only workers need.
    if name not in __all__:
        raise AttributeError(f"module 'leasehold' has no attribute {name!r}")
    from leasehold.interrupts import import_whole

    value = getattr(import_whole(_HOME_OF.get(name, "leasehold.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
