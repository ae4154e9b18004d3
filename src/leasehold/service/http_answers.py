"""Answers and problems as HTTP responses."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold.core.model.phrases import listed
from leasehold.error_codes import CodedError
from leasehold.service.http_request import RequestTimeoutError
from leasehold.service.problems import headers_of, problem_of, status_of
from leasehold.service.store_breaker import REFUSAL

logger = logging.getLogger("leasehold.service")

encode: Final = msgspec.json.Encoder().encode


def respond(answer: Any, status: int = 200) -> Response:
    """An answer as JSON."""
    return json_bytes(encode(answer), status)


def problem(error: Exception) -> Response:
    """An error as problem+json."""
    assert isinstance(error, CodedError)
    status = 408 if isinstance(error, RequestTimeoutError) else status_of(error)
    if status == 503 and str(error) != REFUSAL:
        logger.warning("a request was refused: %s", error)
    body = encode(problem_of(error, status))
    return Response(body, status, headers_of(error, status), "application/problem+json")


def refusal(error: Exception) -> Response:
    """A refusal by Starlette or a guard, in the same form as Leasehold's errors."""
    assert isinstance(error, HTTPException)
    title = {404: "not_found", 405: "method_not_allowed", 415: "unsupported_media_type"}
    code = title.get(error.status_code, "refused")
    detail = error.detail
    if error.status_code == 404:
        detail = "there is no such path: /api/v1/openapi.json lists the operations, under /api/v1"
    headers = dict(error.headers or {})
    if error.status_code == 405 and "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
        detail = f"method not allowed; use {listed(headers['Allow'].split(', '), 'or')}"
    return plain_problem(error.status_code, code, detail, headers)


def failure(error: Exception) -> Response:
    """An internal error: the log has the details, the caller only learns that it happened."""
    logger.error("a request failed unexpectedly", exc_info=error)
    return plain_problem(500, "internal", "the service failed; its log says why")


def plain_problem(
    status: int, code: str, detail: str, headers: dict[str, str] | None = None
) -> Response:
    """A problem that does not concern jobs."""
    body = {
        "type": f"urn:leasehold:problem:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "detail": detail,
        "code": code,
        "fields": {},
    }
    return Response(encode(body), status, headers, "application/problem+json")


def json_bytes(body: bytes, status: int) -> Response:
    return Response(body, status, media_type="application/json")
