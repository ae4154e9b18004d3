"""Leases that find jobs through Redis while an old transaction keeps PostgreSQL from removing dead
rows: when they do, that the order is right, and that nothing is lost whatever Redis says.

Two stores with one URL stand for two processes.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from random import Random
from typing import Any

import pytest

from leasehold.connect import connect
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.outcome import Complete, Outcome, Release
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import SYSTEM, Env, ManualClock
from leasehold.testing.conformance.base import at_once, draft, settle, submit
from leasehold.testing.conformance.waking import Ears
from support.redis_servers import RedisServer, needs_redis, redis_server
from support.servers import Schemas, needs_psycopg

needs_psycopg()
needs_redis()

import psycopg  # noqa: E402
import redis  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.keeping import index_keeper  # noqa: E402
from leasehold.stores.postgres.leasing import fronts, indexed  # noqa: E402
from leasehold.stores.redis import address, ready_index  # noqa: E402
from support.indexed_store import NOT_INDEXED, index_all  # noqa: E402

FEW = 20
"""As many dead rows as are too many, in a test."""


@pytest.fixture(scope="module")
def module_server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
def server(module_server: RedisServer) -> RedisServer:
    module_server.kill()
    module_server.start()
    return module_server


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "TIMEOUT_SECONDS", 20.0)
    monkeypatch.setattr(index_keeper, "DEAD_ROWS_MAX", FEW)
    monkeypatch.setattr(index_keeper, "DEAD_ROWS_MIN", FEW // 2)


@pytest.fixture
def plain_url(schemas: Schemas) -> Iterator[str]:
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent)


@pytest.fixture
def url(plain_url: str, server: RedisServer) -> str:
    return f"{plain_url}&redis={server.url}"


def opened(url: str) -> PostgresStore:
    store = connect(url)
    assert isinstance(store, PostgresStore)
    return store


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(opened(url)) as store:
        yield store


@pytest.fixture
def another(url: str) -> Iterator[PostgresStore]:
    """That of another process."""
    with closing(opened(url)) as store:
        yield store


@pytest.fixture
def without(plain_url: str) -> Iterator[PostgresStore]:
    """That of a process that does not know of Redis."""
    with closing(opened(plain_url)) as store:
        yield store


@pytest.fixture
def old_transaction(plain_url: str) -> Iterator[psycopg.Connection]:
    """One that sees everything as it is now, for as long as it is open."""
    with psycopg.connect(plain_url.partition("&schema")[0]) as db:
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        db.execute("SELECT count(*) FROM pg_class")
        yield db


def lease(store: PostgresStore, limit: int = 1, *queues: str) -> list[str]:
    request = LeaseRequest(worker="w", limit=limit, queues=queues or ("default",))
    return [each.job_id for each in store.exchange(request=request).leases]


def named(first: int, last: int, **options: Any) -> list[Draft]:
    return [draft(f"job-{number:05}", **options) for number in range(first, last)]


def is_indexed(store: PostgresStore) -> bool:
    return bool(indexed_lanes(store))


def indexed_lanes(store: PostgresStore) -> list[int]:
    with store._database.read() as db:
        return [lane for (lane,) in db.execute("SELECT lane FROM indexed_lane")]


def drain(store: PostgresStore, jobs: int) -> None:
    """Lease and complete so many, which leaves dead rows behind."""
    for found in store.exchange(request=LeaseRequest(worker="w", limit=jobs)).leases:
        settle(store, found, Complete())


# -- when -------------------------------------------------------------------------------------


def test_an_old_transaction_makes_leases_go_by_redis_until_it_ends(
    store: PostgresStore,
    another: PostgresStore,
    old_transaction: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "leasehold.store")
    submit(store, *named(0, 100))
    drain(store, 10)
    store._index_keeper.look()
    assert not is_indexed(store)
    drain(store, 30)
    store._index_keeper.look()
    assert is_indexed(store)
    assert "an old transaction keeps rows of leased jobs" in caplog.text
    described = store.describe()
    assert described["redis"]["indexed_lanes"] == 1
    assert described["oldest_transaction"]["pid"] == old_transaction.info.backend_pid
    assert described["oldest_transaction"]["seconds"] >= 0
    assert lease(another, 2) == ["job-00040", "job-00041"]
    submit(another, draft("urgent", priority=99))
    assert lease(store, 2) == ["urgent", "job-00042"]
    store._index_keeper.look(0.0)
    assert is_indexed(store)
    old_transaction.rollback()
    wait_until(lambda: looked_in_vain(store))
    assert "without Redis again" in caplog.text
    assert lease(another, 2) == ["job-00043", "job-00044"]
    assert lease(store, 1) == ["job-00045"]


def looked_in_vain(store: PostgresStore) -> bool:
    """Whether no lane is indexed after the keeper has looked."""
    # The server does not think about old rows anew while no transaction has written anything.
    submit(store, draft(SYSTEM.new_id(), priority=0))
    store._index_keeper.look(0.0)
    return not is_indexed(store)


def test_a_lane_beside_an_indexed_one_is_indexed_too(
    store: PostgresStore, old_transaction: psycopg.Connection
) -> None:
    submit(store, *named(0, 100, task="first"))
    drain(store, 40)
    store._index_keeper.look()
    assert len(indexed_lanes(store)) == 1
    submit(store, *named(100, 200, task="second", priority=99))
    drain(store, 40)
    store._index_keeper.look()
    assert len(indexed_lanes(store)) == 2
    assert lease(store, 62)[-2:] == ["job-00040", "job-00041"]
    assert not old_transaction.closed


def test_only_so_many_lanes_are_indexed(
    store: PostgresStore, another: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_keeper, "LANES_MAX", 2)
    submit(store, *(draft(task, task=task) for task in ("one", "two", "three", "four")))
    with store._database.read() as db:
        lanes = [lane for (lane,) in db.execute(NOT_INDEXED)]
    assert len(lanes) == 4
    store._index_keeper.change(lanes[:1], [])
    another._index_keeper.change(lanes[1:], [])
    assert len(indexed_lanes(store)) == 2
    assert sorted(lease(store, 4)) == ["four", "one", "three", "two"]


def test_dead_rows_that_nobody_needs_do_not_count(store: PostgresStore) -> None:
    submit(store, *named(0, 100))
    drain(store, 60)
    # The server's own maintenance may need them for a moment.
    wait_until(lambda: looked_in_vain(store))


@pytest.mark.parametrize("verb", ["dead_workers", "recover"])
def test_workers_and_consumers_start_the_keeper(
    store: PostgresStore,
    without: PostgresStore,
    old_transaction: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
) -> None:
    monkeypatch.setattr(index_keeper, "LOOK_SECONDS", 0.01)
    submit(store, *named(0, 100))
    drain(store, 40)
    getattr(without, verb)()
    getattr(store, verb)()
    wait_until(lambda: is_indexed(store))
    old_transaction.rollback()
    store._database.fronts.is_over.set()
    store._database.fronts.is_short.set()
    store._index_keeper.join()
    wait_until(lambda: looked_in_vain(store))
    assert without._index_keeper._thread is None


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(2000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("waited in vain")


def test_without_redis_no_lane_is_indexed(
    without: PostgresStore, old_transaction: psycopg.Connection
) -> None:
    submit(without, *named(0, 100))
    drain(without, 60)
    without._index_keeper.begin()
    without._index_keeper.look()
    assert not is_indexed(without)
    assert not old_transaction.closed


def test_a_redis_that_refuses_is_not_asked_for_long(
    url: str, old_transaction: psycopg.Connection, server: RedisServer
) -> None:
    clock = ManualClock()
    store = connect(url, env=Env(clock=clock))
    assert isinstance(store, PostgresStore)
    with closing(store):
        submit(store, *named(0, 100))
        drain(store, 40)
        # It can do the rest, such as counting, so it is not away.
        server.command("ACL", "SETUSER", "default", "-zadd")
        store._index_keeper.look()
        assert store.describe()["redis"]["is_up"]
        assert not is_indexed(store)
        server.command("ACL", "SETUSER", "default", "+zadd")
        drain(store, 1)
        store._index_keeper.look()
        assert not is_indexed(store), "tried again at once"
        clock.advance(index_keeper.REFUSED_SECONDS)
        drain(store, 1)
        store._index_keeper.look()
        assert is_indexed(store)
    assert not old_transaction.closed


# -- whatever Redis says -----------------------------------------------------------------------


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that are indexed remain so."""
    monkeypatch.setattr(index_keeper, "DEAD_ROWS_MIN", -1)


