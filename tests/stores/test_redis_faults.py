"""Whatever happens to Redis, nothing is lost but speed, and at most one burst of a rate comes free.

Two stores with one URL stand for two processes: each has connections and threads of its own.
"""

from __future__ import annotations

import itertools
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from urllib.parse import quote

import pytest

from leasehold import TaskQueue
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import SYSTEM
from leasehold.errors import RateLimitedError
from leasehold.observe.prometheus import exposition
from leasehold.queue.health import findings_of
from leasehold.testing.conformance.base import draft, settle, submit
from leasehold.testing.conformance.waking import Ears
from support.exposed import exposed
from support.redis_servers import RedisServer, needs_redis, redis_server
from support.servers import Schemas, needs_psycopg

needs_psycopg()
needs_redis()

import redis  # noqa: E402

from leasehold.stores.redis import address  # noqa: E402

SLOW = 0.001
"""A rate per second at which no token comes again while a test lasts; its burst is one job."""
SECRET = "p4ss%w0rd"


@pytest.fixture(scope="module")
def module_server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
def server(module_server: RedisServer) -> RedisServer:
    """One that is as new."""
    module_server.kill()
    module_server.start()
    return module_server


@pytest.fixture
def url(schemas: Schemas, server: RedisServer) -> Iterator[str]:
    lent = schemas.lend()
    yield f"{lent}&redis={server.url}"
    schemas.take_back(lent)


@pytest.fixture
def stores(url: str) -> Iterator[tuple[Store, Store]]:
    with ExitStack() as opened:
        one, other = (opened.enter_context(closing(connect(url))) for _ in range(2))
        assert is_up(one)
        assert is_up(other)
        yield one, other


