"""Several server processes on one store: whichever is asked, it is one service."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from leasehold import Status, TaskQueue
from leasehold.connect import connect
from leasehold.core.model.tokens import TokenDraft, digest_of, new_token_secret
from leasehold.env import SYSTEM
from leasehold.errors import UnauthenticatedError
from support.nursery import Nursery
from support.ports import free_port
from support.servers import Schemas

WAIT = 60.0
STDERR = 2


class ServerProcess:
    """One server, and a client of it."""

    def __init__(self, commands: Nursery, url: str, secret: str) -> None:
        self._commands = commands
        self._url = url
        self.secret = secret
        self.port, self.grpc_port = free_port(), free_port()
        self.start()

    def start(self) -> None:
        """Start it, on the ports that it had before."""
        arguments = (
            *("serve", "--port", str(self.port), "--grpc", f"127.0.0.1:{self.grpc_port}"),
            *("-o", "jsonl", "--store", self._url),
        )
        ours, its = os.pipe()
        with open(os.devnull) as nothing:
            streams = (nothing.fileno(), its, STDERR)
            self.process = self._commands.start(arguments, Path.cwd(), os.environ, streams)
        os.close(its)
        self._stdout = open(ours)  # noqa: SIM115  # for as long as the process lives
        told = json.loads(self._stdout.readline())
        ports = [urlsplit(told[name]).port for name in ("address", "grpc_address")]
        assert ports == [self.port, self.grpc_port]
        self.client = self.client_with(self.secret)

    def client_with(self, secret: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}/api/v1",
            headers={"Authorization": f"Bearer {secret}"},
            timeout=WAIT,
            trust_env=False,
        )

    def post(self, path: str, **body: Any) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def end(self, number: signal.Signals) -> None:
        self.client.close()
        self.process.send_signal(number)
        self.process.wait(WAIT)
        self._stdout.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        folder = tmp_path_factory.mktemp("side-by-side")
        yield f"sqlite:///{folder / 'jobs.db'}?durability=normal"
        return
    schemas: Schemas = request.getfixturevalue("schemas")
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent)


@pytest.fixture(scope="module")
def secret() -> str:
    return new_token_secret(SYSTEM)


@pytest.fixture(scope="module")
def pair(commands: Nursery, url: str, secret: str) -> Iterator[list[ServerProcess]]:
    """Two servers for all tests: to start one takes longer than most of them."""
    store = connect(url)
    store.create_token(TokenDraft(name="t", roles=("admin",)), digest_of(secret), actor="test")
    store.close()
    servers = [ServerProcess(commands, url, secret) for _ in range(2)]
    yield servers
    for each in servers:
        if each.process.returncode is None:
            each.end(signal.SIGTERM)


@pytest.fixture
def servers(pair: list[ServerProcess]) -> list[ServerProcess]:
    """Both run, also where the test before has ended one."""
    for each in pair:
        if each.process.returncode is not None:
            each.start()
    return pair


@pytest.fixture
def queue_name(request: pytest.FixtureRequest) -> str:
    """A queue of the test's own: it finds no jobs of the others."""
    return f"of-{request.function.__name__}"


def test_each_step_of_a_job_by_another_server(
    servers: list[ServerProcess], queue_name: str
) -> None:
    one, other = servers
    job_id = one.post("/jobs", task="mail", queue=queue_name)["id"]
    leasing = {"worker": "w", "queues": [queue_name], "wait_seconds": WAIT}
    [lease] = other.post("/leases", **leasing)["leases"]
    assert lease["job_id"] == job_id
    held = {"version": lease["version"], "secret": lease["secret"]}
    one.post(f"/jobs/{job_id}/renew", **held, worker="w")
    other.post(f"/jobs/{job_id}/complete", **held, result="sent")
    assert one.client.get(f"/jobs/{job_id}").json()["job"]["status"] == "completed"


