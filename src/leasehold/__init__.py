"""Leasehold: background jobs for Python. One pip install, one SQLite file, nothing lost.

>>> from leasehold import TaskQueue
>>> with TaskQueue("memory://") as queue:
...     queue.submit(len, "twelve bytes").result(timeout=10)
12
"""

from typing import TYPE_CHECKING, Any, Final

from leasehold.version import __version__ as __version__

if TYPE_CHECKING:
    from leasehold.aio import AsyncJobHandle, AsyncTaskQueue, AwaitedTask
    from leasehold.core.contract.transactions import Connection
    from leasehold.core.model.archive import ArchivedJob
    from leasehold.core.model.breaker import Breaker
    from leasehold.core.model.failure import Failure
    from leasehold.core.model.graph import Graph, GraphNode
    from leasehold.core.model.histogram import Durations
    from leasehold.core.model.history import Attempt, HistoryEvent
    from leasehold.core.model.job import Job, Priority
    from leasehold.core.model.joblog import JobLog, LogLine
    from leasehold.core.model.key_limits import KeyInfo
    from leasehold.core.model.lease import Lease, Renewed, Settled
    from leasehold.core.model.outcome import Cancel, JobError, Retry, Snooze
    from leasehold.core.model.pins import Pin
    from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
    from leasehold.core.model.queue_retention import QueueRetention
    from leasehold.core.model.reason import Reason, ReasonKind
    from leasehold.core.model.records import AuditRecord, CurrentJob, WorkerInfo, WorkerTotals
    from leasehold.core.model.retention import CleanUp, RetentionPolicy
    from leasehold.core.model.retry import Constant, Delays, Exponential, Linear
    from leasehold.core.model.schedule import Schedule
    from leasehold.core.model.search import Count, JobFilter, Page
    from leasehold.core.model.status import Event, Status
    from leasehold.core.model.timing import Cron, Every
    from leasehold.core.rules.filter_orders import (
        CancelAll,
        DiscardAll,
        PurgeAll,
        ReplayAll,
        ReprioritizeAll,
    )
    from leasehold.core.rules.metrics import DayPoint, MinutePoint, QueueMetrics
    from leasehold.core.rules.operations import Operation, OperationState, Plan
    from leasehold.core.rules.timeline import Timeline
    from leasehold.errors import (
        BackupExistsError,
        BlobDamagedError,
        BlobError,
        BlobLostError,
        BlobUnavailableError,
        CycleError,
        DuplicateJobError,
        ForbiddenError,
        IdempotencyConflictError,
        InvalidCursorError,
        InvalidFieldError,
        InvalidFilterError,
        InvalidJobError,
        InvalidOrderError,
        InvalidPageError,
        InvalidPinError,
        InvalidQueueError,
        InvalidRequestError,
        InvalidRetentionError,
        InvalidScheduleError,
        InvalidSettingError,
        InvalidTokenError,
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
        OperationNotFoundError,
        PayloadError,
        PayloadTooLargeError,
        PermanentError,
        QueueClosedError,
        QueueExistsError,
        QueueFullError,
        QueueNotEmptyError,
        QueueNotFoundError,
        RateLimitedError,
        RequestTooLargeError,
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
        StoreMovedError,
        StoreUnavailableError,
        StoreVersionError,
        TaskNotImportableError,
        TokenExistsError,
        TokenNotFoundError,
        TransactionError,
        UnauthenticatedError,
        UnknownDependencyError,
        UnknownFieldError,
        UnknownTaskError,
        UnsupportedError,
        WorkerNotFoundError,
    )
    from leasehold.queue.facade import TaskQueue
    from leasehold.queue.handle import JobHandle
    from leasehold.queue.keepalive import KeepAlive
    from leasehold.queue.options import NewJob
    from leasehold.queue.settings import SettingInfo
    from leasehold.queue.task import AsyncTask, Task
    from leasehold.queue.workflow import Workflow, WorkflowRun, chain, group
    from leasehold.worker.context import JobContext, current_job
    from leasehold.worker.loglines import JobIdFilter


__all__ = [
    # To work with.
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
    "JobIdFilter",
    "Snooze",
    "Retry",
    "Cancel",
    "PermanentError",
    "RetryableError",
    # To look at.
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
    # Orders to many jobs.
    "CancelAll",
    "ReplayAll",
    "DiscardAll",
    "ReprioritizeAll",
    "PurgeAll",
    "Plan",
    "Operation",
    "Pin",
    "OperationState",
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
    "Timeline",
    "Failure",
    "WorkerTotals",
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
    "KeepAlive",
    "KeyInfo",
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

_HOMES: Final = {
    "leasehold.aio": ("AsyncJobHandle", "AsyncTaskQueue", "AwaitedTask"),
    "leasehold.core.model.archive": ("ArchivedJob",),
    "leasehold.core.model.breaker": ("Breaker",),
    "leasehold.core.model.failure": ("Failure",),
    "leasehold.core.model.graph": ("Graph", "GraphNode"),
    "leasehold.core.model.histogram": ("Durations",),
    "leasehold.core.model.history": ("Attempt", "HistoryEvent"),
    "leasehold.core.model.job": ("Job", "Priority"),
    "leasehold.core.model.joblog": ("JobLog", "LogLine"),
    "leasehold.core.model.key_limits": ("KeyInfo",),
    "leasehold.core.model.lease": ("Lease", "Renewed", "Settled"),
    "leasehold.core.rules.filter_orders": (
        "CancelAll",
        "DiscardAll",
        "PurgeAll",
        "ReplayAll",
        "ReprioritizeAll",
    ),
    "leasehold.core.model.pins": ("Pin",),
    "leasehold.core.rules.operations": ("Operation", "OperationState", "Plan"),
    "leasehold.core.rules.metrics": ("DayPoint", "MinutePoint", "QueueMetrics"),
    "leasehold.core.rules.timeline": ("Timeline",),
    "leasehold.core.model.outcome": ("Cancel", "JobError", "Retry", "Snooze"),
    "leasehold.core.model.retention": ("CleanUp", "RetentionPolicy"),
    "leasehold.core.model.retry": ("Constant", "Delays", "Exponential", "Linear"),
    "leasehold.core.model.schedule": ("Schedule",),
    "leasehold.core.model.queue_config": ("QueueConfig", "QueueInfo", "QueueState"),
    "leasehold.core.model.queue_retention": ("QueueRetention",),
    "leasehold.core.model.reason": ("Reason", "ReasonKind"),
    "leasehold.core.model.search": ("JobFilter", "Page", "Count"),
    "leasehold.core.model.status": ("Event", "Status"),
    "leasehold.core.model.records": ("AuditRecord", "WorkerInfo", "CurrentJob", "WorkerTotals"),
    "leasehold.core.model.timing": ("Cron", "Every"),
    "leasehold.core.contract.transactions": ("Connection",),
    "leasehold.queue.facade": ("TaskQueue",),
    "leasehold.queue.handle": ("JobHandle",),
    "leasehold.queue.keepalive": ("KeepAlive",),
    "leasehold.queue.options": ("NewJob",),
    "leasehold.queue.settings": ("SettingInfo",),
    "leasehold.queue.task": ("AsyncTask", "Task"),
    "leasehold.queue.workflow": ("Workflow", "WorkflowRun", "chain", "group"),
    "leasehold.worker.context": ("JobContext", "current_job"),
    "leasehold.worker.loglines": ("JobIdFilter",),
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