@pytest.mark.usefixtures("always")
def test_what_redis_was_not_told_is_found_by_the_next_filling(
    store: PostgresStore, without: PostgresStore
) -> None:
    submit(store, *named(0, 3))
    index_all(store)
    # One that does not know of Redis, or that was killed right after its commit.
    submit(without, draft("urgent", priority=99), draft("last"))
    assert lease(store) == ["job-00000"]
    store._index_keeper.look(0.0)
    assert lease(store, 5) == ["urgent", "job-00001", "job-00002", "last"]
    assert lease(without) == []


@pytest.mark.usefixtures("always")
def test_who_cannot_tell_redis_of_its_jobs_tells_the_others(
    store: PostgresStore, without: PostgresStore, server: RedisServer
) -> None:
    submit(store, draft("first"))
    index_all(store)
    ears = Ears(store)
    store.subscribe(ears)
    is_short = store._database.fronts.is_short
    for number in range(3):
        is_short.clear()
        submit(without, draft(f"urgent-{number}", priority=99))
        wait_until(is_short.is_set)
        ears.ready = 0
        store._index_keeper.look(0.0)
        # Whoever looked in vain meanwhile is told to look again.
        assert ears.wait_for(lambda: ears.ready > 0)
        assert lease(store) == [f"urgent-{number}"]
    server.command("ACL", "SETUSER", "default", "-zadd")
    is_short.clear()
    submit(store, draft("urgent", priority=99))
    assert is_short.is_set()