def test_a_job_wakes_who_waits_at_another_server(
    servers: list[ServerProcess], queue_name: str
) -> None:
    one, other = servers
    leasing = {"worker": "w", "queues": [queue_name], "wait_seconds": WAIT}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.post, "/leases", **leasing)
        job_id = one.post("/jobs", task="mail", queue=queue_name)["id"]
        [lease] = waiting.result(WAIT)["leases"]
    assert lease["job_id"] == job_id


def test_one_goes_on_where_another_was_killed(
    servers: list[ServerProcess], queue_name: str
) -> None:
    one, other = servers
    job_id = one.post("/jobs", task="mail", queue=queue_name)["id"]
    leasing = {"worker": "w", "queues": [queue_name], "wait_seconds": 0}
    [lease] = one.post("/leases", **leasing)["leases"]
    one.end(signal.SIGKILL)
    held = {"version": lease["version"], "secret": lease["secret"]}
    other.post(f"/jobs/{job_id}/complete", **held)
    assert other.client.get(f"/jobs/{job_id}").json()["job"]["status"] == "completed"


def test_a_token_made_at_one_is_good_at_the_other_until_it_is_revoked(
    servers: list[ServerProcess], queue_name: str
) -> None:
    one, other = servers
    job = {"task": "mail", "queue": queue_name}
    made = one.post("/tokens", name="new", roles=["producer"])["secret"]
    far = connect(f"grpc://{made}@127.0.0.1:{other.grpc_port}")
    with other.client_with(made) as client:
        # Now the other server has seen it, on both of its faces, one with an open stream.
        assert client.post("/jobs", json=job).is_success
        assert far.get("nobody") is None
        assert one.client.delete("/tokens/new").is_success
        assert client.post("/jobs", json=job).status_code == 401
        with pytest.raises(UnauthenticatedError):
            far.get("nobody")
    far.close()


def browser(server: ServerProcess) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{server.port}/dashboard/",
        headers={"Sec-Fetch-Site": "same-origin"},
        timeout=WAIT,
        trust_env=False,
    )


def may_enter(page: httpx.Client) -> bool:
    """Whether a page is shown, and not the way to the login."""
    return page.get("jobs").status_code == 200


def test_a_session_is_one_at_every_server(servers: list[ServerProcess]) -> None:
    """The cookie of one is good at the other, until a log-out or the end of its token."""
    one, other = servers
    made = one.post("/tokens", name="person", roles=["observer"])["secret"]
    with browser(one) as here, browser(one) as again, browser(other) as there:
        for each in (here, again):
            assert each.post("login", data={"token": made}).status_code == 303
        copy = httpx.Cookies(here.cookies)
        there.cookies = copy
        assert may_enter(there)
        there.post("logout")
        assert not may_enter(here)
        assert may_enter(again)
        one.end(signal.SIGTERM)
        one.start()  # A session does not end with the process that began it.
        again.base_url = there.base_url
        assert may_enter(again)
        assert one.client.delete("/tokens/person").is_success
        assert not may_enter(again)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_workers_and_producers_go_on_at_the_server_that_is_left(
    servers: list[ServerProcess], secret: str, scheme: str
) -> None:
    ports = [each.port if scheme == "http" else each.grpc_port for each in servers]
    places = ",".join(f"127.0.0.1:{port}" for port in ports)
    with TaskQueue(f"{scheme}://{secret}@{places}?retry_seconds=60", num_workers=2) as queue:

        @queue.task(name=f"double-{scheme}", executor="thread")
        def double(number: int) -> int:
            return 2 * number

        assert double.submit(1).result(timeout=WAIT) == 2
        for each in servers:
            each.end(signal.SIGKILL)
            jobs = [double.submit(number) for number in range(5)]
            assert [job.result(timeout=WAIT) for job in jobs] == [0, 2, 4, 6, 8]
            each.start()
        done = queue.search(task=double)
        assert [job.status for job in done] == [Status.COMPLETED] * 11
