"""Values that callers give and no row can have, and numbers that MessagePack cannot say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold import TaskQueue
from leasehold.connect import connect
from leasehold.errors import InvalidJobError
from service.conftest import Service, serving
from support.servers import Schemas

API = "/api/v1"
NUL = "a\0b"
LARGE = 10**30


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgres":
        schemas: Schemas = request.getfixturevalue("schemas")
        lent = schemas.lend()
        yield lent
        schemas.take_back(lent)
    else:
        yield "memory://" if request.param == "memory" else str(tmp_path / "jobs.db")


@pytest.fixture
def service(url: str) -> Iterator[Service]:
    store = connect(url)
    with serving(store, grpc_port=0) as service:
        yield service
    store.close()


ASKED: list[tuple[str, str, Any]] = [
    ("GET", "/jobs/a%00b", None),
    ("GET", "/queues/a%00b", None),
    ("GET", "/queues/a%00b/next", None),
    ("GET", "/metrics?queue=a%00b", None),
    ("GET", "/failures?queue=a%00b", None),
    ("GET", "/timeline?metric=failed&queue=a%00b&since=2026-11-16T00:00:00Z", None),
    ("DELETE", "/tokens/a%00b", None),
    ("POST", "/leases", {"worker": NUL, "wait_seconds": 0}),
    ("POST", "/leases", {"worker": "w", "parent_id": NUL, "wait_seconds": 0}),
    ("POST", "/orders", {"order": {"type": "cancel"}, "where": {"ids": [NUL]}}),
    *(
        ("POST", "/jobs/search", {"where": where})
        for where in (
            {"ids": [NUL]},
            {"queues": [NUL]},
            {"tasks": [NUL]},
            {"idempotency_key": NUL},
            {"parent_id": NUL},
            {"priority_min": 2**70},
            {"priority_max": -(2**70)},
            {"metadata": {"x": LARGE}},
        )
    ),
]


def test_no_such_value_is_the_servers_fault(service: Service) -> None:
    client = service.client("admin")
    for method, path, body in ASKED:
        answer = client.request(method, API + path, json=body)
        assert answer.status_code < 500, (method, path, body, answer.text)


def test_metadata_is_refused_where_no_reader_could_be_told(service: Service) -> None:
    client = service.client("producer")
    answer = client.post(f"{API}/jobs", json={"task": "t", "metadata": {"x": LARGE}})
    assert answer.status_code == 422
    assert "at most 64 bits" in answer.json()["detail"]
    edge = {"least": -(2**63), "most": 2**63 - 1}
    assert client.post(f"{API}/jobs", json={"task": "t", "metadata": edge}).status_code == 201


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_large_numbers_cross_in_progress_notes_and_results(
    service: Service, transport: str
) -> None:
    secret = service.token("admin")
    place = service.url if transport == "http" else service.grpc_url
    address = place.replace("://", f"://{secret}@")
    with TaskQueue(address, num_workers=0) as queue:
        job = queue.submit("t", queue="q")
        beside = queue.submit("t", queue="q")
        lease = queue.lease("q", worker="w", wait=0)
        assert lease is not None
        service.store.report_progress(lease.job_id, lease.version, b'{"x": %d}' % LARGE)
        assert queue.get(job.id).progress == {"x": LARGE}
        queue.ack(lease, LARGE, note={"x": [LARGE, -LARGE]})
        assert job.result(timeout=30) == LARGE
        assert [each.note for each in queue.attempts(job.id)] == [{"x": [LARGE, -LARGE]}]
        other = queue.lease("q", worker="w", wait=0)
        assert other is not None
        assert other.job_id == beside.id
        with pytest.raises(InvalidJobError):
            queue.submit("t", metadata={"x": LARGE})