@pytest.fixture(autouse=True)
def patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, only a server that is stopped is to be taken for one that is away."""
    is_stopped = "stopped" in request.node.name
    monkeypatch.setattr(address, "TIMEOUT_SECONDS", 1.0 if is_stopped else 20.0)


def is_up(store: Store) -> bool:
    return bool(store.describe()["redis"]["is_up"])


def level(store: Store) -> tuple[str, float]:
    """What doctor and Prometheus say of Redis."""
    queue = TaskQueue(store, num_workers=0)
    [finding] = [each for each in findings_of(queue) if each.check == "redis"]
    queue.shutdown()
    told = exposed(exposition(store, SYSTEM))
    return finding.level.value, told.value("redis_fallback_mode")


def assert_it_works(one: Store, other: Store) -> None:
    """Jobs go through, best first, and who listens hears of them."""
    ears = Ears(other)
    end = other.subscribe(ears)
    submit(one, draft("low", priority=1), draft("high", priority=99), draft("middle"))
    assert ears.wait_for(lambda: ears.ready > 0)
    for expected in ("high", "middle", "low"):
        [lease] = other.exchange(request=LeaseRequest(worker="w", limit=1)).leases
        assert lease.job_id == expected
        settle(other, lease, Complete())
    end()
    submit(one, draft("spare"))
    ids = ["low", "high", "middle", "spare"]
    one.cancel(ids[3:], reason="done", actor="me")
    one.discard(ids, actor="me")
    assert one.check() == []


def let_in(store: Store) -> int:
    """How many jobs come in before one is refused."""
    for number in itertools.count():
        try:
            submit(store, draft(SYSTEM.new_id(), queue="slow"))
        except RateLimitedError:
            return number
    raise AssertionError


def kill(server: RedisServer) -> None:
    server.kill()


def stop(server: RedisServer) -> None:
    server.signal(signal.SIGSTOP)


def fill(server: RedisServer) -> None:
    """So full that it refuses to write."""
    server.command("CONFIG", "SET", "maxmemory", "1")


def deny(server: RedisServer) -> None:
    with redis.Redis.from_url(server.url, single_connection_client=True) as client:
        client.config_set("requirepass", "another")
        client.execute_command("CLIENT", "KILL", "TYPE", "normal")


def recover(server: RedisServer) -> None:
    server.kill()
    server.start()


def go_on(server: RedisServer) -> None:
    server.signal(signal.SIGCONT)


def make_room(server: RedisServer) -> None:
    server.command("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.parametrize(
    ("break_it", "mend_it"),
    [(kill, recover), (stop, go_on), (fill, make_room), (deny, recover)],
    ids=["killed", "stopped", "full", "password"],
)
def test_while_it_is_away_the_database_serves_alone(
    server: RedisServer,
    stores: tuple[Store, Store],
    break_it: Callable[[RedisServer], None],
    mend_it: Callable[[RedisServer], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "leasehold.store")
    one, other = stores
    one.create_queue("slow", QueueConfig(rate_per_second=SLOW), actor="me")
    assert_it_works(one, other)
    assert let_in(one) == 1
    break_it(server)
    try:
        assert let_in(one) <= 1
        assert let_in(other) == 0
        assert not is_up(one)
        assert not is_up(other)
        assert_it_works(one, other)
        assert level(one) == ("warning", 1)
    finally:
        mend_it(server)
    assert is_up(one)
    assert is_up(other)
    assert let_in(other) <= 1
    assert_it_works(one, other)
    assert level(one) == ("ok", 0)
    lines = [record.getMessage() for record in caplog.records]
    assert sum("does not answer" in line for line in lines) == 2, lines
    assert sum("answers again" in line for line in lines) == 2, lines


def flush(client: redis.Redis) -> None:
    client.flushall()


def overwrite(value: str) -> Callable[[redis.Redis], None]:
    def with_value(client: redis.Redis) -> None:
        for key in client.scan_iter():
            client.set(key, value)

    return with_value


def retype(client: redis.Redis) -> None:
    for key in list(client.scan_iter()):
        client.delete(key)
        client.lpush(key, "a", "b")


@pytest.mark.parametrize(
    "spoil",
    [flush, retype, *map(overwrite, ("", "garbage", "nan", "inf", "-1", "1e300", "9" * 20))],
    ids=["flushed", "retyped", "empty", "text", "nan", "inf", "negative", "far", "overflowing"],
)
def test_garbage_costs_one_burst_at_most(
    server: RedisServer, stores: tuple[Store, Store], spoil: Callable[[redis.Redis], None]
) -> None:
    one, other = stores
    one.create_queue("slow", QueueConfig(rate_per_second=SLOW), actor="me")
    assert let_in(one) == 1
    with redis.Redis.from_url(server.url) as client:
        assert client.dbsize()
        spoil(client)
    assert let_in(one) == 1
    assert let_in(other) == 0


def test_an_evicting_server_is_critical(server: RedisServer, stores: tuple[Store, Store]) -> None:
    one, other = stores
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", used + 1_000_000)
        for number in range(2000):
            client.set(f"others:{number}", b"x" * 2000)
        assert client.info("stats")["evicted_keys"] > 0
    assert_it_works(one, other)
    assert level(one)[0] == "critical"


def test_a_wrong_password_is_said_and_never_shown(
    server: RedisServer, schemas: Schemas, caplog: pytest.LogCaptureFixture
) -> None:
    server.command("CONFIG", "SET", "requirepass", "right")
    lent = schemas.lend()
    path = server.url.removeprefix("unix://")
    inner = f"unix://someone:{quote(SECRET, safe='')}@{path}"
    with closing(connect(f"{lent}&redis={quote(inner, safe='')}")) as store:
        submit(store, draft())
        described = store.describe()
        assert not described["redis"]["is_up"]
        shown = f"{store} {store!r} {described} {caplog.text}"
        assert "does not answer" in shown
        assert SECRET not in shown
        assert quote(SECRET, safe="") not in shown
        assert "someone" not in shown
    schemas.take_back(lent)


def test_a_server_that_was_never_there(schemas: Schemas) -> None:
    lent = schemas.lend()
    with closing(connect(f"{lent}&redis=unix:///nowhere/redis.sock")) as store:
        assert_it_works(store, store)
        assert not is_up(store)
    schemas.take_back(lent)
