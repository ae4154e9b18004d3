"""Waiting without threads: long polls, ends of jobs, events; and how all of it stops."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import Exchange, LeaseRequest
from leasehold.core.model.retry import Constant
from leasehold.core.model.status import Status
from leasehold.errors import StoreUnavailableError
from leasehold.service import lease_lines
from leasehold.service.api import OPERATIONS, Api
from leasehold.service.caller import ANYBODY
from leasehold.service.consumer_messages import ExchangeJobs, LeaseJobs, Wanted
from leasehold.service.lease_lines import LeaseLines
from leasehold.service.waiting import answer_unless_gone
from leasehold.stores.memory import MemoryStore
from service.conftest import WAIT, Service
from service.test_jobs_over_http import JOBS, lease, proof, submit

LEASES = "/api/v1/leases"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as pool:
        yield pool


def poll(pool: ThreadPoolExecutor, client: httpx.Client, **asked: Any) -> Future[httpx.Response]:
    body = {"worker": "w", "wait_seconds": WAIT, **asked}
    return pool.submit(lambda: client.post(LEASES, json=body))


def question(service: Service, **asked: Any) -> bytes:
    """A long poll as it is sent, for whoever hangs up before it is answered."""
    body = json.dumps(asked).encode()
    head = (
        f"POST {LEASES} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {service.token('consumer')}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Looks:
    """Counts the looks at a store, and tells when there were so many."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._news = threading.Condition()
        exchange = service.store.exchange

        def counted(settlements: Any = (), request: LeaseRequest | None = None) -> Exchange:
            answer = exchange(settlements, request)
            with self._news:
                self.count += request is not None
                self._news.notify_all()
            return answer

        monkeypatch.setattr(service.store, "exchange", counted)

    def wait_for(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.count >= count, WAIT)


