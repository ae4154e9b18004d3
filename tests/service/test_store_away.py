"""A service whose PostgreSQL is away: refusals at once, the truth about it, and no help needed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from leasehold.connect import connect, served
from leasehold.core.model.job import Draft
from leasehold.core.model.tokens import TokenDraft, digest_of, new_token_secret
from leasehold.env import SYSTEM
from leasehold.errors import StoreUnavailableError
from service.test_servers_side_by_side import ServerProcess
from support.nursery import Nursery
from support.servers import Server, needs_psycopg, own_server

needs_psycopg()

from leasehold.stores.postgres.server.address import parse  # noqa: E402

AN_HOUR = 3600
"""The URL's own limits on waiting: an answer that came did not wait for them."""
WAIT = 60.0


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    # It is stopped at once: what was committed must be in its log by then.
    with own_server(durable=True) as server:
        yield server


@pytest.fixture(scope="module")
def service(database: Server, commands: Nursery) -> Iterator[ServerProcess]:
    limits = f"pool_timeout_seconds={AN_HOUR}&statement_timeout_seconds={AN_HOUR}"
    url, secret = f"{database.url}&{limits}", new_token_secret(SYSTEM)
    with closing(connect(url)) as store:
        store.create_token(TokenDraft(name="t", roles=("admin",)), digest_of(secret), actor="test")
    service = ServerProcess(commands, url, secret)
    yield service
    service.end(signal.SIGTERM)


def stop(database: Server) -> None:
    database.stop(signal.SIGQUIT)


def freeze(database: Server) -> None:
    database.freeze()


def start(database: Server) -> None:
    database.start()


def thaw(database: Server) -> None:
    database.freeze(signal.SIGCONT)


@pytest.fixture(params=[(stop, start), (freeze, thaw)], ids=["stopped", "frozen"])
def outage(request: pytest.FixtureRequest, database: Server) -> Iterator[Callable[[], None]]:
    """Begins an outage; it ends with the test, unless `.end` was called."""
    begin, end = request.param
    outage = Outage(lambda: begin(database), lambda: end(database))
    yield outage
    outage.end()


class Outage:
    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end
        self._is_on = False

    def __call__(self) -> None:
        self._begin()
        self._is_on = True

    def end(self) -> None:
        if self._is_on:
            self._is_on = False
            self._end()


class Faces:
    """Requests of each kind, and a session of the dashboard."""

    def __init__(self, service: ServerProcess) -> None:
        root = f"http://127.0.0.1:{service.port}"
        self.http = httpx.Client(
            base_url=root, headers=service.client.headers, timeout=WAIT, trust_env=False
        )
        self.http.get("/readyz")
        told = self.http.post(
            "/dashboard/login", data={"token": service.secret}, headers={"Origin": root}
        )
        assert told.status_code == 303
        self.remote = [
            connect(f"{scheme}://{service.secret}@127.0.0.1:{port}?retry_seconds=0.1")
            for scheme, port in (("http", service.port), ("grpc", service.grpc_port))
        ]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{service.grpc_port}")
        self._health = health_pb2_grpc.HealthStub(self.channel)

    def submit(self) -> httpx.Response:
        return self.http.post("/api/v1/jobs", json={"task": "a"})

    def lease(self) -> httpx.Response:
        return self.http.post("/api/v1/leases", json={"worker": "w", "wait_seconds": AN_HOUR / 60})

    def read(self) -> httpx.Response:
        return self.http.get("/api/v1/queues")

    def metrics(self) -> httpx.Response:
        return self.http.get("/metrics")

    def is_ready(self) -> httpx.Response:
        return self.http.get("/readyz")

    def health(self, name: str) -> int:
        status: int = self._health.Check(
            health_pb2.HealthCheckRequest(service=name), timeout=WAIT
        ).status
        return status

    def close(self) -> None:
        self.http.close()
        self.channel.close()
        for store in self.remote:
            store.close()


@pytest.fixture
def faces(service: ServerProcess) -> Iterator[Faces]:
    faces = Faces(service)
    yield faces
    faces.close()


def wait_until_it_works(faces: Faces) -> None:
    for _ in range(600):
        if faces.submit().status_code == 201:
            return
        SYSTEM.clock.pause(0.1)
    pytest.fail("the service has not found its database again")


def test_every_face_answers_while_the_database_is_away(outage: Outage, faces: Faces) -> None:
    outage()
    requests = (faces.submit, faces.lease, faces.read, faces.metrics, faces.is_ready)
    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(each) for each in requests for _ in range(8)]
        answers = [each.result() for each in asked]
    for answer in answers:
        assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1"), answer.text
        assert answer.json()["code"] == "store_unavailable"
    for store in faces.remote:
        with pytest.raises(StoreUnavailableError, match="cannot be used at the moment"):
            store.submit([Draft(id=SYSTEM.new_id(), task="a")])
    assert faces.http.get("/healthz").status_code == 200
    serving, not_serving = 1, 2
    assert (faces.health(""), faces.health("leasehold.v1.Leasehold")) == (serving, not_serving)
    page = faces.http.get("/dashboard/queues")
    assert page.status_code == 503
    assert "The store does not answer" in page.text
    outage.end()
    wait_until_it_works(faces)
    assert faces.is_ready().status_code == 200
    assert faces.health("leasehold.v1.Leasehold") == serving
    for store in faces.remote:
        assert store.submit([Draft(id=SYSTEM.new_id(), task="a")])


def test_a_request_under_way_is_answered_too(outage: Outage, faces: Faces) -> None:
    """A write that the database has begun, and a poll that waits for jobs."""
    with ThreadPoolExecutor(8) as pool:
        stopping: list[Any] = []

        def submit_on() -> httpx.Response:
            answer = faces.submit()
            while answer.status_code == 201 and not stopping:
                answer = faces.submit()
            return answer

        writers = [pool.submit(submit_on) for _ in range(4)]
        outage()
        refused = [each.result() for each in writers]
        stopping.append(True)
    assert {each.status_code for each in refused} == {503}
    outage.end()
    wait_until_it_works(faces)


def test_the_parameters_of_the_url_count_more() -> None:
    assert parse(served("postgresql://db/jobs")).away_seconds == 2
    assert parse(served("postgresql://db/jobs?away_seconds=9")).away_seconds == 9
    assert parse("postgresql://db/jobs").away_seconds == 5
