"""A token that is good for some queues only, or no longer good: what it does not open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from leasehold.service import lease_lines
from service.conftest import WAIT, Service
from service.test_jobs_over_http import JOBS, lease, proof, submit
from service.test_waiting import Looks, poll


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def draft(job_id: str, *needs: str) -> dict[str, Any]:
    return {"task": "a", "id": job_id, "queue": "mine", "depends_on": needs}


def told(answer: httpx.Response, needed: str) -> tuple[int, str, str]:
    problem = answer.json()
    return answer.status_code, problem["code"], problem["detail"].replace(needed, "THE JOB")


def test_nothing_depends_on_a_job_out_of_sight(service: Service) -> None:
    submit(service.client("producer"), id="theirs", queue="theirs")
    scoped = service.client("producer", queues=("mine",))
    # In the same words as where there is no such job.
    hidden = told(scoped.post(JOBS, json=draft("mine:x", "theirs")), "theirs")
    assert hidden == told(scoped.post(JOBS, json=draft("mine:x", "nobody")), "nobody")
    assert hidden[:2] == (422, "unknown_dependency")
    assert service.store.get("mine:x") is None


def test_a_part_of_a_batch_may_depend_on_what_is_in_sight(service: Service) -> None:
    submit(service.client("producer"), id="theirs", queue="theirs")
    scoped = service.client("producer", queues=("mine",))

    def partly(needed: str, prefix: str) -> Any:
        jobs = [
            draft(f"{prefix}1", needed),
            draft(f"{prefix}2", f"{prefix}1"),
            draft(f"{prefix}3"),
            draft(f"{prefix}4", f"{prefix}3"),
        ]
        answer = scoped.post(f"{JOBS}/batch", json={"jobs": jobs, "partial": True}).json()
        failed = [(each["index"], each["error"]["message"]) for each in answer["failed"]]
        return [each["index"] for each in answer["successful"]], failed

    stored, failed = partly("theirs", "mine:a")
    assert stored == [2, 3]
    stored_too, failed_too = partly("nobody", "mine:b")
    words = [text.replace("mine:b", "mine:a") for _, text in failed_too]
    assert [text.replace("theirs", "nobody") for _, text in failed] == words
    assert stored_too == stored
    whole = {"jobs": [draft("mine:c1"), draft("mine:c2", "theirs")]}
    assert scoped.post(f"{JOBS}/batch", json=whole).status_code == 422
    assert service.store.get("mine:c1") is None


def test_dependents_out_of_sight_are_not_told(service: Service) -> None:
    everybody = service.client("producer")
    submit(everybody, id="needed", queue="mine")
    submit(everybody, id="theirs", queue="theirs", depends_on=["needed"])
    submit(everybody, id="mine", queue="mine", depends_on=["needed"])
    asked = {"include": "dependents"}
    scoped = service.client("producer", queues=("mine",))
    assert scoped.get(f"{JOBS}/needed", params=asked).json()["dependents"] == ["mine"]
    seen = everybody.get(f"{JOBS}/needed", params=asked).json()["dependents"]
    assert sorted(seen) == ["mine", "theirs"]


def test_a_secret_opens_no_job_of_another_queue(service: Service) -> None:
    job_id = submit(service.client("producer"), queue="theirs")
    held = lease(service.client("consumer"), queues=["theirs"])
    scoped = service.client("consumer", queues=("mine",))
    at = f"{JOBS}/{job_id}"
    line = {"at": "2026-01-01T00:00:00Z", "text": "forged"}
    for path, more in (
        ("complete", {"result": "forged"}),
        ("fail", {}),
        ("snooze", {"delay_seconds": 60}),
        ("release", {}),
        ("renew", {"worker": "w"}),
        ("progress", {"progress": {"percent": 1}}),
        ("log", {"lines": [line]}),
    ):
        answer = scoped.post(f"{at}/{path}", json={**proof(held), **more})
        assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
    one = {"job_id": job_id, **proof(held)}
    settled = scoped.post(
        "/api/v1/exchange", json={"settlements": [{"outcome": "complete", **one}]}
    )
    assert settled.json()["settled"][0]["error"]["code"] == "job_not_found"
    renewed = scoped.post("/api/v1/renewals", json={"worker": "w", "leases": [one]})
    assert renewed.json()["renewals"][0]["error"]["code"] == "job_not_found"
    job = service.store.get(job_id)
    assert job is not None
    assert (job.status, job.progress) == ("running", None)


def test_a_token_that_ends_during_a_long_poll_gets_no_lease(
    service: Service, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_lines, "POLL_SECONDS", WAIT)
    looks = Looks(service, monkeypatch)
    refused = poll(pool, service.client("consumer", name="leaver"))
    looks.wait_for(1)
    served = poll(pool, service.client("consumer"))
    looks.wait_for(2)
    service.store.revoke_token("leaver", actor="me")
    job_id = submit(service.client("producer"))
    assert refused.result(WAIT).status_code == 401
    # The news that woke the one in vain is passed on to the next in line.
    [held] = served.result(WAIT).json()["leases"]
    assert (held["job_id"], held["attempt"]) == (job_id, 1)


@pytest.mark.parametrize("path", ["wait", "result"])
def test_a_token_that_ends_during_a_wait_learns_nothing(
    service: Service, pool: ThreadPoolExecutor, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(service.client("producer"))
    waiting = service.client("producer", name="leaver")
    looked, look = threading.Event(), service.api.job_of

    def noted(*asked: Any) -> Any:
        job = look(*asked)
        looked.set()
        return job

    monkeypatch.setattr(service.api, "job_of", noted)
    answer = pool.submit(lambda: waiting.get(f"{JOBS}/{job_id}/{path}?timeout_seconds={WAIT:g}"))
    assert looked.wait(WAIT)
    service.store.revoke_token("leaver", actor="me")
    client = service.client("consumer")
    done = client.post(f"{JOBS}/{job_id}/complete", json=proof(lease(client)))
    assert done.status_code == 200
    assert answer.result(WAIT).status_code == 401