def test_a_long_poll_gets_the_job_that_comes(
    service: Service, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = service.client("consumer", "producer")
    looks = Looks(service, monkeypatch)
    waiting = poll(pool, client)
    looks.wait_for(1)
    job_id = submit(client)
    [held] = waiting.result(WAIT).json()["leases"]
    assert held["job_id"] == job_id


def test_one_job_wakes_one_of_many(
    service: Service, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_lines, "POLL_SECONDS", WAIT)
    client = service.client("consumer", "producer")
    looks = Looks(service, monkeypatch)
    waiting = [poll(pool, client) for _ in range(10)]
    looks.wait_for(10)
    submit(client)
    looks.wait_for(12)  # The one that got it, and one more that found nothing.
    for _ in range(9):
        submit(client)
    got = [each.result(WAIT).json()["leases"] for each in waiting]
    assert len({held["job_id"] for [held] in got}) == 10


def test_who_waits_in_vain_looks_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    client = service.client("consumer")
    looks = Looks(service, monkeypatch)
    asked = {"worker": "w", "wait_seconds": 0.1}
    assert client.post(LEASES, json=asked).json()["leases"] == []
    assert looks.count == 1
    answer = client.post("/api/v1/exchange", json={"lease": {"worker": "w"}, "wait_seconds": 0.1})
    assert looks.count == 2
    # It is told when it is, not when it looked.
    [worker] = service.store.workers()
    waited = datetime.fromisoformat(answer.json()["at"]) - worker.heartbeat_at
    assert waited > timedelta(0)


def test_who_waits_long_stays_in_the_registry(
    service: Service, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a line of many, it may be long until it is a caller's turn to look."""
    monkeypatch.setattr(lease_lines, "POLL_SECONDS", WAIT)
    monkeypatch.setattr(lease_lines, "SIGN_OF_LIFE_SECONDS", 0.05)
    client = service.client("consumer", "producer")
    looks = Looks(service, monkeypatch)
    waiting = poll(pool, client)
    looks.wait_for(3)
    submit(client)
    assert len(waiting.result(WAIT).json()["leases"]) == 1


@pytest.mark.parametrize("early_seconds", [0.05, -0.05])
def test_news_in_the_last_moment_is_no_lost_news(early_seconds: float) -> None:
    """News that comes just before the time is up, or just after, while the loop is busy."""
    wait_seconds = 0.1
    looks: list[int] = []

    async def wait() -> Exchange:
        loop = asyncio.get_running_loop()
        lines = LeaseLines(store)

        def be_busy(end: float) -> None:
            while loop.time() < end:
                pass

        async def look(tries: int) -> Exchange:
            looks.append(tries)
            if tries == 0:
                end = loop.time() + wait_seconds
                # All that is due meanwhile happens in one round of the loop.
                loop.call_soon(be_busy, end + 0.1)
                loop.call_at(end - early_seconds, lines._wake)
            return Exchange([], [])

        return await lines.lease(LeaseRequest(worker="w"), wait_seconds, look)

    store = MemoryStore()
    assert asyncio.run(wait()).leases == []
    assert looks == [0, 1]
    store.close()


def test_a_job_that_becomes_due_ends_a_long_poll(
    service: Service, pool: ThreadPoolExecutor
) -> None:
    client = service.client("consumer", "producer")
    submit(client, delay_seconds=0.2)
    [held] = poll(pool, client).result(WAIT).json()["leases"]
    assert held["attempt"] == 1


def test_who_hangs_up_gets_nothing(
    service: Service, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(service, monkeypatch)
    client = service.client("consumer", "producer")
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(question(service, worker="gone", wait_seconds=60))
        looks.wait_for(1)
    waiting = poll(pool, client, worker="here")
    looks.wait_for(2)
    submit(client)
    [held] = waiting.result(WAIT).json()["leases"]
    assert (held["worker"], held["attempt"]) == ("here", 1)


@pytest.mark.parametrize("wait_seconds", [0, WAIT])
def test_what_was_leased_for_somebody_who_is_gone_goes_back(
    service: Service, monkeypatch: pytest.MonkeyPatch, wait_seconds: float
) -> None:
    job_id = submit(service.client("producer"))
    connection = socket.create_connection(("127.0.0.1", service.port))
    handed_back = threading.Event()
    exchange = service.store.exchange

    def hang_up_meanwhile(settlements: Any = (), request: LeaseRequest | None = None) -> Exchange:
        answer = exchange(settlements, request)
        if settlements:
            handed_back.set()
        elif answer.leases:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            loop = service.api.lines._loop
            assert loop is not None
            for _ in range(5):  # It notices at the latest when it has looked at its sockets again.
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(WAIT)
        return answer

    monkeypatch.setattr(service.store, "exchange", hang_up_meanwhile)
    connection.sendall(question(service, worker="gone", wait_seconds=wait_seconds))
    assert handed_back.wait(WAIT)
    job = service.store.get(job_id)
    assert job is not None
    assert (job.status.value, job.attempts) == ("pending", 0)


@pytest.mark.parametrize("name", ["lease", "exchange"])
def test_a_repeated_request_whose_sender_is_gone_takes_no_lease_from_its_holder(name: str) -> None:
    wanted: dict[str, Any] = {"worker": "w", "queues": ("default",)}
    asked = (
        LeaseJobs(**wanted, request_id="one")
        if name == "lease"
        else ExchangeJobs(lease=Wanted(**wanted), request_id="one")
    )
    [operation] = [each for each in OPERATIONS if each.name == name]

    async def scene() -> Job | None:
        api = Api(MemoryStore(), insecure=True)
        api.store.submit([Draft(id="job", task="t")])
        first = await answer_unless_gone(api, operation, ANYBODY, asked, asyncio.Event().wait())
        [held] = first.leases
        gone = asyncio.sleep(0)
        assert await answer_unless_gone(api, operation, ANYBODY, asked, gone) is None
        again = await answer_unless_gone(api, operation, ANYBODY, asked, asyncio.Event().wait())
        assert [each.version for each in again.leases] == [held.version]
        return api.store.get("job")

    job = asyncio.run(scene())
    assert job is not None
    assert (job.status, job.worker, job.attempts) == (Status.RUNNING, "w", 1)


def test_waiting_for_a_job_to_end(service: Service, pool: ThreadPoolExecutor) -> None:
    client = service.client("consumer", "producer")
    job_id = submit(client)
    held = lease(client)
    soon = client.get(f"{JOBS}/{job_id}/wait", params={"timeout_seconds": 0}).json()
    assert (soon["ended"], soon["job"]["status"]) == (False, "running")
    early = client.get(f"{JOBS}/{job_id}/result", params={"timeout_seconds": 0})
    assert (early.status_code, early.json()["code"]) == (409, "result_timeout")
    waiting = pool.submit(
        lambda: client.get(f"{JOBS}/{job_id}/wait", params={"timeout_seconds": WAIT})
    )
    client.post(f"{JOBS}/{job_id}/complete", json={**proof(held), "result": 7})
    ended = waiting.result(WAIT).json()
    assert (ended["ended"], ended["job"]["result"]) == (True, 7)


def test_a_stop_ends_waits_empty_and_finishes_the_rest(
    service: Service, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = service.client("admin")
    looks = Looks(service, monkeypatch)
    job_id = submit(client, delay_seconds=1000)
    polling = poll(pool, client)
    waiting = pool.submit(
        lambda: client.get(f"{JOBS}/{job_id}/wait", params={"timeout_seconds": WAIT})
    )
    looks.wait_for(1)
    in_flight, go_on = threading.Event(), threading.Event()
    now = service.store.now

    def slow_now() -> Any:
        in_flight.set()
        assert go_on.wait(WAIT)
        return now()

    monkeypatch.setattr(service.store, "now", slow_now)
    slow = pool.submit(lambda: client.get("/readyz"))
    assert in_flight.wait(WAIT)
    stopping = pool.submit(service.stop)
    assert polling.result(WAIT).json()["leases"] == []
    assert waiting.result(WAIT).json()["ended"] is False
    go_on.set()
    assert slow.result(WAIT).status_code == 200
    stopping.result(WAIT)
    with pytest.raises(httpx.TransportError):
        client.get("/healthz")


def test_events_tell_what_changes_and_go_on_where_one_left(service: Service) -> None:
    client = service.client("operator", "producer")

    def follow(last: str | None) -> Generator[tuple[str, str, Any], None, None]:
        headers = {} if last is None else {"Last-Event-ID": last}
        with client.stream("GET", "/api/v1/events", headers=headers) as stream:
            assert stream.status_code == 200, stream.read()
            event: dict[str, str] = {}
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                if line:
                    event[name] = value
                elif "id" in event:
                    yield event["event"], event["id"], event["data"]
                    event = {}

    feed = follow(None)
    kind, last, data = next(feed)
    assert (kind, data) == ("changes", "[]")
    one = submit(client)
    _, last, data = next(feed)
    assert one in data
    feed.close()
    two = submit(client)
    feed = follow(last)
    _, last, data = next(feed)
    assert two in data
    assert one not in data
    feed.close()
    # A cursor that this store never gave, such as one from before it was restored.
    feed = follow(str(int(last) + 1000))
    assert next(feed)[0] == "gap"
    feed.close()
    [(status, code)] = [
        (answer.status_code, answer.json()["code"])
        for answer in [client.get("/api/v1/events", headers={"Last-Event-ID": "nonsense"})]
    ]
    assert (status, code) == (422, "invalid_cursor")


def test_a_stream_of_events_ends_with_its_token(memory_service: Service) -> None:
    client = memory_service.client("operator", name="ops")
    with client.stream("GET", "/api/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("id: ")
        memory_service.store.revoke_token("ops", actor="me")
        assert [line for line in lines if line.startswith("id: ")] == []


def test_while_the_store_is_away_requests_are_refused_at_once(
    memory_service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = memory_service.client("producer")
    asked = 0

    def away(_: Any, **__: Any) -> Any:
        nonlocal asked
        asked += 1
        raise StoreUnavailableError("no answer")

    monkeypatch.setattr(memory_service.store, "submit", away)
    # Whoever is looked up proves that the store works, so the breaker is asked alone here.
    monkeypatch.setattr(memory_service.store, "find_token", away)
    for _ in range(10):
        answer = client.post(JOBS, json={"task": "a"})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert answer.headers["retry-after"] == "1"
    assert asked < 10
    monkeypatch.undo()
    with memory_service.api.breaker._lock:
        memory_service.api.breaker._next_probe = 0.0
    assert client.post(JOBS, json={"task": "a"}).status_code == 201
    # The log says why, that it is over, and nothing about each of many refusals between.
    logged = [each.getMessage() for each in caplog.records if each.name == "leasehold.service"]
    assert len([each for each in logged if "no answer" in each]) == asked
    assert (
        len([each for each in logged if "the store is unavailable: all requests but one" in each])
        == 1
    )
    assert len(logged) == asked + 2
    assert "the store answers again" in logged[-1]


def test_drafts_are_stored_as_they_were_sent(memory_service: Service) -> None:
    client = memory_service.client("producer")
    submit(client, id="full", queue="q", priority="high", max_retries=7, delay_seconds=60,
           timeout_seconds=5, metadata={"a": 1}, limit_key="k", parent_id="p",
           retry={"type": "constant", "seconds": 3}, run_at=None)  # fmt: skip
    job = memory_service.store.get("full")
    assert job is not None
    sent = Draft(id="full", task="mail", queue="q", priority=75, max_retries=7, timeout_seconds=5,
                 metadata={"a": 1}, limit_key="k", parent_id="p")  # fmt: skip
    for name in ("queue", "priority", "max_retries", "timeout_seconds", "metadata", "limit_key"):
        assert getattr(job, name) == getattr(sent, name)
    assert (job.status.value, job.retry) == ("scheduled", Constant(3))
