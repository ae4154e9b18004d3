"""Figures over HTTP, and that nobody without the role learns whether a request makes sense."""

from __future__ import annotations

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Fail, JobError
from service.conftest import Service


def fail_one(service: Service) -> str:
    """Let a job of queue `mail` fail for good; answers since when, as text."""
    store = service.store
    since = store.now().isoformat()
    store.submit([Draft(id="job", task="send", queue="mail")])
    [lease] = store.exchange(request=LeaseRequest(worker="anna", queues=("mail",))).leases
    outcome = Fail(JobError("OSError", "the line is dead"), retryable=False)
    store.exchange([Settlement("job", lease.version, outcome)])
    return since


def test_timelines_failures_and_totals(service: Service) -> None:
    since = fail_one(service)
    with service.client("operator") as client:
        asked = {"metric": ["submitted", "failed"], "since": since, "queue": "mail"}
        timeline = client.get("/api/v1/timeline", params=asked).json()["timeline"]
        assert {name: sum(each) for name, each in timeline["values"].items()} == {
            "submitted": 1, "failed": 1,
        }  # fmt: skip
        [failure] = client.get("/api/v1/failures", params={"queue": "mail"}).json()["failures"]
        assert (failure["error_type"], failure["count"], failure["jobs"]) == ("OSError", 1, ["job"])
        [worker] = client.get("/api/v1/worker-totals").json()["workers"]
        assert (worker["worker"], worker["leased"], worker["failed"]) == ("anna", 1, 1)
        unknown = client.get("/api/v1/timeline", params={"metric": "beauty", "since": since})
        assert (unknown.status_code, unknown.json()["code"]) == (422, "invalid_window")


def test_figures_of_other_queues_are_not_told(service: Service) -> None:
    since = fail_one(service)
    with service.client("operator", queues=("web",)) as client:
        for path, asked in (
            ("timeline", {"metric": "failed", "since": since}),
            ("timeline", {"metric": "failed", "since": since, "queue": "mail"}),
            ("failures", {}),
            ("failures", {"queue": "mail"}),
            ("worker-totals", {}),
        ):
            assert client.get(f"/api/v1/{path}", params=asked).status_code == 403


def test_who_may_not_ask_hears_that_first(service: Service) -> None:
    with service.client("producer") as client:
        assert client.post("/api/v1/leases", json={"limit": "many"}).status_code == 403
        assert client.post("/api/v1/queues", json={"nonsense": 1}).status_code == 403
        assert client.post("/api/v1/jobs", json={"nonsense": 1}).status_code == 422
