"""Errors as gRPC tells them: a status, and in its details the code that stays the same."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import grpc
import msgspec
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from leasehold import errors
from leasehold.error_codes import CodedError
from leasehold.service.problems import headers_of, problem_of, status_of
from leasehold.service.store_breaker import REFUSAL

logger = logging.getLogger("leasehold.service")

DOMAIN: Final = "leasehold"
DETAILS: Final = "grpc-status-details-bin"
MESSAGE_LENGTH_MAX: Final = 1000
"""Clients take in 8 kB of metadata, in which other letters than ASCII count up to nine-fold."""
FIELDS_BYTES_MAX: Final = 2000

Code = grpc.StatusCode
_EXIST: Final = (
    errors.DuplicateJobError,
    errors.IdempotencyConflictError,
    errors.QueueExistsError,
    errors.TokenExistsError,
    errors.BackupExistsError,
)
_CODES: Final = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    408: Code.DEADLINE_EXCEEDED,
    409: Code.FAILED_PRECONDITION,
    410: Code.NOT_FOUND,
    413: Code.OUT_OF_RANGE,
    422: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    503: Code.UNAVAILABLE,
}
"""By the status that HTTP has for the same error: `problems.py` is the one table of errors."""


class Refusal(NamedTuple):
    """How a call ends that is refused."""

    code: grpc.StatusCode
    message: str
    metadata: tuple[tuple[str, str | bytes], ...]
    http_status: int


def refusal_of(error: CodedError) -> Refusal:
    """The details of an error."""
    status = status_of(error)
    if status == 503 and str(error) != REFUSAL:
        logger.warning("a call was refused: %s", error)
    code = Code.ALREADY_EXISTS if isinstance(error, _EXIST) else _CODES[status]
    told = problem_of(error, status)
    message = _cut(told["detail"])
    fields = msgspec.json.encode(told["fields"])
    details = [
        error_details_pb2.ErrorInfo(
            reason=told["code"],
            domain=DOMAIN,
            metadata={"fields": fields.decode()} if len(fields) <= FIELDS_BYTES_MAX else {},
        )
    ]
    headers = headers_of(error, status)
    if "Retry-After" in headers:
        delay = duration_pb2.Duration(seconds=int(headers["Retry-After"]))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    packed = status_pb2.Status(code=code.value[0], message=message)
    for each in details:
        packed.details.append(any_pb2.Any())
        packed.details[-1].Pack(each)
    more = ((name.lower(), text) for name, text in headers.items() if name != "WWW-Authenticate")
    return Refusal(code, message, ((DETAILS, packed.SerializeToString()), *more), status)


def _cut(message: str) -> str:
    if len(message) <= MESSAGE_LENGTH_MAX:
        return message
    return f"{message[: MESSAGE_LENGTH_MAX - 3]}..."
