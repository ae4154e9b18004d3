"""Attacks on the service, each with its defence."""

from __future__ import annotations

import http.client
import json
import logging
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from leasehold.connect import connect
from leasehold.errors import StoreLostError
from leasehold.service import http_protocol, http_request
from leasehold.service.api import OPERATIONS
from service.conftest import Service, serving
from service.test_jobs_over_http import JOBS, lease, proof, submit


def filled(path: str) -> str:
    return "/api/v1" + path.replace("{job_id}", "x").replace("{queue}", "x").replace("{name}", "x")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_nobody_comes_in_without_a_token(memory_service: Service, operation: Any) -> None:
    for headers in (
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer lh_" + "0" * 64},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
    ):
        answer = memory_service.anonymous(**headers).request(
            operation.method,
            filled(operation.path),
            json={} if operation.method[0] == "P" else None,
        )
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_only_health_and_readiness_are_open(memory_service: Service) -> None:
    anybody = memory_service.anonymous()
    assert anybody.get("/healthz").status_code == 200
    assert anybody.get("/readyz").status_code == 200
    for path in ("/api/v1/openapi.json", "/api/v1/events"):
        assert anybody.get(path).status_code == 401
    for path in ("/", "/docs", "/metrics", "/api/v1", "/api/v1/healthz/../jobs", "//api/v1/jobs"):
        assert anybody.get(path).status_code in (401, 404)


def test_a_token_and_a_scope_are_compared_as_a_whole(memory_service: Service) -> None:
    """Attack 5: what merely begins or ends like a token, a scheme, a path or a queue is another."""
    secret = memory_service.token("producer", queues=("mine",))
    for shown in (
        *(f"Bearer {secret}x", f"Bearer x{secret}", f"Bearer {secret[:-1]}"),
        *(f"Bearer {secret.upper()}", f"Bearer {secret} {secret}"),
        *(f"xBearer {secret}", f"Bearerx {secret}", secret),
    ):
        answer = memory_service.anonymous(Authorization=shown).get(JOBS)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), shown
    client = memory_service.client(secret=secret)
    for queue in ("mine2", "min", "Mine", "xmine", "mine:"):
        assert client.post(JOBS, json={"task": "a", "queue": queue}).status_code == 403
    assert client.post(JOBS, json={"task": "a", "queue": "mine"}).status_code == 201
    for path in ("/healthzx", "/readyz/jobs", "/x/healthz", "/healthz/../api/v1/jobs"):
        assert memory_service.anonymous().get(path).status_code in (401, 404)


def test_a_token_that_has_ended_is_not_good_for_one_more_request(memory_service: Service) -> None:
    client = memory_service.client("producer", name="ci")
    submit(client)
    memory_service.store.revoke_token("ci", actor="me")
    assert client.post(JOBS, json={"task": "a"}).status_code == 401
    short = memory_service.client("producer", lifetime_seconds=1e-6)
    assert short.post(JOBS, json={"task": "a"}).status_code == 401


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_each_operation_asks_for_its_role(memory_service: Service, operation: Any) -> None:
    for role in ("producer", "consumer", "operator"):
        if role in operation.roles:
            continue
        answer = memory_service.client(role).request(operation.method, filled(operation.path))
        # What makes no sense may be told first; what is asked is never done.
        assert answer.status_code in (403, 422), answer.text
        if answer.status_code == 422:
            assert operation.request.__struct_fields__


def test_a_token_for_one_queue_sees_and_touches_no_other(service: Service) -> None:
    everybody = service.client("admin")
    foreign = submit(everybody, queue="theirs")
    scoped = service.client("producer", "consumer", "operator", queues=("ours",))
    submit(scoped, queue="ours", id="ours:1")
    assert scoped.post(JOBS, json={"task": "a", "queue": "theirs"}).status_code == 403
    assert scoped.post(JOBS, json={"task": "a"}).status_code == 403
    for path in ("", "/history", "/log", "/result", "/wait"):
        assert scoped.get(f"{JOBS}/{foreign}{path}").status_code == 404
    for path, body in (
        ("/cancel", {}), ("/priority", {"priority": 1}), ("/replay", {}),
    ):  # fmt: skip
        assert scoped.post(f"{JOBS}/{foreign}{path}", json=body).status_code == 404
    assert scoped.delete(f"{JOBS}/{foreign}").status_code == 404
    assert [each["id"] for each in scoped.get(JOBS).json()["jobs"]] == ["ours:1"]
    assert scoped.get(JOBS, params={"queue": "theirs"}).status_code == 403
    order = {"order": {"type": "cancel"}, "where": {"ids": [foreign]}}
    assert scoped.post("/api/v1/orders", json=order).json()["changed"] == 0
    assert [each["queue"] for each in scoped.get("/api/v1/queues").json()["queues"]] == ["ours"]
    for method, path in (
        ("GET", "/queues/theirs"), ("POST", "/queues/theirs/pause"), ("GET", "/settings"),
        ("GET", "/workers"), ("POST", "/sweep"), ("GET", "/metrics"), ("GET", "/events"),
        ("DELETE", "/queues/theirs"),
    ):  # fmt: skip
        assert scoped.request(method, f"/api/v1{path}").status_code == 403, path
    asked = {"worker": "w", "queues": ["ours", "theirs"], "wait_seconds": 0}
    assert scoped.post("/api/v1/leases", json=asked).status_code == 403
    assert everybody.get(f"{JOBS}/{foreign}").json()["job"]["status"] == "pending"


