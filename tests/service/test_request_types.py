"""What a request may hold is known before it comes: no request looks at its type again."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.datastructures import QueryParams

from leasehold.errors import InvalidFieldError
from leasehold.service.api import OPERATIONS
from leasehold.service.http_request import request_of
from support.watched import modules_called

BY_NAME = {operation.name: operation for operation in OPERATIONS}


@pytest.mark.parametrize(
    ("name", "query", "body"),
    [
        ("list_jobs", "queue=mail&status=dead&status=pending", b""),
        ("wait_for_job", "timeout_seconds=5s", b""),
        ("lease", "", b'{"worker": "w", "wait_seconds": "5s"}'),
        ("lease", "", b'{"worker": 7}'),
    ],
)
def test_its_type_is_looked_at_once(name: str, query: str, body: bytes) -> None:
    """A look takes longer than most requests, and leaves a hole in Python's table of strings."""
    operation = BY_NAME[name]
    path = {"job_id": "a"} if "{job_id}" in operation.path else {}

    def read() -> Any:
        try:
            return request_of(operation, path, QueryParams(query), body, {})
        except InvalidFieldError as refused:
            return str(refused)

    read()
    called = modules_called(read)
    assert "leasehold.service.http_request" in called
    assert "msgspec.inspect" not in called
