"""Producers and consumers over the network."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.tokens import ROLES
from service.conftest import WAIT, Service

JOBS = "/api/v1/jobs"


def submit(client: httpx.Client, **job: Any) -> str:
    answer = client.post(JOBS, json={"task": "mail", **job})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def lease(client: httpx.Client, **options: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/leases", json={"worker": "w", "wait_seconds": 0, **options})
    assert answer.status_code == 200, answer.text
    [found] = answer.json()["leases"]
    return dict(found)


def proof(held: dict[str, Any]) -> dict[str, Any]:
    return {"version": held["version"], "secret": held["secret"]}


def test_the_life_of_a_job(service: Service) -> None:
    producer, consumer = service.client("producer"), service.client("consumer")
    job_id = submit(producer, args=["a@b.c"], kwargs={"subject": "hi"}, metadata={"tenant": "x"})
    held = lease(consumer)
    assert (held["job_id"], held["attempt"]) == (job_id, 1)
    assert held["payload"] == {"args": ["a@b.c"], "kwargs": {"subject": "hi"}}
    at = f"{JOBS}/{job_id}"
    done = consumer.post(f"{at}/progress", json={**proof(held), "progress": {"percent": 50}})
    assert done.json() == {"done": True}
    line = {"at": "2026-01-01T00:00:00Z", "text": "half-way"}
    assert consumer.post(f"{at}/log", json={**proof(held), "lines": [line]}).status_code == 200
    renewed = consumer.post(
        f"{at}/renew", json={**proof(held), "worker": "w", "lease_seconds": 600}
    ).json()
    assert 590 < renewed["granted_seconds"] <= 600
    assert renewed["next_heartbeat_seconds"] == pytest.approx(60, abs=1)
    settled = consumer.post(
        f"{at}/complete", json={**proof(held), "result": {"sent": 1}, "note": "fine"}
    )
    assert settled.json()["status"] == "completed"
    assert producer.get(f"{at}/result").json() == {"result": {"sent": 1}}
    told = producer.get(at, params={"include": ["attempts", "history"]}).json()
    assert told["job"]["progress"] == {"percent": 50}
    assert told["job"]["metadata"] == {"tenant": "x"}
    assert [each["note"] for each in told["attempts"]] == ["fine"]
    assert [each["event"] for each in told["history"]["events"]] == [
        "created", "leased", "completed",
    ]  # fmt: skip
    assert producer.get(f"{at}/log").json()["lines"][0]["text"] == "half-way"


def test_every_other_end(service: Service) -> None:
    client = service.client("producer", "consumer")
    for verb, given, status in (
        ("fail", {"error": {"type": "OSError", "message": "no line"}}, "failed"),
        ("fail", {"requeue": False}, "dead"),
        ("snooze", {"delay_seconds": 60}, "scheduled"),
        ("release", {"reason": "shutting down"}, "pending"),
    ):
        queue = f"{verb}-{status}"
        job_id = submit(client, queue=queue)
        held = lease(client, queues=[queue])
        answer = client.post(f"{JOBS}/{job_id}/{verb}", json={**proof(held), **given})
        assert (answer.status_code, answer.json()["status"]) == (200, status)


def test_a_late_settlement_changes_nothing(service: Service) -> None:
    client = service.client("producer", "consumer")
    job_id = submit(client)
    first = lease(client)
    client.post(f"{JOBS}/{job_id}/release", json=proof(first))
    second = lease(client)
    late = client.post(f"{JOBS}/{job_id}/complete", json={**proof(first), "result": 1})
    assert (late.status_code, late.json()["code"]) == (409, "lease_conflict")
    assert late.headers["content-type"] == "application/problem+json"
    client.post(f"{JOBS}/{job_id}/complete", json={**proof(second), "result": 2})
    late = client.post(f"{JOBS}/{job_id}/complete", json={**proof(first), "result": 1})
    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")
    assert client.get(f"{JOBS}/{job_id}/result").json() == {"result": 2}


def test_a_job_is_submitted_once_under_its_key(service: Service) -> None:
    client = service.client("producer")
    key = {"Idempotency-Key": "order-7"}
    one = client.post(JOBS, json={"task": "mail"}, headers=key).json()
    two = client.post(JOBS, json={"task": "mail"}, headers=key).json()
    assert (one["id"], one["is_duplicate"], two["is_duplicate"]) == (two["id"], False, True)
    other = client.post(JOBS, json={"task": "mail", "args": [1]}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    twice = client.post(JOBS, json={"task": "mail", "idempotency_key": "x"}, headers=key)
    assert twice.status_code == 400


def test_a_batch_is_all_or_nothing_or_partial(service: Service) -> None:
    client = service.client("producer")
    jobs = [{"task": "a", "id": "one"}, {"task": "a", "id": "one"}, {"task": "b"}]
    refused = client.post(f"{JOBS}/batch", json={"jobs": jobs})
    assert (refused.status_code, refused.json()["code"]) == (409, "duplicate_job")
    assert client.get(JOBS).json()["jobs"] == []
    taken = client.post(f"{JOBS}/batch", json={"jobs": jobs, "partial": True}).json()
    assert [each["index"] for each in taken["successful"]] == [0, 2]
    [failed] = taken["failed"]
    assert (failed["index"], failed["error"]["code"]) == (1, "duplicate_job")


def test_a_job_that_makes_no_sense_is_named_and_hinders_no_other(service: Service) -> None:
    client = service.client("producer")
    jobs = [
        {"task": "a", "priority": 9999},
        {"task": "b", "delay_seconds": "1h"},
        {"queue": "neither a task nor a command"},
        "no object",
        {"task": "c", "colour": "red"},
    ]
    assert client.post(f"{JOBS}/batch", json={"jobs": jobs}).status_code == 422
    taken = client.post(f"{JOBS}/batch", json={"jobs": jobs, "partial": True}).json()
    assert [each["index"] for each in taken["successful"]] == [1]
    assert [each["index"] for each in taken["failed"]] == [0, 2, 3, 4]
    codes = [each["error"]["code"] for each in taken["failed"]]
    assert codes == ["invalid_job", "invalid_job", "invalid_job", "unknown_field"]
    assert "$.priority" in taken["failed"][0]["error"]["message"]
    assert [each["task"] for each in client.get(JOBS).json()["jobs"]] == ["b"]
    for wrong in ({"partial": True}, {"jobs": jobs, "partial": True, "colour": "red"}):
        assert client.post(f"{JOBS}/batch", json=wrong).status_code == 422


def test_repeated_requests_are_answered_as_the_first_time(service: Service) -> None:
    client = service.client("producer", "consumer")
    batch = {"jobs": [{"task": "a"}, {"task": "a"}], "request_id": "r1"}
    first, again = (client.post(f"{JOBS}/batch", json=batch).json() for _ in range(2))
    assert first == again
    assert len(client.get(JOBS).json()["jobs"]) == 2
    asked = {"lease": {"worker": "w", "limit": 2}, "request_id": "r2"}
    first, again = (client.post("/api/v1/exchange", json=asked).json() for _ in range(2))
    assert len(first["leases"]) == 2
    assert [(each["job_id"], each["secret"]) for each in first["leases"]] == [
        (each["job_id"], each["secret"]) for each in again["leases"]
    ]
    settlements = [
        {"outcome": "complete", "job_id": each["job_id"], **proof(each), "result": None}
        for each in first["leases"]
    ]
    settle = {"settlements": settlements, "request_id": "r3"}
    first, again = (client.post("/api/v1/exchange", json=settle).json() for _ in range(2))
    assert first["settled"] == again["settled"]
    assert [each["settled"]["status"] for each in first["settled"]] == ["completed"] * 2


def test_request_ids_are_each_token_s_own(service: Service) -> None:
    one, other = service.client("producer", "consumer"), service.client("producer", "consumer")
    job = {"task": "a", "request_id": "r" * 255}
    assert one.post(JOBS, json=job).json()["id"] == one.post(JOBS, json=job).json()["id"]
    assert other.post(JOBS, json=job).json()["id"] != one.post(JOBS, json=job).json()["id"]
    asked = {"worker": "w", "wait_seconds": 0, "request_id": "r"}
    first, second = (each.post("/api/v1/leases", json=asked).json() for each in (one, other))
    assert first["leases"][0]["job_id"] != second["leases"][0]["job_id"]


def test_an_exchange_settles_and_leases_and_tells_who_was_late(service: Service) -> None:
    client = service.client("producer", "consumer")
    submit(client, id="one")
    submit(client, id="two")
    held = lease(client)
    settlements = [
        {"outcome": "complete", "job_id": "one", **proof(held)},
        {"outcome": "fail", "job_id": "two", "version": 1, "secret": "guess"},
    ]
    answer = client.post(
        "/api/v1/exchange", json={"settlements": settlements, "lease": {"worker": "w"}}
    ).json()
    good, bad = answer["settled"]
    assert good["settled"]["status"] == "completed"
    assert bad["error"]["code"] == "lease_lost"
    assert [each["job_id"] for each in answer["leases"]] == ["two"]


def test_a_heartbeat_for_many(service: Service) -> None:
    client = service.client("producer", "consumer")
    submit(client, id="one")
    held = lease(client)
    leases = [{"job_id": "one", **proof(held)}, {"job_id": "two", "version": 1, "secret": "x"}]
    answer = client.post("/api/v1/renewals", json={"worker": "w", "leases": leases}).json()
    good, bad = answer["renewals"]
    assert good["renewed"]["job_id"] == "one"
    assert bad["error"]["code"] == "lease_lost"


def test_large_payloads_and_results_cross(service: Service) -> None:
    client = service.client("producer", "consumer")
    large = "x" * 400_000
    job_id = submit(client, payload={"text": large})
    held = lease(client)
    assert held["payload"] == {"text": large}
    client.post(f"{JOBS}/{job_id}/complete", json={**proof(held), "result": large})
    assert client.get(f"{JOBS}/{job_id}/result").json() == {"result": large}
    assert client.get(f"{JOBS}/{job_id}").json()["job"]["payload"] == {"text": large}


def test_cancel_priority_and_position(service: Service) -> None:
    client = service.client("producer")
    first, second = submit(client), submit(client)
    third = client.post(JOBS, json={"task": "mail", "with_position": True}).json()
    assert third["position"] == 2
    changed = client.post(f"{JOBS}/{second}/priority", json={"priority": "high"}).json()
    assert changed["job"]["priority"] == 75
    stopped = client.post(f"{JOBS}/{first}/cancel", json={"reason": "sold out"}).json()
    assert (stopped["job"]["status"], stopped["job"]["reason"]) == ("cancelled", "sold out")
    gone = client.get(f"{JOBS}/{first}/result")
    assert (gone.status_code, gone.json()["code"]) == (409, "job_cancelled")


def test_a_full_queue_says_when_to_come_again(service: Service) -> None:
    service.store.create_queue("slow", QueueConfig(client_rate_per_second=0.5), actor="me")
    client, other = service.client("producer"), service.client("producer")
    assert client.post(JOBS, json={"task": "a", "queue": "slow"}).status_code == 201
    refused = client.post(JOBS, json={"task": "a", "queue": "slow"})
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 2
    assert refused.headers["x-ratelimit-limit"] == "1"
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert int(refused.headers["x-ratelimit-reset"]) > 0
    assert refused.json()["detail"].split(";")[0].endswith("0.5 jobs per second from client 't0'")
    # Each token is a client of its own.
    assert other.post(JOBS, json={"task": "a", "queue": "slow"}).status_code == 201


def test_a_queue_without_room_tells_its_limit(service: Service) -> None:
    service.store.create_queue("small", QueueConfig(max_depth=2), actor="me")
    service.store.create_queue("slow", QueueConfig(rate_per_second=0.5), actor="me")
    client = service.client("producer")
    one = {"task": "a", "queue": "small"}
    assert client.post(JOBS, json=one).status_code == 201
    too_many = client.post(f"{JOBS}/batch", json={"jobs": [one] * 2})
    assert (too_many.status_code, too_many.headers["x-ratelimit-remaining"]) == (429, "1")
    never = client.post(f"{JOBS}/batch", json={"jobs": [one] * 3})
    assert (never.status_code, never.headers["x-ratelimit-limit"]) == (429, "2")
    assert not {"retry-after", "x-ratelimit-reset"} & {*never.headers}
    assert client.post(JOBS, json=one).status_code == 201
    refused = client.post(JOBS, json=one)
    assert (refused.status_code, refused.json()["code"]) == (429, "queue_full")
    told = [refused.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining")]
    assert told == ["2", "0"]
    seconds = int(refused.headers["x-ratelimit-reset"]) - service.store.now().timestamp()
    assert -WAIT < seconds <= int(refused.headers["retry-after"]) + 1
    for _ in range(2):
        refused = client.post(JOBS, json={"task": "a", "queue": "slow"})
    assert (
        "queue 'slow' accepts 0.5 jobs per second from all clients together; try again"
        in refused.json()["detail"]
    )


def test_a_method_that_is_not_there_is_told_with_those_that_are(service: Service) -> None:
    client = service.client("producer")
    for method in ("PUT", "HEAD"):
        refused = client.request(method, JOBS)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")
    assert client.put(JOBS).json()["detail"] == "method not allowed; use GET or POST"


def test_operators_have_what_they_need(service: Service) -> None:
    client = service.client("operator", "producer", "consumer")
    for number in range(3):
        submit(client, id=f"job-{number}", queue="mail")
    created = client.post("/api/v1/queues", json={"queue": "mail", "config": {"max_depth": 9}})
    assert (created.status_code, created.json()["queue"]["config"]["max_depth"]) == (201, 9)
    changed = client.patch("/api/v1/queues/mail", json={"changes": {"max_depth": None}}).json()
    assert changed["queue"]["config"].get("max_depth") is None
    assert client.post("/api/v1/queues/mail/pause").json()["queue"]["state"] == "paused"
    assert client.post("/api/v1/queues/mail/resume").json()["queue"]["state"] == "active"
    order = {"order": {"type": "cancel", "reason": "no"}, "where": {"queues": ["mail"]}}
    meant = client.post("/api/v1/orders", json={**order, "dry_run": True}).json()
    assert (meant["changed"], len(meant["would_change"])) == (0, 3)
    assert client.post("/api/v1/orders", json=order).json()["changed"] == 3
    page = client.get(JOBS, params={"status": ["cancelled"], "limit": 2}).json()
    rest = client.get(JOBS, params={"status": "cancelled", "cursor": page["next_cursor"]}).json()
    assert len(page["jobs"] + rest["jobs"]) == 3
    assert client.post(f"{JOBS}/job-0/replay", json={}).json()["job"]["status"] == "pending"
    held = lease(client, queues=["mail"])
    client.post(f"{JOBS}/job-0/fail", json={**proof(held), "requeue": False})
    [letter] = client.get("/api/v1/dead-letters").json()["letters"]
    assert (letter["id"], letter["why"]) == ("job-0", "Error: ")
    assert client.delete(f"{JOBS}/job-0").json()["job"]["id"] == "job-0"
    assert client.get(f"{JOBS}/job-0").status_code == 404
    assert client.get("/api/v1/metrics", params={"queue": "mail"}).json()["metrics"]["dead"] == 1
    assert len(client.get("/api/v1/series", params={"minutes": 5}).json()["points"]) == 5
    assert client.post("/api/v1/sweep").json()["recovered"] == 0
    assert client.put("/api/v1/settings/max_retries", json={"value": 5}).json()["values"] == {
        "max_retries": 5
    }
    assert client.delete("/api/v1/settings/max_retries").json()["values"] == {}
    schedule = {"timing": {"type": "every", "seconds": 60}, "job": {"task": "tidy"}}
    made = client.put("/api/v1/schedules/tidy", json=schedule).json()["schedule"]
    assert (made["every_seconds"], made["task"]) == (60, "tidy")
    assert client.post("/api/v1/schedules/tidy/run").json()["job"]["task"] == "tidy"
    again = [
        client.post("/api/v1/schedules/tidy/run", json={"request_id": "once"}).json()["job"]["id"]
        for _ in range(2)
    ]
    assert len(set(again)) == 1, "a request that is sent again"
    assert client.delete("/api/v1/schedules/tidy").status_code == 200


def test_a_consumer_counts_as_a_worker(service: Service) -> None:
    client = service.client("consumer", "operator")
    client.post("/api/v1/leases", json={"worker": "node-1", "queues": ["mail"], "wait_seconds": 0})
    [worker] = client.get("/api/v1/workers").json()["workers"]
    assert (worker["id"], worker["queues"], worker["is_consumer"]) == ("node-1", ["mail"], True)
    assert worker["host"] is None


def test_admins_make_and_revoke_tokens(service: Service) -> None:
    admin = service.client("admin")
    made = admin.post("/api/v1/tokens", json={"name": "ci", "roles": ["producer"]}).json()
    client = service.client(secret=made["secret"])
    assert client.post(JOBS, json={"task": "a"}).status_code == 201
    assert "secret" not in str(admin.get("/api/v1/tokens").json())
    admin.delete("/api/v1/tokens/ci")
    assert client.post(JOBS, json={"task": "a"}).status_code == 401
    latest = admin.get("/api/v1/audit", params={"limit": 1}).json()["records"][0]
    assert (latest["action"], latest["actor"]) == ("revoke_token", "token:t0")


def test_the_audit_log_is_narrowed_to_a_time(service: Service) -> None:
    admin = service.client("admin")
    for name in ("one", "two", "three"):
        admin.post("/api/v1/tokens", json={"name": name, "roles": ["producer"]})

    def names(**params: Any) -> list[str]:
        records = admin.get("/api/v1/audit", params=params).json()["records"]
        return [each["detail"]["token"] for each in records]

    three, two, one = (each.at.isoformat() for each in service.store.audit_page(limit=3).records)
    assert names(since=two)[:2] == ["three", "two"]
    assert len(names(since=two)) == 2
    assert names(since=one, before=three) == ["two", "one"]
    assert names(since=one, before=three, limit=1) == ["two"]


def test_a_renewal_keeps_what_was_granted_to_whom_it_was_granted(service: Service) -> None:
    client = service.client("producer", "consumer")
    job_id = submit(client, lease_seconds=20)
    held = lease(client, worker="w1")
    for _ in range(2):
        renewed = client.post(f"{JOBS}/{job_id}/renew", json=proof(held)).json()
        assert renewed["granted_seconds"] == pytest.approx(20, abs=1)
    longer = client.post(f"{JOBS}/{job_id}/renew", json={**proof(held), "lease_seconds": 90})
    assert longer.json()["granted_seconds"] == pytest.approx(90, abs=1)
    one = {"job_id": job_id, **proof(held)}
    [many] = client.post("/api/v1/renewals", json={"worker": "w1", "leases": [one]}).json()[
        "renewals"
    ]
    assert many["renewed"]["granted_seconds"] == pytest.approx(90, abs=1)
    client.post(f"{JOBS}/{job_id}/complete", json=proof(held))
    late = client.post(f"{JOBS}/{job_id}/renew", json=proof(held))
    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")


def test_a_line_of_the_log_may_be_a_text_alone(service: Service) -> None:
    client = service.client("producer", "consumer")
    job_id = submit(client)
    held = lease(client)
    lines = ["one", {"text": "two"}, {"text": "three", "at": "2026-01-01T00:00:00Z"}]
    assert client.post(f"{JOBS}/{job_id}/log", json={**proof(held), "lines": lines}).is_success
    told = client.get(f"{JOBS}/{job_id}/log").json()["lines"]
    assert [each["text"] for each in told] == ["one", "two", "three"]
    assert told[2]["at"] == "2026-01-01T00:00:00Z"
    assert told[0]["at"] == told[1]["at"] > told[2]["at"]


def test_names_with_a_slash_are_names(service: Service) -> None:
    client = service.client("admin")
    submit(client, id="a", priority=50)
    submit(client, id="a/priority", priority="high")
    held = lease(client)
    assert held["job_id"] == "a/priority"
    changed = client.post(f"{JOBS}/a%2Fpriority", json={"priority": 1})
    assert changed.status_code == 405
    done = client.post(f"{JOBS}/a%2Fpriority/complete", json=proof(held))
    assert done.json()["status"] == "completed"
    assert client.get(f"{JOBS}/a%2Fpriority").json()["job"]["id"] == "a/priority"
    assert client.get(f"{JOBS}/a").json()["job"]["priority"] == 50
    client.post("/api/v1/queues", json={"queue": "q/1%", "config": {}})
    paused = client.post("/api/v1/queues/q%2F1%25/pause", json={})
    assert paused.is_success, paused.text
    made = client.post("/api/v1/tokens", json={"name": "t/1", "roles": ["producer"]})
    assert made.is_success
    assert client.delete("/api/v1/tokens/t%2F1").is_success


def test_a_wrong_address_is_told_where_to_look(memory_service: Service) -> None:
    client = memory_service.client("admin")
    for path in ("/", "/jobs", "/api/v1/job"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "/api/v1/openapi.json" in answer.json()["detail"]


def test_an_error_of_any_size_is_kept_within_bounds(service: Service) -> None:
    client = service.client("producer", "consumer")
    job_id = submit(client)
    error = {"type": "T" * 10_000, "message": "m" * 1_000_000, "traceback": "t" * 1_000_000}
    failed = client.post(f"{JOBS}/{job_id}/fail", json={**proof(lease(client)), "error": error})
    assert failed.is_success
    job = service.store.get(job_id)
    assert job is not None
    assert job.error is not None
    assert (len(job.error.type), len(job.error.message)) == (4096, 4096)
    assert job.error.traceback is not None
    assert len(job.error.traceback) < 17_000


def test_a_token_may_have_every_role(memory_service: Service) -> None:
    admin = memory_service.client("admin")
    made = admin.post("/api/v1/tokens", json={"name": "every", "roles": list(ROLES)})
    assert made.json()["token"]["roles"] == list(ROLES)
