"""Values that callers give and no row can have, and numbers that MessagePack cannot say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from leasehold import Status, TaskQueue
from leasehold.connect import connect
from leasehold.env import SYSTEM
from leasehold.errors import InvalidJobError, PayloadError
from service.conftest import WAIT, Service, serving
from support.servers import Schemas

API = "/api/v1"
NUL = "a\0b"
LARGE = 10**30


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "postgres":
        schemas: Schemas = request.getfixturevalue("schemas")
        lent = schemas.lend()
        yield lent
        schemas.take_back(lent)
    else:
        folder = tmp_path_factory.mktemp("strange-values")
        yield "memory://" if request.param == "memory" else str(folder / "jobs.db")


@pytest.fixture(scope="module")
def service(url: str) -> Iterator[Service]:
    """One server for each store: tests use queues of their own."""
    store = connect(url)
    with serving(store, grpc_port=0) as service:
        yield service
    store.close()


@pytest.fixture
def queue_name(request: pytest.FixtureRequest) -> str:
    return f"of-{request.node.callspec.params['transport']}-{request.function.__name__}"


# Minutes are kept for two days only.
AN_HOUR_AGO = f"{SYSTEM.now() - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
ASKED: list[tuple[int, str, str, Any]] = [
    (404, "GET", "/jobs/a%00b", None),
    (404, "POST", "/jobs/a%00b/cancel", {"reason": "so"}),
    (404, "GET", "/queues/a%00b", None),
    (404, "GET", "/queues/a%00b/next", None),
    (200, "GET", "/metrics?queue=a%00b", None),
    (200, "GET", "/failures?queue=a%00b", None),
    (200, "GET", f"/timeline?metric=failed&queue=a%00b&since={AN_HOUR_AGO}", None),
    (404, "DELETE", "/tokens/a%00b", None),
    (400, "POST", "/leases", {"worker": NUL, "wait_seconds": 0}),
    (200, "POST", "/leases", {"worker": "w", "parent_id": NUL, "wait_seconds": 0}),
    (200, "POST", "/orders", {"order": {"type": "cancel"}, "where": {"ids": [NUL]}}),
    *(
        (status, "POST", "/jobs/search", {"where": where})
        for status, where in (
            (200, {"ids": [NUL]}),
            (200, {"queues": [NUL]}),
            (200, {"tasks": [NUL]}),
            (200, {"idempotency_key": NUL}),
            (200, {"parent_id": NUL}),
            (422, {"priority_min": 2**70}),
            (422, {"priority_max": -(2**70)}),
            (200, {"metadata": {"x": LARGE}}),
        )
    ),
]


def test_the_answer_is_the_same_on_every_store(service: Service) -> None:
    client = service.client("admin")
    for status, method, path, body in ASKED:
        answer = client.request(method, API + path, json=body)
        assert answer.status_code == status, (method, path, body, answer.text)


def test_metadata_is_refused_where_no_reader_could_be_told(service: Service) -> None:
    client = service.client("producer")
    answer = client.post(f"{API}/jobs", json={"task": "t", "metadata": {"x": LARGE}})
    assert answer.status_code == 422
    assert "at most 64 bits" in answer.json()["detail"]
    edge = {"least": -(2**63), "most": 2**63 - 1}
    assert client.post(f"{API}/jobs", json={"task": "t", "metadata": edge}).status_code == 201


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_large_numbers_cross_in_progress_notes_and_results(
    service: Service, transport: str, queue_name: str
) -> None:
    secret = service.token("admin")
    place = service.url if transport == "http" else service.grpc_url
    address = place.replace("://", f"://{secret}@")
    with TaskQueue(address, num_workers=0) as queue:
        job = queue.submit("t", queue=queue_name)
        beside = queue.submit("t", queue=queue_name)
        lease = queue.lease(queue_name, worker="w", wait=0)
        assert lease is not None
        service.store.report_progress(lease.job_id, lease.version, b'{"x": %d}' % LARGE)
        assert queue.get(job.id).progress == {"x": LARGE}
        queue.ack(lease, LARGE, note={"x": [LARGE, -LARGE]})
        assert job.result(timeout=30) == LARGE
        assert [each.note for each in queue.attempts(job.id)] == [{"x": [LARGE, -LARGE]}]
        other = queue.lease(queue_name, worker="w", wait=0)
        assert other is not None
        assert other.job_id == beside.id
        with pytest.raises(InvalidJobError):
            queue.submit("t", metadata={"x": LARGE})


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_one_jobs_deep_progress_keeps_nobody_from_an_answer(
    service: Service, transport: str, queue_name: str
) -> None:
    """Stores of earlier versions may hold it; a new one is refused, in the task that reports it."""
    deep: Any = "x"
    for _ in range(65):
        deep = [deep]
    place = service.url if transport == "http" else service.grpc_url
    address = place.replace("://", f"://{service.token('admin')}@")
    with TaskQueue(address, num_workers=0) as queue:
        queue.submit("t", queue=queue_name)
        lease = queue.lease(queue_name, worker="w", wait=0)
        assert lease is not None
        service.store.report_progress(lease.job_id, lease.version, b'{"x": %d}' % LARGE)
        with pytest.raises(PayloadError, match="nested more than 64 deep"):
            service.store.report_progress(
                lease.job_id, lease.version, json.dumps({"x": deep}).encode()
            )
        assert [job.progress for job in queue.search(queue=queue_name)] == [{"x": LARGE}]
        with pytest.raises(PayloadError, match="the note is nested more than 64 deep"):
            queue.ack(lease, 1, note=deep)
        queue.ack(lease, 1, note={"x": 1})


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("transport", ["none", "http", "grpc"])
def test_arguments_and_results_have_one_bound_of_nesting_on_every_store(
    service: Service, transport: str
) -> None:
    place = service.url if transport == "http" else service.grpc_url
    address = place.replace("://", f"://{service.token('admin')}@")
    store = service.store if transport == "none" else address
    with TaskQueue(store, num_workers=1) as queue:

        @queue.task(name="deep", executor="thread")
        def deep(levels: int) -> Any:
            return nested(levels)

        @queue.task(name="takes", executor="thread")
        def takes(value: Any) -> str:
            return "done"

        assert deep.submit(64).result(timeout=WAIT) == nested(64)
        refused = deep.submit(65)
        assert refused.wait(WAIT).status is Status.DEAD
        error = queue.get(refused.id).error
        assert error is not None
        assert error.type == "PayloadError"
        assert "the result is nested more than 64 levels deep" in error.message
        assert takes.submit(nested(64)).result(timeout=WAIT) == "done"
        assert takes.submit(value=nested(64)).result(timeout=WAIT) == "done"
        with pytest.raises(PayloadError, match=r"an argument .* more than 64 levels deep"):
            takes.submit(nested(65))


def test_a_message_with_text_that_is_no_utf_8_is_the_callers_fault(service: Service) -> None:
    client = service.client("admin")
    client.headers["content-type"] = "application/vnd.leasehold.store+msgpack"
    for verb in ("get", "count", "metrics", "check"):
        answer = client.post(f"{API}/store/{verb}", content=b"\x81\xa2\xff\xff\x01")
        assert answer.status_code in (400, 422), (verb, answer.text)
