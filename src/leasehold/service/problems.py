"""Errors over HTTP: one table of statuses, and problem+json (RFC 9457) with Leasehold's codes."""

from __future__ import annotations

import math
from typing import Any, Final

from leasehold import errors
from leasehold.core.model.error_documents import error_document
from leasehold.error_codes import CodedError

STATUSES: Final[tuple[tuple[type[CodedError], int], ...]] = (
    (errors.RequestTooLargeError, 413),
    (errors.InvalidFieldError, 422),
    (errors.InvalidRequestError, 400),
    (errors.UnauthenticatedError, 401),
    (errors.ForbiddenError, 403),
    (errors.UnknownDependencyError, 422),
    (errors.JobNotFoundError, 404),
    (errors.QueueNotFoundError, 404),
    (errors.ScheduleNotFoundError, 404),
    (errors.TokenNotFoundError, 404),
    (errors.OperationNotFoundError, 404),
    (errors.WorkerNotFoundError, 404),
    (errors.DuplicateJobError, 409),
    (errors.IdempotencyConflictError, 409),
    (errors.InvalidTransitionError, 409),
    (errors.LeaseLostError, 409),
    (errors.QueueClosedError, 409),
    (errors.QueueExistsError, 409),
    (errors.QueueNotEmptyError, 409),
    (errors.TokenExistsError, 409),
    (errors.BackupExistsError, 409),
    (errors.JobFailedError, 409),
    (errors.JobCancelledError, 409),
    (errors.ResultTimeoutError, 409),
    (errors.ResultExpiredError, 410),
    (errors.PayloadTooLargeError, 413),
    (errors.QueueFullError, 429),
    (errors.StoreMovedError, 409),  # Waiting does not help: the service has to be reconfigured.
    (errors.StoreError, 503),
    (errors.BlobUnavailableError, 503),
    (errors.BlobError, 409),
    (errors.UnsupportedError, 422),
)
"""The first match counts, so specific errors come before general ones."""


STORE_AWAY: Final = (
    "the store of this service cannot be used at the moment: try again later; the service's log "
    "says why"
)


def status_of(error: CodedError) -> int:
    """The status for an error; all remaining errors of Leasehold mean invalid input.

    >>> status_of(errors.LeaseConflictError("another holder")), status_of(errors.CycleError("a, b"))
    (409, 422)
    """
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 422)


def problem_of(error: CodedError, status: int) -> dict[str, Any]:
    """The document for an error."""
    told = error_document(error)
    if status == 503:
        # Details of the store's trouble (paths, processes) belong in the log, not in the answer.
        told.update(message=STORE_AWAY, fields={})
    return {
        "type": f"urn:leasehold:problem:{told['code']}",
        "title": told["code"].replace("_", " "),
        "status": status,
        "detail": told["message"],
        "code": told["code"],
        "fields": told["fields"],
    }


def headers_of(error: CodedError, status: int) -> dict[str, str]:
    """Further headers: when to try again, how to authenticate, the limits."""
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="leasehold"'}
    seconds = getattr(error, "retry_after_seconds", None)
    if seconds is None and status == 503:
        seconds = 1.0
    headers = {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
    if isinstance(error, errors.QueueFullError):
        headers.update(
            {
                f"X-RateLimit-{name.title()}": str(value)
                for name, value in _limits(error).items()
                if value is not None
            }
        )
    return headers


def _limits(error: errors.QueueFullError) -> dict[str, int | None]:
    """The store's account of the empty bucket, or of the full queue; times since 1970."""
    return {
        "limit": error.limit,
        "remaining": error.remaining,
        "reset": None if error.reset_at is None else math.ceil(error.reset_at.timestamp()),
    }
