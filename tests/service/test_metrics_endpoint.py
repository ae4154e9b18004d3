"""/metrics: for whoever shows a token, the store's figures and the server's own."""

from __future__ import annotations

from leasehold.connect import connect
from leasehold.core.model.job import Draft
from leasehold.service.api import THREADS
from service.conftest import Service, serving
from support import promtool
from support.exposed import Exposed, exposed


def scraped(service: Service) -> Exposed:
    answer = service.client("producer").get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return exposed(answer.content)


def test_nobody_reads_it_without_a_token(memory_service: Service) -> None:
    refused = memory_service.anonymous().get("/metrics")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    scoped = memory_service.client("operator", queues=("mail",)).get("/metrics")
    assert (scoped.status_code, scoped.json()["code"]) == (403, "forbidden")
    for role in ("producer", "consumer", "operator", "admin"):
        assert memory_service.client(role).get("/metrics").status_code == 200


def test_an_insecure_service_asks_for_none() -> None:
    store = connect("memory://")
    with serving(store, insecure=True) as service:
        assert service.anonymous().get("/metrics").status_code == 200
    store.close()


def test_it_tells_of_the_store(service: Service) -> None:
    service.store.submit([Draft(id="job", task="t", queue="mail", priority=90)])
    found = scraped(service)
    assert found.value("jobs_submitted_total", queue="mail", priority_band="high") == 1
    assert found.value("queue_depth", queue="mail", status="pending") == 1
    assert found.value("store_pool_size") == THREADS
    assert found.value("store_pool_in_use") == 1  # this very request


def test_it_tells_of_requests_by_route_never_by_path(service: Service) -> None:
    client = service.client("producer")
    for number in range(3):
        assert client.get(f"/api/v1/jobs/no-such-{number}").status_code == 404
        assert client.get(f"/no-such-place-{number}").status_code == 404
    assert client.options("/healthz").status_code == 405
    found = scraped(service)
    job = "/api/v1/jobs/{job_id}"
    assert found.value("api_request_seconds_count", endpoint=job, method="GET") == 3
    assert found.value("api_errors_total", endpoint=job, status_code="404") == 3
    assert found.value("api_request_seconds_count", endpoint="other", method="GET") == 3
    assert found.value("api_errors_total", endpoint="other", status_code="404") == 3
    assert found.value("api_request_seconds_count", endpoint="/healthz", method="other") == 1
    assert not any("no-such" in value for _, labels in found.samples for _, value in labels)


def test_refusals_of_the_guard_are_counted_too(service: Service) -> None:
    client = service.anonymous(Host="evil.example")
    assert client.get("/metrics").status_code == 403
    assert scraped(service).value("api_errors_total", endpoint="other", status_code="403") == 1


def test_promtool_finds_nothing_wrong(service: Service) -> None:
    service.store.submit([Draft(id="job", task="t")])
    client = service.client("operator")
    client.get("/nowhere")
    promtool.check("metrics", stdin=client.get("/metrics").content)