@pytest.mark.usefixtures("always")
def test_jobs_that_left_without_a_word_are_passed_over(
    store: PostgresStore, without: PostgresStore
) -> None:
    submit(store, *named(0, 60))
    index_all(store)
    without.cancel([f"job-{number:05}" for number in range(50)], reason="enough", actor="me")
    assert lease(store, 3) == ["job-00050", "job-00051", "job-00052"]
    assert not store._database.fronts.is_short.is_set()


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("limit", [1, 5, 40])
def test_where_most_have_left_the_lane_is_read_as_always_and_filled_again(
    store: PostgresStore, without: PostgresStore, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(indexed, "EMPTY_TOLD", 10)
    monkeypatch.setattr(indexed, "EMPTY_MAX", 30)
    submit(store, *named(0, 200))
    index_all(store)
    without.cancel([f"job-{number:05}" for number in range(150)], reason="enough", actor="me")
    expected = [f"job-{number:05}" for number in range(150, 150 + limit)]
    assert lease(store, limit) == expected
    assert store._database.fronts.is_short.is_set()
    store._index_keeper.look(0.0)
    store._database.fronts.is_short.clear()
    assert lease(store) == [f"job-{150 + limit:05}"]
    assert not store._database.fronts.is_short.is_set()


@pytest.mark.usefixtures("always")
def test_behind_the_last_spot_that_redis_knows_the_lane_is_read_on(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_keeper, "SPOTS_KEPT", 10)
    submit(store, *named(0, 15), *named(15, 30, priority=10))
    index_all(store)
    submit(store, draft("urgent", priority=99), draft("late", priority=1))
    expected = ["urgent", *(f"job-{number:05}" for number in range(30)), "late"]
    assert lease(store, 4) == expected[:4]
    assert lease(store, 8) == expected[4:12]
    assert lease(store, 40) == expected[12:]
    assert lease(store) == []


@pytest.mark.usefixtures("always")
def test_jobs_of_an_applications_transaction_come_when_it_is_committed(
    store: PostgresStore, another: PostgresStore, plain_url: str
) -> None:
    submit(store, draft("zeroth"), draft("first"))
    # The first lease of a worker has the store to itself, for which it would wait in vain.
    assert lease(another) == ["zeroth"]
    index_all(store)
    with psycopg.connect(plain_url.partition("&schema")[0]) as db:
        store.submit_within(db, [draft("urgent", priority=99)])
        assert lease(another) == ["first"]
        db.commit()
        assert lease(another) == ["urgent"]
        store.submit_within(db, [draft("never", priority=99)])
        db.rollback()
    submit(store, draft("last"))
    assert lease(another, 2) == ["last"]


@pytest.mark.usefixtures("always")
def test_they_come_soon_if_the_lane_was_filled_before_the_commit(
    store: PostgresStore, another: PostgresStore, plain_url: str
) -> None:
    submit(store, draft("zeroth"), draft("first"), draft("second"))
    assert lease(another) == ["zeroth"]
    index_all(store)
    another.subscribe(Ears(another))
    with psycopg.connect(plain_url.partition("&schema")[0]) as db:
        store.submit_within(db, [draft("urgent", priority=99)])
        store._index_keeper.look(0.0)
        another._database.fronts.is_short.clear()
        db.commit()
    assert lease(another) == ["first"]
    # The keeper of whoever listens is told to look.
    wait_until(another._database.fronts.is_short.is_set)
    another._index_keeper.look(0.0)
    assert lease(store) == ["urgent"]


@pytest.mark.usefixtures("always")
def test_what_was_known_of_a_server_before_its_start_is_not_used(
    store: PostgresStore, plain_url: str
) -> None:
    submit(store, *named(0, 3))
    index_all(store)
    with psycopg.connect(plain_url.partition("&schema")[0], autocommit=True) as db:
        schema = store._database.address.schema
        # As its first write does; its last commits may be lost, or it is a copy.
        db.execute(f"UPDATE {schema}.store_state SET version_base = version_base + 10".encode())
        last = f"seq = (SELECT max(seq) FROM {schema}.job)"
        db.execute(f"UPDATE {schema}.ready SET turn = turn - 1 WHERE {last}".encode())
        db.execute(f"UPDATE {schema}.job SET created_at = created_at - 1 WHERE {last}".encode())
    store._database.fronts.is_short.clear()
    assert lease(store) == ["job-00002"]
    assert store._database.fronts.is_short.is_set()
    store._index_keeper.look()
    assert lease(store) == ["job-00000"]


FORKED_WHILE_LOCKED = """
import os, sys, threading
from leasehold.connect import connect
from leasehold.core.model.job import Draft

store = connect(sys.argv[1])
store.dead_workers()
for event in (store._database.fronts.is_short, store._database.fronts.is_over):
    locked, over = threading.Event(), threading.Event()

    def hold():
        with event._cond:
            locked.set()
            over.wait()

    threading.Thread(target=hold).start()
    locked.wait()
    child = os.fork()
    if not child:
        store.submit([Draft(id=f"of {os.getpid()}", task="t")])
        store.dead_workers()
        store.close()
        os._exit(7)
    over.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
store.close()
"""


def test_a_fork_at_any_moment_leaves_the_child_a_keeper_of_its_own(url: str) -> None:
    subprocess.run([sys.executable, "-c", FORKED_WHILE_LOCKED, url], check=True, timeout=120)


def flush(server: RedisServer) -> None:
    server.command("FLUSHALL")


def kill(server: RedisServer) -> None:
    server.kill()


def restart(server: RedisServer) -> None:
    server.kill()
    server.start()


def overwrite(server: RedisServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        for key in list(client.scan_iter()):
            client.set(key, "garbage")


def evict(server: RedisServer) -> None:
    """The sets, not what is known of them."""
    with redis.Redis.from_url(server.url) as client:
        for key in list(client.scan_iter(_type="zset")):
            client.delete(key)


def name_others(server: RedisServer) -> None:
    """Spots where no job ever stood, ahead of all others."""
    with redis.Redis.from_url(server.url) as client:
        for key in list(client.scan_iter(_type="zset")):
            others = ready_index.written((0, turn, turn) for turn in range(3000))
            client.zadd(key, {others[at : at + 24]: 0 for at in range(0, len(others), 24)})


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("harm", [flush, kill, restart, overwrite, evict, name_others])
def test_nothing_is_lost_and_the_order_is_right(
    store: PostgresStore,
    another: PostgresStore,
    server: RedisServer,
    harm: Callable[[RedisServer], None],
) -> None:
    submit(store, *named(0, 10))
    index_all(store)
    assert lease(store, 2) == ["job-00000", "job-00001"]
    harm(server)
    assert lease(another, 2) == ["job-00002", "job-00003"]
    submit(another, draft("urgent", priority=99))
    assert lease(store, 2) == ["urgent", "job-00004"]
    if harm is kill:
        server.start()
    for each in (store, another):
        assert each.describe()["redis"]["is_up"]
        each._index_keeper.look(0.0)
    submit(another, draft("urgent too", priority=99))
    assert lease(store, 2) == ["urgent too", "job-00005"]
    # Redis says so, and PostgreSQL is not asked for the first of the lane.
    assert store._database.fronts.of(list(store._database.remembered.known.indexed), 1)  # type: ignore[union-attr]
    assert lease(another, 9) == [f"job-{number:05}" for number in range(6, 10)]
    assert store.check() == []


@pytest.mark.usefixtures("always")
def test_of_many_at_once_none_is_leased_twice_or_forgotten(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_keeper, "SPOTS_KEPT", 150)
    submit(store, draft("first"))
    index_all(store)
    jobs, submitters = 1200, 2
    found: list[str] = []
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(opened(url))) for _ in range(5)]

        def one(number: int) -> None:
            mine, random = stores[number], Random(number)
            if number < submitters:
                share = jobs // submitters
                for first in range(number * share, (number + 1) * share, 20):
                    submit(mine, *named(first, first + 20, priority=random.randint(0, 100)))
            elif number == submitters:
                while len(found) <= jobs:
                    mine._index_keeper.look(0.0)
            else:
                while len(found) <= jobs:
                    request = LeaseRequest(worker=f"w{number}", limit=random.randint(1, 9))
                    for each in mine.exchange(request=request).leases:
                        outcome: Outcome = Release() if random.random() < 0.3 else Complete()
                        settle(mine, each, outcome)
                        if isinstance(outcome, Complete):
                            found.append(each.job_id)

        at_once(5, one)
    assert sorted(found) == sorted(["first", *(f"job-{number:05}" for number in range(jobs))])
    assert store.check() == []