def test_command_jobs_need_a_right_of_their_own(memory_service: Service) -> None:
    """Attack 1: an open job API would run any program."""
    command = {"command": "touch /tmp/owned"}
    for allowed in (False, True):
        client = memory_service.client("producer", "operator", commands=allowed)
        expected = 201 if allowed else 403
        assert client.post(JOBS, json=command).status_code == expected
        by_name = {"task": "command", "payload": {"shell": "touch /tmp/owned"}}
        assert client.post(JOBS, json=by_name).status_code == expected
        batch = client.post(f"{JOBS}/batch", json={"jobs": [command], "partial": True})
        assert batch.status_code == expected
        schedule = {"timing": {"type": "every", "seconds": 60}, "job": command}
        made = client.put("/api/v1/schedules/owned", json=schedule)
        assert made.status_code == (200 if allowed else 403)


def test_without_tokens_commands_are_refused_all_the_same() -> None:
    store = connect("memory://")
    with serving(store, insecure=True) as service:
        anybody = service.anonymous()
        assert anybody.post(JOBS, json={"task": "a"}).status_code == 201
        assert anybody.post(JOBS, json={"command": "true"}).status_code == 403
        bad = service.anonymous(Authorization="Bearer nonsense")
        assert bad.get(JOBS).status_code == 401
    store.close()


def test_headers_that_say_who_asks_are_sent_once(memory_service: Service) -> None:
    """A proxy might go by one of them, and the service by the other."""
    client = memory_service.client("admin")
    token = client.headers["Authorization"]
    for name, value in (("Authorization", token), ("Idempotency-Key", "once")):
        twice = [("Authorization", token), (name, value), (name, value)]
        answer = memory_service.anonymous().post(JOBS, json={"task": "a"}, headers=twice)
        assert (answer.status_code, answer.json()["code"]) == (400, "repeated_header"), name


def test_dns_rebinding_and_other_sites_are_refused(memory_service: Service) -> None:
    """Attack 4: every method, with and without a token."""
    client = memory_service.client("admin")
    port = memory_service.port
    for method in ("GET", "POST", "DELETE"):
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1.evil.example",
            f"127.0.0.1:{port}.evil",
            "",
        ):
            answer = client.request(method, JOBS, headers={"Host": host})
            assert answer.status_code in (400, 403), host
        foreign = ("https://evil.example", "null", f"http://127.0.0.1:{port + 1}", "http://[::1")
        for origin in foreign:
            answer = client.request(method, JOBS, headers={"Origin": origin})
            assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
    for path in ("/healthz", "/readyz"):  # Balancers name a server by its address.
        assert client.get(path, headers={"Host": "10.1.2.3:8700"}).status_code == 200
    for path in ("/healthz/", "/%68ealthz", "/readyz/x"):
        assert client.get(path, headers={"Host": "10.1.2.3:8700"}).status_code == 403
    same = client.get(JOBS, headers={"Origin": f"http://127.0.0.1:{port}"})
    assert same.status_code == 200
    assert client.get(JOBS, headers={"Host": f"localhost:{port}"}).status_code == 200


def test_names_that_were_allowed_are_let_in() -> None:
    store = connect("memory://")
    with serving(store, hosts=("jobs.example.com",)) as service:
        client = service.client("admin")
        assert client.get(JOBS, headers={"Host": "Jobs.Example.com:8700"}).status_code == 200
        assert client.get(JOBS, headers={"Host": "x.jobs.example.com"}).status_code == 403
    store.close()


