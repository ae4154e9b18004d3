"""Redis beside PostgreSQL keeps every clause, also where leases find all jobs through it, and lets
rated queues go side by side.

Leases and all exact limits are PostgreSQL's own with and without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from leasehold.connect import connect
from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import Submitted
from leasehold.errors import RateLimitedError, StoreBusyError
from leasehold.testing.conformance import MakeStore, StoreConformance
from leasehold.testing.conformance.base import at_once, draft, submit
from leasehold.testing.conformance.limiting import numbered
from leasehold.testing.conformance.waking import Ears
from support.poolers import pgbouncer
from support.redis_servers import RedisServer, needs_redis, redis_server
from support.servers import Schemas, needs_psycopg

needs_psycopg()
needs_redis()

import psycopg  # noqa: E402

from leasehold.stores.postgres.clauses import NOT_KEPT  # noqa: E402
from leasehold.stores.postgres.reading import feed  # noqa: E402
from leasehold.stores.postgres.server import lending, session  # noqa: E402
from leasehold.stores.redis import address  # noqa: E402
from support.indexed_store import IndexedStore  # noqa: E402


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not to be taken for a server that is away."""
    monkeypatch.setattr(address, "TIMEOUT_SECONDS", 20.0)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
def make_store(schemas: Schemas, server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> MakeStore:
    monkeypatch.setattr(lending, "open_pool", schemas.open_pool)
    return lambda env: IndexedStore(schemas, server, env)


class TestWithRedis(StoreConformance):
    """All lanes are indexed, as they are while leases are slow without Redis."""

    not_kept = NOT_KEPT
    # Who begins to listen is told to look, since there may have been news before.
    test_txn_2_listeners_hear_of_it_after_the_commit = None  # type: ignore[assignment]

    @pytest.fixture
    def make_store(self, make_store: MakeStore) -> MakeStore:
        return make_store

    @pytest.fixture
    def changes_kept(self, monkeypatch: pytest.MonkeyPatch) -> int:
        monkeypatch.setattr(feed, "CHANGES_KEPT", 2000)
        return 2000

    def test_of_submits_at_once_no_more_come_in_than_the_rate_lets(self, store: Store) -> None:
        store.create_queue("default", QueueConfig(rate_per_second=3), actor="me")

        def one(number: int) -> int:
            try:
                return len(submit(store, *numbered(2, prefix=f"thread-{number}")))
            except RateLimitedError:
                return 0

        assert sum(at_once(6, one)) == 6

    def test_a_batch_that_does_not_fit_keeps_nobody_out(self, store: Store) -> None:
        store.create_queue("default", QueueConfig(rate_per_second=3), actor="me")
        with pytest.raises(RateLimitedError):
            submit(store, *numbered(7, prefix="many"))
        answers = store.submit(numbered(8), partial=True)
        assert [isinstance(each, Submitted) for each in answers] == [True] * 6 + [False] * 2


@pytest.fixture
def url(schemas: Schemas, server: RedisServer) -> Iterator[str]:
    """The URL of an empty store, without Redis."""
    server.command("FLUSHALL")
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent)


def listening(store: Store) -> Ears:
    """Ears that have heard nothing but that they may have missed something."""
    ears = Ears(store)
    store.subscribe(ears)
    assert ears.wait_for(lambda: ears.ready > 0)
    ears.ready = 0
    return ears


def test_a_rated_queue_waits_for_nobody_with_redis_and_for_its_turn_without(
    url: str, server: RedisServer
) -> None:
    waiting = f"{url}&lock_timeout_seconds=0.2"
    with ExitStack() as opened:
        fast = opened.enter_context(closing(connect(f"{waiting}&redis={server.url}")))
        slow = opened.enter_context(closing(connect(waiting)))
        for store in (fast, slow):
            store.create_queue("default", QueueConfig(rate_per_second=1000), actor="me")
            submit(store, draft(f"first of {id(store)}"))
        other = opened.enter_context(psycopg.connect(url.partition("&schema")[0]))
        schema = url.partition("schema=")[2]
        key = f"hashtextextended('leasehold turn {schema}', 0)"
        other.execute(f"SELECT pg_advisory_xact_lock_shared({key})".encode())
        submit(fast, draft("side by side"))
        with pytest.raises(StoreBusyError):
            submit(slow, draft("alone"))


def test_another_process_is_told_of_redis_too(url: str, server: RedisServer) -> None:
    with closing(connect(f"{url}&redis={server.url}")) as store:
        address = local_part(store, "an address").address()
        assert address is not None
        with closing(connect(address)) as again:
            assert again.describe()["redis"]["is_up"]


def test_a_forked_child_has_a_connection_of_its_own(url: str, server: RedisServer) -> None:
    with closing(connect(f"{url}&redis={server.url}")) as store:
        store.create_queue("default", QueueConfig(rate_per_second=1000), actor="me")
        submit(store, draft("parent"))
        ears = listening(store)
        child = os.fork()
        if child == 0:
            try:
                submit(store, draft("child"))
                store.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert ears.wait_for(lambda: ears.ready > 0)
        submit(store, draft("parent again"))


def test_behind_a_pooler_news_go_by_redis(
    url: str, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "POLL_SECONDS", 3600.0)
    direct = url.partition("&schema")[0]
    with ExitStack() as opened:
        pooled = opened.enter_context(pgbouncer(direct))
        there = f"{url.replace(direct, pooled)}&redis={server.url}"
        one = opened.enter_context(closing(connect(there)))
        other = opened.enter_context(closing(connect(there)))
        assert other.describe()["is_pooled"]
        ears = listening(other)
        submit(one, draft())
        assert ears.wait_for(lambda: ears.ready > 0)


def test_a_message_that_makes_no_sense_is_only_a_message(url: str, server: RedisServer) -> None:
    with closing(connect(f"{url}&redis={server.url}")) as store:
        ears = listening(store)
        channel = f"leasehold:{store.describe()['store_id']}:news"
        for garbage in ("", "\x00\xff", "x" * 100_000, "a r"):
            server.command("PUBLISH", channel, garbage)
        assert ears.wait_for(lambda: ears.ready > 0)
        submit(store, draft())
