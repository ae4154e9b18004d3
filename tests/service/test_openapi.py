"""The OpenAPI document: checked in, valid, and true of the running service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from openapi_spec_validator import validate
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from leasehold.service.api import OPERATIONS
from leasehold.service.openapi import openapi_document, openapi_json
from service.conftest import Service

PAGE = Path(__file__).parent.parent.parent / "docs/openapi.json"
LONG = {"lease", "exchange", "wait_for_job", "result"}
"""They may wait as long as they are asked to, which a test that makes up requests should not."""

schema = schemathesis.openapi.from_dict(openapi_document())


def test_the_page_is_what_the_service_says() -> None:
    written = PAGE.read_bytes().decode()
    assert written == openapi_json().decode() + "\n", (
        "python -m leasehold.service.openapi > docs/openapi.json"
    )


def test_the_document_is_valid() -> None:
    validate(json.loads(openapi_json()))


def test_every_operation_is_told() -> None:
    paths = openapi_document()["paths"]
    told = {each["operationId"] for path in paths.values() for each in path.values()}
    assert told == {operation.name for operation in OPERATIONS}


@schema.exclude(operation_id=list(LONG)).parametrize()
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_whatever_is_sent_the_answer_is_as_told(case: Any, memory_service: Service) -> None:
    """Malformed or not: never 5xx, and always what the document says."""
    secret = getattr(memory_service, "fuzzer", None)
    if secret is None:
        secret = memory_service.fuzzer = memory_service.token("admin")  # type: ignore[attr-defined]
    case.call_and_validate(
        base_url=memory_service.url,
        headers={"Authorization": f"Bearer {secret}"},
        checks=[
            schemathesis.checks.not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )


@pytest.mark.parametrize("name", sorted(LONG))
def test_those_that_wait_answer_as_told(memory_service: Service, name: str) -> None:
    client = memory_service.client("admin")
    job_id = client.post("/api/v1/jobs", json={"task": "a", "queue": name}).json()["id"]
    wanted = {"worker": "w", "queues": [name]}
    path, body = {
        "lease": ("/leases", {**wanted, "wait_seconds": 0}),
        "exchange": ("/exchange", {"lease": wanted}),
        "wait_for_job": (f"/jobs/{job_id}/wait?timeout_seconds=0", None),
        "result": (f"/jobs/{job_id}/result?timeout_seconds=0", None),
    }[name]
    method = "GET" if body is None else "POST"
    answer = client.request(method, f"/api/v1{path}", json=body)
    operation = next(
        each
        for each in schema.get_all_operations()
        if each.ok().definition.raw["operationId"] == name
    ).ok()
    operation.validate_response(answer)
