"""The role that only looks: what it may ask is what changes nothing."""

from __future__ import annotations

import inspect

from leasehold.core.contract.store import Store
from leasehold.service.api import OPERATIONS
from leasehold.service.store_access import ROLES_OF
from service.conftest import Service

JOBS = "/api/v1/jobs"


def test_an_observer_may_ask_whatever_only_looks() -> None:
    looking = {each.name for each in OPERATIONS if each.method == "GET"} | {"search"}
    for_admins = {each.name for each in OPERATIONS if each.roles == ("admin",)}
    allowed = {each.name for each in OPERATIONS if "observer" in each.roles}
    assert allowed == looking - for_admins


def test_no_verb_for_observers_is_an_order() -> None:
    allowed = {verb for verb, roles in ROLES_OF.items() if "observer" in roles}
    orders = {
        verb
        for verb in allowed
        if "actor" in inspect.signature(getattr(Store, verb, lambda: None)).parameters
    }
    assert orders == set()
    assert not allowed & {"submit", "exchange", "renew", "recover", "promote", "fire_schedules"}
    assert {"search", "metrics", "workers", "changes", "schedules"} <= allowed


def test_it_scrapes_and_looks_and_nothing_else(memory_service: Service) -> None:
    observer = memory_service.client("observer")
    assert observer.get("/metrics").status_code == 200
    assert observer.get(JOBS).status_code == 200
    assert observer.get("/api/v1/workers").status_code == 200
    for path, body in ((JOBS, {"task": "t"}), ("/api/v1/leases", {"worker": "w"})):
        refused = observer.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


def test_pages_tell_the_total_if_asked(service: Service) -> None:
    client = service.client("admin")
    for _ in range(3):
        client.post(JOBS, json={"task": "t", "queue": "counted"})
    client.post(JOBS, json={"task": "t", "queue": "other"})
    asked = f"{JOBS}?queue=counted&limit=1"
    page = client.get(f"{asked}&with_total=true").json()
    assert (len(page["jobs"]), page["total"]) == (1, {"jobs": 3, "is_exact": True})
    assert client.get(asked).json()["total"] is None
    search = {"where": {"queues": ["counted"]}, "with_total": True}
    assert client.post(f"{JOBS}/search", json=search).json()["total"]["jobs"] == 3
    letters = client.get("/api/v1/dead-letters", params={"with_total": True}).json()
    assert letters["total"] == {"jobs": 0, "is_exact": True}


def test_a_refusal_says_what_is_allowed(memory_service: Service) -> None:
    client = memory_service.client("admin")

    def refused(**job: object) -> str:
        answer = client.post(JOBS, json={"task": "t", **job})
        assert answer.status_code == 422
        return str(answer.json()["detail"])

    assert refused(priority="urgent").endswith(
        "allowed are 0 to 100, critical, high, low and medium"
    )
    assert "allowed are cancel, fail and ignore" in refused(on_dependency_failure="explode")
    assert "allowed are exponential, linear, constant and delays" in refused(retry={"type": "no"})
    assert "known are task, args, kwargs" in refused(colour="red")
    answer = client.get(JOBS, params={"status": "lost"})
    assert "allowed are scheduled, blocked, pending" in answer.json()["detail"]
