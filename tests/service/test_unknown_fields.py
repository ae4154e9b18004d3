"""A mistyped field is refused wherever it stands: what is not done must not look as if it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect as types

from leasehold.service.api import OPERATIONS
from leasehold.service.operation import type_of
from service.conftest import Service

LENIENT = {
    *("QueueConfig", "QueueRetention", "Scope"),
    *("CancelAll", "ReplayAll", "DiscardAll", "ReprioritizeAll", "PurgeAll"),
}
"""Parts that take any field by themselves, since a newer version may have stored them."""

MISTYPED: list[tuple[str, str, dict[str, Any], str]] = [
    ("POST", "/queues", {"queue": "a", "config": {"max_dept": 5}}, "config"),
    (
        "POST",
        "/queues",
        {"queue": "a", "config": {"retention": {"completed_secs": 5}}},
        "config.retention",
    ),
    ("POST", "/prune", {"scope": {"forced": True}}, "scope"),
    ("POST", "/orders", {"order": {"type": "cancel", "why": "no"}}, "order"),
    ("POST", "/orders", {"order": {"type": "replay", "reset": True}}, "order"),
    ("POST", "/orders", {"order": {"type": "discard", "all": False}}, "order"),
    ("POST", "/orders", {"order": {"type": "purge", "all": False}}, "order"),
    ("POST", "/orders", {"order": {"type": "reprioritize", "priority": 9, "by": 1}}, "order"),
    ("POST", "/orders", {"order": {"type": "cancel"}, "where": {"queue": "mail"}}, "where"),
    ("POST", "/jobs", {"task": "a", "retry": {"type": "constant", "secs": 1}}, "retry"),
    (
        "PUT",
        "/schedules/a",
        {"timing": {"type": "every", "seconds": 60, "at": 5}, "job": {"task": "a"}},
        "timing",
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "place"), MISTYPED)
def test_it_is_refused(
    memory_service: Service, method: str, path: str, body: dict[str, Any], place: str
) -> None:
    answer = memory_service.client("admin").request(method, f"/api/v1{path}", json=body)
    assert answer.status_code == 422, answer.text
    told = answer.json()["detail"]
    assert told.startswith("Object contains unknown field")
    assert re.search(rf"`\$\.{place}`(; known|: did you mean '\w+'\? Known) are ", told)


def test_a_field_that_is_nearly_one_is_answered_with_that(memory_service: Service) -> None:
    for field, meant in [("timeout", "timeout_seconds"), ("countdown", "delay_seconds")]:
        answer = memory_service.client("admin").post(
            "/api/v1/jobs", json={"task": "send", field: 5}
        )
        assert answer.status_code == 422
        told = answer.json()["detail"]
        assert f"`{field}`: did you mean '{meant}'? Known are task, args" in told


def test_no_other_part_takes_any_field() -> None:
    """Every part that takes any field by itself is in the list above."""
    found = {each.cls.__name__ for each in _parts() if not each.forbid_unknown_fields}
    assert found == LENIENT


def _parts() -> Iterator[types.StructType]:
    """Every struct in any request."""
    waiting: list[types.Type] = [type_of(operation.request) for operation in OPERATIONS]
    seen: set[type] = set()
    while waiting:
        kind = waiting.pop()
        match kind:
            case types.Metadata():
                waiting.append(kind.type)
            case types.UnionType():
                waiting.extend(kind.types)
            case types.ListType() | types.VarTupleType():
                waiting.append(kind.item_type)
            case types.DictType():
                waiting.append(kind.value_type)
            case types.StructType() if kind.cls not in seen:
                seen.add(kind.cls)
                yield kind
                waiting.extend(field.type for field in kind.fields)