@pytest.mark.usefixtures("always")
def test_limits_are_kept(store: PostgresStore, another: PostgresStore) -> None:
    config = QueueConfig(max_concurrency=3, key_concurrency=1)
    store.create_queue("default", config, actor="me")
    submit(store, *named(0, 4, limit_key="a"), *named(4, 8, limit_key="b"), *named(8, 12))
    index_all(store)
    [of_a, of_b] = store.exchange(request=LeaseRequest(worker="w", limit=2)).leases
    assert [of_a.job_id, of_b.job_id] == ["job-00000", "job-00004"]
    assert lease(another, 5) == ["job-00008"]
    assert lease(store, 5) == []
    settle(another, of_a, Complete())
    assert lease(store, 5) == ["job-00001"]
    settle(store, of_b, Release())
    # That one is available again since a moment ago, and the next one since its submission.
    assert lease(another, 5) == ["job-00005"]
    assert store.check() == []


# -- that these tests can fail -----------------------------------------------------------------


def say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts.Fronts, "tell", lambda *_: None)


def forget_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ready_index._front_of

    def endless(answer: object) -> object:
        front = honest(answer)
        return None if front is None else front._replace(end=None)

    monkeypatch.setattr(ready_index, "_front_of", endless)


def trust_any_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READ", "CHANGE"):
        script: str = getattr(ready_index, name)
        blind = script.replace("return empty and set or nil", "return set")
        monkeypatch.setattr(ready_index, name, blind)


def ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts.Fronts, "of", lambda *_: {})


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("break_it", [say_nothing, forget_the_end, trust_any_set, ask_nobody])
def test_each_of_these_faults_is_found_out(
    store: PostgresStore,
    another: PostgresStore,
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
) -> None:
    break_it(monkeypatch)
    if break_it is forget_the_end:
        with pytest.raises(AssertionError):
            test_behind_the_last_spot_that_redis_knows_the_lane_is_read_on(store, monkeypatch)
    else:
        with pytest.raises(AssertionError):
            test_nothing_is_lost_and_the_order_is_right(store, another, server, evict)
