"""Every error Leasehold raises on purpose, in one tree.

    LeaseholdError
    ├── InvalidJobError                what was submitted cannot be a job
    │   ├── PayloadError               a payload or result cannot be encoded or decoded
    │   │   └── PayloadTooLargeError
    │   ├── TaskNotImportableError     a lambda or local function was given as a task
    │   └── CycleError                 jobs that would wait for each other for ever
    ├── InvalidScheduleError           what was given cannot be a schedule
    ├── ScheduleNotFoundError
    ├── InvalidRetentionError          a retention policy, or a clean-up, that makes no sense
    ├── InvalidSettingError            no such setting, or it cannot have that value
    ├── DuplicateJobError              a job with this id already exists
    ├── IdempotencyConflictError       same idempotency key, different job
    ├── JobNotFoundError
    │   └── UnknownDependencyError     what a new job depends on is not there
    ├── InvalidTransitionError         the job's status does not allow this
    ├── LeaseLostError                 the caller no longer holds the lease
    │   ├── LeaseConflictError         another holder has it now
    │   └── LeaseExpiredError          it ran out before it was renewed
    ├── QueueFullError                 the queue takes no more jobs for now
    │   └── RateLimitedError           they come too fast
    ├── QueueClosedError               submitted after shutdown, or while draining
    ├── InvalidQueueError              a queue cannot have such rules
    ├── QueueExistsError               it was created before, with other rules
    ├── QueueNotFoundError
    ├── QueueNotEmptyError             jobs are left in the queue that was to be deleted
    ├── InvalidWindowError             metrics of a time for which none are kept
    ├── InvalidFilterError             jobs cannot be selected like this
    ├── InvalidPageError               the limit of a page is out of range
    │   └── InvalidCursorError         no earlier page gave this cursor
    ├── InvalidOrderError              no such order to many jobs, or not a valid one
    ├── InvalidRequestError            a request to a service is malformed
    │   ├── RequestTooLargeError
    │   └── InvalidFieldError          a field is missing, or has an invalid value
    │       └── UnknownFieldError      a field that the request does not have
    ├── UnauthenticatedError           a service was called without a token that is good
    ├── ForbiddenError                 the token does not allow this
    ├── BackupExistsError              a backup never replaces anything
    ├── InvalidPinError                what was given cannot be pinned to a store
    ├── InvalidTokenError              what was given cannot be a token
    ├── TokenExistsError               a token of this name already exists
    ├── TokenNotFoundError
    ├── OperationNotFoundError
    ├── WorkerNotFoundError            no worker of this id is registered
    ├── UnknownTaskError               no code is registered under the job's task name
    ├── JobFailedError                 raised by result(): the job is dead
    ├── JobCancelledError              raised by result(): the job was cancelled
    ├── JobTimeoutError                also a TimeoutError: an attempt ran too long
    ├── ResultExpiredError             raised by result(): its time to live is over
    ├── ResultTimeoutError             also a TimeoutError: no result yet
    ├── BlobError                      about a large payload or result, kept apart
    │   ├── BlobLostError              it is gone: also a PermanentError
    │   ├── BlobDamagedError           it is not what was written: also a PermanentError
    │   └── BlobUnavailableError       it may work again later: also a RetryableError
    ├── TransactionError               this cannot be done in, or beside, that transaction
    ├── UnsupportedError               this store cannot do that
    └── StoreError                     the store itself cannot work
        ├── StoreUnavailableError      it may work again later
        │   └── StoreBusyError         another process keeps its write lock too long
        ├── StoreFullError             no room left for new jobs
        ├── StoreCorruptError
        ├── StoreLostError             it is gone, replaced, or was open across a fork
        ├── StoreMovedError            it was moved to another one, or is being filled from one
        ├── StoreVersionError          written by a newer Leasehold, or not a Leasehold store
        └── StoreClosedError

Each has a `code`, under which it crosses a network and comes back as the same class.

`PermanentError` and `RetryableError` are for tasks to raise (and for errors about blobs, which a
task may meet); see `core.model.retry`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from leasehold.error_codes import CodedError


class LeaseholdError(CodedError, code="leasehold"):
    """The root: catch this to catch every error that Leasehold raises on purpose."""


class InvalidJobError(LeaseholdError, ValueError, code="invalid_job"):
    """Raised when what was submitted cannot be a job; says which field and why."""


class PayloadError(InvalidJobError, code="payload"):
    """Raised when a payload or a result cannot be encoded, or not be decoded again."""


class PayloadTooLargeError(PayloadError, code="payload_too_large"):
    """Raised when an encoded payload or result is larger than the store keeps inline."""


class TaskNotImportableError(InvalidJobError, code="task_not_importable"):
    """Raised when a lambda or a local function is submitted: no worker could find it again."""


class InvalidScheduleError(LeaseholdError, ValueError, code="invalid_schedule"):
    """Raised when a cron expression, a zone or another part of a schedule makes no sense."""


class ScheduleNotFoundError(LeaseholdError, LookupError, code="schedule_not_found"):
    """Raised when no schedule has this name: it never existed or was removed."""


class CycleError(InvalidJobError, code="cycle"):
    """Raised when jobs of one call depend on each other in a circle; names them."""


class InvalidRetentionError(LeaseholdError, ValueError, code="invalid_retention"):
    """Raised when a retention policy or an order to clean up makes no sense; says what does."""


class InvalidSettingError(LeaseholdError, ValueError, code="invalid_setting"):
    """Raised when there is no such setting, or it cannot have that value; says what it may be."""


class DuplicateJobError(LeaseholdError, code="duplicate_job"):
    """Raised when a job with the caller's own id already exists."""


