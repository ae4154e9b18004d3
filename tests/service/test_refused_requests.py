"""A malformed request is refused with a code that says which part of it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from service.conftest import Service

TOO_LONG = "x" * 5_000


@pytest.mark.parametrize(
    ("method", "path", "given", "answer"),
    [
        # The body, and its fields.
        ("POST", "/jobs", "{", (400, "invalid_request")),
        ("POST", "/jobs", "[]", (400, "invalid_request")),
        ("POST", "/jobs", {"task": "t", "colour": "red"}, (422, "unknown_field")),
        ("POST", "/jobs", {"task": "t", "args": "a"}, (422, "invalid_job")),
        ("POST", "/jobs", {"task": "t", "priority": 999}, (422, "invalid_job")),
        ("POST", "/jobs", {"queue": "mail"}, (422, "invalid_job")),
        ("POST", "/leases", {"queues": ["mail"]}, (422, "invalid_field")),
        ("POST", "/leases", {"worker": "w", "queues": ["a\x00b"]}, (422, "invalid_queue")),
        (
            "POST",
            "/exchange",
            {"lease": {"worker": "w", "queues": ["mail", "\n"]}},
            (422, "invalid_queue"),
        ),
        ("GET", "/queues", {"colour": "red"}, (422, "unknown_field")),
        # Lists.
        ("GET", "/jobs", {"cursor": "next"}, (422, "invalid_cursor")),
        ("GET", "/jobs", {"limit": 0}, (422, "invalid_page")),
        ("GET", "/jobs", {"status": "lost"}, (422, "invalid_filter")),
        ("GET", "/jobs", {"created_from": "yesterday"}, (422, "invalid_filter")),
        ("GET", "/jobs", {"text": TOO_LONG}, (422, "invalid_filter")),
        ("GET", "/jobs", {"colour": "red"}, (422, "unknown_field")),
        ("GET", "/jobs", {"with_total": "maybe"}, (422, "invalid_field")),
        ("GET", "/audit", {"cursor": "1.5"}, (422, "invalid_cursor")),
        ("GET", "/audit", {"limit": "all"}, (422, "invalid_page")),
        ("GET", "/jobs/job/history", {"cursor": "-1"}, (422, "invalid_cursor")),
        ("GET", "/jobs/job/log", {"cursor": "-1"}, (422, "invalid_cursor")),
        ("POST", "/jobs/search", {"where": {"statuses": ["lost"]}}, (422, "invalid_filter")),
        ("POST", "/jobs/search", {"where": {"error_text": TOO_LONG}}, (422, "invalid_filter")),
        ("POST", "/jobs/search", {"where": {"colour": "red"}}, (422, "unknown_field")),
        ("POST", "/jobs/search", {"cursor": 5}, (422, "invalid_cursor")),
        # Orders.
        ("POST", "/orders", {}, (422, "invalid_field")),
        ("POST", "/orders", {"order": {"type": "sing"}}, (422, "invalid_order")),
        ("POST", "/orders", {"order": "cancel"}, (422, "invalid_order")),
        (
            "POST",
            "/orders",
            {"order": {"type": "reprioritize", "priority": 999}},
            (422, "invalid_order"),
        ),
        (
            "POST",
            "/orders",
            {"order": {"type": "cancel"}, "cursor": "next"},
            (422, "invalid_cursor"),
        ),
        (
            "POST",
            "/orders",
            {"order": {"type": "cancel"}, "where": {"priority_min": "low"}},
            (422, "invalid_filter"),
        ),
    ],
)
def test_its_code_says_which_part(
    memory_service: Service, method: str, path: str, given: Any, answer: tuple[int, str]
) -> None:
    client = memory_service.client("producer", "consumer", "operator", "admin")
    client.post("/api/v1/jobs", json={"task": "t", "id": "job"})
    if method == "GET":
        told = client.get(f"/api/v1{path}", params=given)
    elif isinstance(given, str):
        json = {"Content-Type": "application/json"}
        told = client.post(f"/api/v1{path}", content=given, headers=json)
    else:
        told = client.post(f"/api/v1{path}", json=given)
    assert (told.status_code, told.json()["code"]) == answer, told.json()


def test_jobs_of_a_partial_batch_are_refused_with_the_same_codes(memory_service: Service) -> None:
    jobs = [{"task": "t"}, {"task": "t", "colour": "red"}, {"task": 5}, {"task": "", "id": "x"}]
    told = memory_service.client("producer").post(
        "/api/v1/jobs/batch", json={"jobs": jobs, "partial": True}
    )
    codes = {each["index"]: each["error"]["code"] for each in told.json()["failed"]}
    assert codes == {1: "unknown_field", 2: "invalid_job", 3: "invalid_job"}
