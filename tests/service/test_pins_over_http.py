"""Deploy marks, named views, stops of workers, jobs by when they ended, and durations as text."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import WorkerInfo
from service.conftest import Service


def test_deploys_are_marked_and_unmarked(memory_service: Service) -> None:
    worker, operator = memory_service.client("consumer"), memory_service.client("operator")
    marked = worker.post("/api/v1/deploys", json={"version": "v1", "text": "new checkout"})
    assert (marked.status_code, marked.json()["pin"]["text"]) == (201, "new checkout")
    assert operator.post("/api/v1/deploys", json={"version": "v1"}).json() == marked.json()
    told = memory_service.client("observer").get("/api/v1/deploys").json()
    assert [each["name"] for each in told["pins"]] == ["v1"]
    assert operator.delete("/api/v1/deploys/v1").json() == marked.json()
    assert operator.delete("/api/v1/deploys/v1").json() == {"pin": None}


def test_views_are_kept_and_forgotten(memory_service: Service) -> None:
    operator = memory_service.client("operator")
    view = {"name": "dead mail", "query": "q=status:dead+queue:mail"}
    kept = operator.post("/api/v1/views", json=view)
    assert (kept.status_code, kept.json()["pin"]["text"]) == (201, view["query"])
    assert [each["name"] for each in operator.get("/api/v1/views").json()["pins"]] == ["dead mail"]
    assert operator.delete("/api/v1/views/dead%20mail").json() == kept.json()
    assert operator.get("/api/v1/views").json() == {"pins": []}
    refused = operator.post("/api/v1/views", json={"name": "bad\nname", "query": ""})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_pin")


def test_a_worker_is_asked_to_stop(memory_service: Service) -> None:
    store, operator = memory_service.store, memory_service.client("operator")
    now = store.now()
    info = WorkerInfo(id="w1", slots=1, queues=("default",), started_at=now, heartbeat_at=now)
    store.register_worker(info, is_remote=True)
    stopped = operator.post("/api/v1/workers/w1/stop")
    assert (stopped.status_code, stopped.json()["worker"]["id"]) == (200, "w1")
    assert [pin.name for pin in store.pins("stop")] == ["w1"]
    unknown = operator.post("/api/v1/workers/nobody/stop")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "worker_not_found")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/views", {"name": "v", "query": ""}),
        ("DELETE", "/deploys/v1", None),
        ("POST", "/workers/w1/stop", {}),
    ],
)
def test_only_operators_of_all_queues_leave_a_word(
    memory_service: Service, method: str, path: str, body: dict[str, str] | None
) -> None:
    for client in (
        memory_service.client("producer", "consumer", "observer"),
        memory_service.client("operator", queues=("mail",)),
    ):
        assert client.request(method, f"/api/v1{path}", json=body).status_code == 403


def test_jobs_are_found_by_when_they_ended(memory_service: Service) -> None:
    store = memory_service.store
    store.submit([Draft(id="done", task="work"), Draft(id="waits", task="work", delay_seconds=60)])
    [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])
    client = memory_service.client("observer")
    ended = store.now()
    early, late = (ended + timedelta(minutes=n) for n in (-5, 5))
    for since, found in ((early, ["done"]), (late, [])):
        given = {"finished_from": since.isoformat()}
        listed = client.get("/api/v1/jobs", params=given).json()["jobs"]
        searched = client.post("/api/v1/jobs/search", json={"where": given}).json()["jobs"]
        assert [job["id"] for job in listed] == [job["id"] for job in searched] == found


def test_a_duration_may_be_text(memory_service: Service) -> None:
    client = memory_service.client("producer")
    job = {
        "task": "work", "id": "timed", "timeout_seconds": "5m", "delay_seconds": "1h30m",
        "retry": {"type": "exponential", "initial_seconds": "500ms", "cap_seconds": "2m"},
        "metadata": {"wait_seconds": "5m"}, "kwargs": {"lease_seconds": "soon"},
    }  # fmt: skip
    submitted = client.post("/api/v1/jobs", json=job)
    assert submitted.status_code == 201, submitted.text
    stored = memory_service.store.get("timed")
    assert stored is not None
    assert (stored.timeout_seconds, stored.run_at - stored.created_at) == (
        300, timedelta(minutes=90),
    )  # fmt: skip
    assert (stored.metadata, stored.payload["kwargs"]) == (
        {"wait_seconds": "5m"}, {"lease_seconds": "soon"},
    )  # fmt: skip
    batch = {"jobs": [{"task": "work", "id": "batched", "lease_seconds": "2m"}]}
    assert client.post("/api/v1/jobs/batch", json=batch).status_code == 201
    batched = memory_service.store.get("batched")
    assert batched is not None
    assert batched.lease_seconds == 120
    waited = client.get("/api/v1/jobs/batched/wait", params={"timeout_seconds": "10ms"})
    assert (waited.status_code, waited.json()["ended"]) == (200, False)
    refused = client.post("/api/v1/jobs", json={"task": "work", "timeout_seconds": "soon"})
    assert (refused.status_code, "timeout_seconds" in refused.json()["detail"]) == (422, True)