class IdempotencyConflictError(LeaseholdError, code="idempotency_conflict"):
    """Raised when an idempotency key is used again for a different job."""


class JobNotFoundError(LeaseholdError, LookupError, code="job_not_found"):
    """Raised when no job has this id: it never existed or was deleted."""


class UnknownDependencyError(JobNotFoundError, code="unknown_dependency"):
    """Raised when a job that a new one depends on does not exist, or was refused with it."""


class InvalidTransitionError(LeaseholdError, code="invalid_transition"):
    """Raised when a job's status does not allow what was asked; nothing was changed."""


class LeaseLostError(LeaseholdError, code="lease_lost"):
    """Raised when the caller no longer holds the lease it acts under; nothing was changed."""


class LeaseConflictError(LeaseLostError, code="lease_conflict"):
    """Raised when another holder has the lease now."""


class LeaseExpiredError(LeaseLostError, code="lease_expired"):
    """Raised when a lease ran out before it was renewed (it may still settle)."""


_FULL: Final = ("retry_after_seconds", "queue", "limit", "remaining", "reset_at")


class QueueFullError(LeaseholdError, code="queue_full", fields=_FULL):
    """Raised when a queue takes no more jobs for now; `retry_after_seconds` says when to retry.

    It is None if waiting would not help, because this many jobs never fit at once. `queue` is the
    one without room; None if the whole store has none. `limit` is how many jobs may wait in it,
    `remaining` how many more could wait now, and `reset_at` when there is probably room.
    """

    def __init__(
        self,
        message: str,
        retry_after_seconds: float | None = None,
        *,
        queue: str | None = None,
        limit: int | None = None,
        remaining: int | None = None,
        reset_at: datetime | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.queue = queue
        self.limit = limit
        self.remaining = remaining
        self.reset_at = reset_at


class RateLimitedError(QueueFullError, code="rate_limited", fields=_FULL):
    """Raised when jobs come faster than the queue, their client or their key may have them.

    `limit` is how many may come at once, `remaining` how many could come now, and
    `reset_at` when all of them could come again, without other submits.
    """


class QueueClosedError(LeaseholdError, code="queue_closed"):
    """Raised when something is submitted after shutdown, or to a queue that is draining."""


class InvalidQueueError(LeaseholdError, ValueError, code="invalid_queue"):
    """Raised when a queue cannot have such rules or such a name; says which and why."""


class QueueExistsError(LeaseholdError, code="queue_exists"):
    """Raised when a queue is created that already exists, with other rules."""


class QueueNotFoundError(LeaseholdError, LookupError, code="queue_not_found"):
    """Raised when no queue of that name was created, and none ever held a job."""


class QueueNotEmptyError(LeaseholdError, code="queue_not_empty"):
    """Raised when a queue is to be deleted while jobs wait or run in it; nothing was changed."""


class InvalidWindowError(LeaseholdError, ValueError, code="invalid_window"):
    """Raised when metrics are asked for a time for which none are kept."""


class InvalidFilterError(LeaseholdError, ValueError, code="invalid_filter"):
    """Raised for a filter of jobs that is invalid; says which part of it and why."""


class InvalidPageError(LeaseholdError, ValueError, code="invalid_page"):
    """Raised for a page of a list whose limit is out of range."""


class InvalidCursorError(InvalidPageError, code="invalid_cursor"):
    """Raised for a cursor that no earlier page of the list gave."""


class InvalidOrderError(LeaseholdError, ValueError, code="invalid_order"):
    """Raised for an order to many jobs that does not exist or is invalid; nothing was changed."""


class InvalidRequestError(LeaseholdError, ValueError, code="invalid_request"):
    """Raised when what was sent to a service is malformed: no JSON, too deep, said twice."""


class RequestTooLargeError(InvalidRequestError, code="request_too_large"):
    """Raised when a request to a service is larger than it takes."""


class InvalidFieldError(InvalidRequestError, code="invalid_field"):
    """Raised when a field of a request is missing or has an invalid value; names it."""


class UnknownFieldError(InvalidFieldError, code="unknown_field"):
    """Raised when a request has a field that does not exist; lists those that do."""


class UnauthenticatedError(LeaseholdError, code="unauthenticated"):
    """Raised when a service is called without a token, or with one that is not valid."""


class ForbiddenError(LeaseholdError, code="forbidden"):
    """Raised when a token does not allow what was asked; says which role or scope does."""


class InvalidPinError(LeaseholdError, ValueError, code="invalid_pin"):
    """Raised for a deploy mark, a view or a stop whose name or text cannot be one."""


class InvalidTokenError(LeaseholdError, ValueError, code="invalid_token"):
    """Raised when a token cannot have such a name, role, scope or lifetime; says which and why."""


class BackupExistsError(LeaseholdError, code="backup_exists"):
    """Raised when a backup is to be written where there is a file already; nothing was changed."""


class TokenExistsError(LeaseholdError, code="token_exists"):
    """Raised when a token is created under a name that is taken."""


class TokenNotFoundError(LeaseholdError, LookupError, code="token_not_found"):
    """Raised when no token has this name: it never existed or was revoked."""


class WorkerNotFoundError(LeaseholdError, LookupError, code="worker_not_found"):
    """Raised for a worker that is not in the registry: it has stopped, or its id is another."""


class OperationNotFoundError(LeaseholdError, LookupError, code="operation_not_found"):
    """Raised when no operation has this id: it never existed or is no longer kept."""


class UnknownTaskError(LeaseholdError, LookupError, code="unknown_task"):
    """Raised when a worker has no code under the job's task name."""


class JobFailedError(LeaseholdError, code="job_failed", fields=("error_type", "traceback")):
    """Raised by `result()` when the job is dead; carries its last error."""

    def __init__(self, message: str, *, error_type: str = "", traceback: str | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.traceback = traceback


class JobCancelledError(LeaseholdError, code="job_cancelled"):
    """Raised by `result()` when the job was cancelled."""


class JobTimeoutError(LeaseholdError, TimeoutError, code="job_timeout"):
    """Raised when an attempt ran longer than its job's `timeout_seconds`."""


class ResultExpiredError(LeaseholdError, code="result_expired"):
    """Raised by `result()` when the job is completed but its result's time to live is over."""


class ResultTimeoutError(LeaseholdError, TimeoutError, code="result_timeout"):
    """Raised by `result()` when the job has not ended within the time given."""


class UnsupportedError(LeaseholdError, code="unsupported"):
    """Raised when this store cannot do that, or a task asks what would wait for its own job."""


class TransactionError(LeaseholdError, code="transaction"):
    """Raised when a transaction cannot take part in what was asked; says why and what to do."""


class StoreError(LeaseholdError, code="store"):
    """Raised when the store itself cannot do its work."""


class StoreUnavailableError(StoreError, code="store_unavailable", fields=("is_transient",)):
    """Raised when the store cannot be reached or is locked; it may work again later.

    `is_transient` is False where waiting does not help: a wrong password, a missing folder.
    """

    def __init__(self, message: str, *, is_transient: bool = True) -> None:
        super().__init__(message)
        self.is_transient = is_transient


class StoreBusyError(
    StoreUnavailableError, code="store_busy", fields=("holder_pid", "is_holder_stopped")
):
    """Raised when a write waited too long for its turn; names the holder. Nothing was written.

    Retrying may help once that process continues or has ended.
    """

    def __init__(
        self, message: str, *, holder_pid: int | None = None, is_holder_stopped: bool = False
    ) -> None:
        super().__init__(message)
        self.holder_pid = holder_pid
        self.is_holder_stopped = is_holder_stopped


class StoreFullError(StoreError, code="store_full"):
    """Raised when the disk (or the memory allowed) has no room for new jobs."""


class StoreCorruptError(StoreError, code="store_corrupt"):
    """Raised when the store's data is damaged and cannot be rebuilt from the rest of it.

    Data that can be derived from other rows (the store's own counters, clock and generations) is
    repaired by the next write, which logs that; for the rest, restore a backup.
    """


class StoreLostError(StoreError, code="store_lost"):
    """Raised when this process cannot go on with a store it had opened; nothing was changed.

    Its file, SQLite's -wal or -shm beside it, or a file it had locked was deleted, moved away or
    replaced; or it was open when the process was forked; or PostgreSQL's schema was recreated.
    """


class StoreVersionError(StoreError, code="store_version"):
    """Raised when the file is not a Leasehold store, or one written by a newer version."""


class StoreMovedError(StoreError, code="store_moved"):
    """Raised when a store accepts no writes because it was moved, or is being moved."""


class StoreClosedError(StoreError, code="store_closed"):
    """Raised when a closed store is used."""


class PermanentError(CodedError, code="permanent"):
    """Raise it in a task to say that trying again is pointless: the job is dead at once."""


class RetryableError(CodedError, code="retryable", fields=("retry_after_seconds",)):
    """Raise it in a task to say that trying again may help, regardless of the failure lists."""

    def __init__(
        self, message: str = "", *, retry_after_seconds: float | timedelta | str | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        """When to try again: seconds, a timedelta, or text such as "5m"; None by the backoff."""


class BlobError(LeaseholdError, code="blob"):
    """Raised when a payload or a result that is kept in a blob store cannot be had or kept."""


class BlobLostError(BlobError, PermanentError, code="blob_lost"):
    """Raised when a blob is gone; a job whose payload it was is dead at once."""


class BlobDamagedError(BlobError, PermanentError, code="blob_damaged"):
    """Raised when a blob is not what was written; a job whose payload it was is dead at once."""


class BlobUnavailableError(BlobError, RetryableError, code="blob_unavailable"):
    """Raised when a blob store cannot be reached, or refuses us; it may work again later."""