def test_a_lease_cannot_be_taken_over_by_guessing(service: Service) -> None:
    """Attack 8: versions can be guessed, the secret beside them cannot."""
    client = service.client("producer", "consumer")
    job_id = submit(client)
    held = lease(client)
    for secret in ("", "0" * 32, held["secret"][:-1], held["secret"].upper() + "0", "\u00fc"):
        for verb, more in (
            ("complete", {}), ("fail", {}), ("snooze", {"delay_seconds": 1}), ("release", {}),
            ("renew", {"worker": "w"}), ("progress", {"progress": {}}), ("log", {"lines": []}),
        ):  # fmt: skip
            body = {"version": held["version"], "secret": secret, **more}
            answer = client.post(f"{JOBS}/{job_id}/{verb}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost")
    other = submit(client)
    stolen = client.post(f"{JOBS}/{other}/complete", json=proof(held))
    assert stolen.status_code == 409
    assert client.get(f"{JOBS}/{job_id}").json()["job"]["status"] == "running"
    assert client.post(f"{JOBS}/{job_id}/complete", json=proof(held)).status_code == 200


BOMBS = [
    (b"{", 400), (b"", 422), (b"null", 400), (b"[]", 400), (b'"x"', 400), (b"{'a': 1}", 400),
    (b'{"task": NaN}', 400), (b'{"task": "a", "args": [Infinity]}', 400),
    (b'{"task": "a", "args": [1e999]}', 400), (b'{"task": "a", "task": "b"}', 400),
    (b'{"task": "a", "args": ' + b"[" * 100 + b"]" * 100 + b"}", 400),
    (b'{"task": "a", "args": ' + b"[" * 100_000, 400),
    (b'{"a":' * 100_000, 400),
    (b'{"task": "a", "args": [' + b"9" * 5000 + b"]}", 400),
    (b'{"task": "a", "priority": ' + b"9" * 400 + b"}", 422),
    (b'{"task": "\\ud800"}', 400), (b'{"task": "a\\u0000"}', 422), (b'{"task": "\xff"}', 400),
    (b'{"task": "a", "nonsense": 1}', 422), (b'{"task": 1}', 422), (b'{"task": ""}', 422),
    (b'{"task": "a", "run_at": "yesterday"}', 422), (b'{"task": "a", "delay_seconds": -1}', 422),
    (b'{"task": "a", "metadata": {"a": {}}}', 422),
    (b'{"task": "a", "run_at": "9999-12-31T23:59:59.999999-23:59"}', 422),
    (b'{"task": "a", "depends_on": ["nobody"]}', 422),
    (b'{"task": "' + b"a" * 300 + b'"}', 422),
    (b"\xef\xbb\xbf{}", 400), (b"\x00", 400),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status"), BOMBS)
def test_what_is_malformed_is_refused(memory_service: Service, body: bytes, status: int) -> None:
    """Attack 12: JSON bombs are 4xx, never 5xx, and nothing is stored."""
    client = memory_service.client("producer")
    before = memory_service.store.stats().submitted
    answer = client.post(JOBS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.json()["code"]
    assert memory_service.store.stats().submitted == before


def test_deep_but_allowed_nesting_and_brackets_in_texts(memory_service: Service) -> None:
    client = memory_service.client("producer")
    nested: Any = "x"
    for _ in range(60):
        nested = [nested]
    submit(client, payload=nested)
    submit(client, payload={"text": '[[[["\\' * 1000})
    submit(client, payload=[{"n": n, "l": []} for n in range(1000)])


def test_a_body_that_is_too_large_is_refused_unread(memory_service: Service) -> None:
    secret = memory_service.token("producer")
    head = (
        f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000000000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", memory_service.port), timeout=30) as line:
        line.sendall(head.encode())
        assert b" 413 " in line.recv(1000).splitlines()[0]
    client = memory_service.client("producer")
    chunks = (b"x" * 1024 * 1024 for _ in range(17))
    answer = client.post(JOBS, content=chunks, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


def test_another_media_type_is_refused(memory_service: Service) -> None:
    client = memory_service.client("producer")
    answer = client.post(JOBS, content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


def test_a_slow_body_ends(memory_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 10: the rest of the body never comes."""
    monkeypatch.setattr(http_request, "BODY_SECONDS_MAX", 0.05)
    secret = memory_service.token("producer")
    head = (
        f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", memory_service.port), timeout=30) as line:
        line.sendall(head.encode())
        assert b" 408 " in line.recv(1000).splitlines()[0]


def test_a_slow_head_ends(memory_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS_MAX", 0.05)
    with socket.create_connection(("127.0.0.1", memory_service.port), timeout=30) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert line.recv(100) == b""


def test_silent_connections_make_room_for_others(
    memory_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "SILENT_CONNECTIONS_MAX", 5)
    address = ("127.0.0.1", memory_service.port)
    lines = [socket.create_connection(address, timeout=30) for _ in range(10)]
    try:
        for line in lines[:5]:
            assert line.recv(100) == b""
        assert memory_service.client("admin").get(JOBS).status_code == 200
    finally:
        for line in lines:
            line.close()


def test_a_head_that_is_too_large_is_refused(memory_service: Service) -> None:
    headers = {f"X-Large-{n}": "x" * 30_000 for n in range(4)}
    try:
        answer = memory_service.anonymous().get("/healthz", headers=headers)
    except httpx.TransportError:
        return  # It hung up before all of it was sent.
    assert answer.status_code == 400


def test_secrets_are_in_no_log(
    memory_service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack 15: a canary in tokens, payloads and lease secrets is in no log and no error."""
    caplog.set_level(logging.DEBUG)
    canary = "canary-5ec4e7"
    client = memory_service.client("producer", "consumer")
    answers = [
        memory_service.anonymous(Authorization=f"Bearer {canary}").get(JOBS),
        client.post(JOBS, json={"task": "a", "payload": {"password": canary}, "priority": 500}),
        client.post(JOBS, content=f'{{"password": "{canary}"'.encode()),
    ]
    job_id = submit(client, payload={"password": canary}, queue="canary")
    held = lease(client, queues=["canary"])
    answers.append(client.post(f"{JOBS}/{job_id}/renew", json={**proof(held), "nonsense": canary}))
    monkeypatch.setattr(
        memory_service.store, "get", lambda _: (_ for _ in ()).throw(RuntimeError("a fault"))
    )
    failed = client.get(f"{JOBS}/{job_id}")
    assert (failed.status_code, failed.json()["code"]) == (500, "internal")
    assert "fault" not in failed.text
    for answer in answers:
        assert 400 <= answer.status_code < 500
        assert canary not in answer.text
    assert "a fault" in caplog.text
    for secret in (canary, held["secret"], client.headers["Authorization"][7:]):
        assert secret not in caplog.text


def test_answers_are_never_taken_for_pages(memory_service: Service) -> None:
    answer = memory_service.client("admin").get(JOBS)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    "sent",
    [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA\x01: b\r\n\r\n"],
    ids=["no request", "control character"],
)
def test_what_is_no_request_is_answered_like_every_problem(
    memory_service: Service, sent: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", memory_service.port), timeout=30) as line:
        line.sendall(sent)
        answer = http.client.HTTPResponse(line)
        answer.begin()
        with answer:
            assert answer.status == 400
            assert answer.getheader("content-type") == "application/problem+json"
            assert json.load(answer)["code"] == "bad_request"


def test_nobody_hands_on_more_than_they_may() -> None:
    store = connect("memory://")
    with serving(store, insecure=True) as service:
        body = {"name": "mine", "roles": ["admin"]}
        anybody = service.anonymous().post("/api/v1/tokens", json=body)
        assert (anybody.status_code, anybody.json()["code"]) == (403, "forbidden")
        admin = service.client("admin")
        commands = admin.post("/api/v1/tokens", json={**body, "commands": True})
        assert (commands.status_code, commands.json()["code"]) == (403, "forbidden")
        assert admin.post("/api/v1/tokens", json=body).status_code == 201
        trusted = service.client("admin", commands=True)
        more = {**body, "name": "more", "commands": True}
        assert trusted.post("/api/v1/tokens", json=more).status_code == 201
        assert {each.name for each in store.tokens()} >= {"mine", "more"}
    store.close()


def test_what_is_wrong_with_the_store_is_told_to_its_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = connect(str(tmp_path / "jobs.db"), durability="normal")
    with serving(store) as service:
        known = service.client("producer")
        submit(known)
        (tmp_path / "jobs.db").rename(tmp_path / "gone.db")
        for client in (known, service.anonymous(Authorization="Bearer lh_" + "0" * 64)):
            answer = client.post(JOBS, json={"task": "a"})
            assert answer.status_code == 503
            assert "jobs.db" not in answer.text
        ready = service.anonymous().get("/readyz")
        assert ready.status_code == 503
        assert "jobs.db" not in ready.text
        assert "jobs.db" in caplog.text
        (tmp_path / "gone.db").rename(tmp_path / "jobs.db")
    with suppress(StoreLostError):
        store.close()


def test_answers_are_sent_at_once(memory_service: Service) -> None:
    client = memory_service.client("producer")
    submit(client)
    lines = [
        each.transport.get_extra_info("socket")
        for each in memory_service.server.server_state.connections
    ]
    assert lines
    assert all(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for line in lines)
