"""The OpenAPI document: checked in, valid, and true of the running service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from openapi_spec_validator import validate
from schemathesis import checks

from leasehold.service.api import OPERATIONS
from leasehold.service.openapi import openapi_document, openapi_json
from leasehold.service.reference import reference
from service.conftest import Service

PAGE = Path(__file__).parent.parent.parent / "docs/openapi.json"
LONG = {"lease", "exchange", "wait_for_job", "result"}
"""They may wait as long as they are asked to, which a test that makes up requests should not."""

schema = schemathesis.openapi.from_dict(openapi_document())
schema.config.phases.coverage.enabled = False  # Thousands of requests; chance finds enough.


def test_the_page_is_what_the_service_says() -> None:
    written = PAGE.read_bytes().decode()
    assert written == openapi_json().decode() + "\n", (
        "python -m leasehold.service.openapi > docs/openapi.json"
    )


def test_the_document_is_valid() -> None:
    validate(json.loads(openapi_json()))


def test_no_description_holds_python() -> None:
    """Docstrings have examples for those who read the source; callers of the service see none."""
    assert ">>>" not in openapi_json().decode()


def test_fields_are_told_in_words_and_with_their_defaults() -> None:
    document = openapi_document()
    body = document["components"]["schemas"]["Submit"]["properties"]
    assert body["with_position"]["description"].startswith("Whether to count the jobs ahead")
    # Also where a type is made of another: of a request without its path, of a record.
    fail = document["components"]["schemas"]["FailBody"]["properties"]
    assert fail["requeue"]["description"] == "False makes the job a dead letter at once."
    job = document["components"]["schemas"]["Job"]["properties"]
    assert job["started_at"]["description"] == "The start of its latest attempt."
    query = {each["name"]: each for each in document["paths"]["/api/v1/stuck"]["get"]["parameters"]}
    assert query["silent_seconds"]["schema"]["default"] == 120
    assert query["silent_seconds"]["description"].startswith("After so long")


def test_every_operation_is_told() -> None:
    paths = openapi_document()["paths"]
    told = {each["operationId"] for path in paths.values() for each in path.values()}
    assert told == {operation.name for operation in OPERATIONS} | {"events"}


@pytest.fixture(scope="module")
def authorized(memory_service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {memory_service.token('admin')}"}


@schema.exclude(operation_id=[*LONG, "events"]).parametrize()
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_whatever_is_sent_the_answer_is_as_told(
    case: Any, memory_service: Service, authorized: dict[str, str]
) -> None:
    """Malformed or not: never 5xx, and always what the document says."""
    case.call_and_validate(
        base_url=memory_service.url,
        headers=authorized,
        checks=[
            checks.not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
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
    told = "/api/v1" + next(each.path for each in OPERATIONS if each.name == name)
    schema[told][method].validate_response(answer)


def test_the_reference_is_made_of_it() -> None:
    written = PAGE.with_name("http-api.md").read_text(encoding="utf-8")
    assert written == reference(), "python -m leasehold.service.reference > docs/http-api.md"


def test_every_array_says_what_is_in_it() -> None:
    """Generators of clients leave out operations with an array that does not."""

    def arrays(schema: Any) -> list[dict[str, Any]]:
        inner = list(schema.values()) if isinstance(schema, dict) else schema
        inside = [each for each in inner if isinstance(each, dict | list)]
        found = [each for part in inside for each in arrays(part)]
        is_array = isinstance(schema, dict) and schema.get("type") == "array"
        return [*found, schema] if is_array else found

    found = arrays(openapi_document())
    assert found
    assert all("items" in each or "prefixItems" in each for each in found)
