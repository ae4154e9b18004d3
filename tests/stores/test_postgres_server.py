"""The PostgreSQL store as a part of its server: many machines, lost sessions, plans, limits."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from leasehold import StoreBusyError
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Status
from leasehold.env import EPOCH, Env, ManualClock
from leasehold.errors import InvalidJobError, StoreError, StoreUnavailableError
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.leasing.indexed import READY_AT  # noqa: E402
from leasehold.stores.postgres.leasing.order import READY_IN_LANE  # noqa: E402
from leasehold.stores.postgres.leasing.settle import SETTLE  # noqa: E402
from leasehold.stores.postgres.schema.migrate import LOCK, version  # noqa: E402
from leasehold.stores.postgres.server import session as session_module  # noqa: E402
from leasehold.stores.postgres.server.address import parse  # noqa: E402
from leasehold.stores.postgres.server.connection import SqlConnection, open_connection  # noqa: E402
from leasehold.stores.postgres.server.life import DEAD_SECONDS, Deaths  # noqa: E402
from leasehold.stores.postgres.writing.step import NotAlone  # noqa: E402
from leasehold.stores.postgres.writing.tries import TRIES_MAX  # noqa: E402

PATIENCE_SECONDS = 30
VICTIM = """
import os, sys
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.records import WorkerInfo
from leasehold.env import EPOCH
from leasehold.stores.postgres import PostgresStore

store = PostgresStore(sys.argv[1])
life = store.register_worker(WorkerInfo(
    id="victim", host="h", pid=os.getpid(), queues=("default",), slots=1,
    started_at=EPOCH, heartbeat_at=EPOCH))
assert store.exchange(request=LeaseRequest(worker="victim", lease_seconds=3600)).leases
os.kill(os.getpid(), 9)
"""

SHIFTED = """
import sys, time

wall, shift = time.time_ns, int(sys.argv[2]) * 10**9
time.time_ns = lambda: wall() + shift
time.time = lambda: time.time_ns() / 1e9
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.env import SYSTEM
from leasehold.stores.postgres import PostgresStore

assert abs(SYSTEM.now().timestamp() - wall() / 1e9) > 3600
store = PostgresStore(sys.argv[1])
store.submit([Draft(id="theirs", task="t")])
assert (store.recover().recovered, store.promote()) == (0, 0)
(lease,) = store.exchange(request=LeaseRequest(worker="there", limit=5, lease_seconds=60)).leases
assert lease.job_id == "theirs"
store.close()
"""


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store


def drafts(count: int, prefix: str = "job") -> list[Draft]:
    return [Draft(id=f"{prefix}-{n}", task="work") for n in range(count)]


def run_some(store: PostgresStore, worker: str, limit: int = 7) -> list[str]:
    """Lease and complete until there is nothing left; the ids, in the order of the leases."""
    done: list[str] = []
    held: list[Settlement] = []
    while True:
        request = LeaseRequest(worker=worker, limit=limit)
        leases = store.exchange(held, request).leases
        held = [Settlement(lease.job_id, lease.version, Complete()) for lease in leases]
        done += [lease.job_id for lease in leases]
        if not leases:
            return done


def enter(store: PostgresStore, worker: str = "worker") -> WorkerInfo:
    return WorkerInfo(
        id=worker, host="h", pid=1, queues=("default",), slots=1,
        started_at=EPOCH, heartbeat_at=EPOCH,
    )  # fmt: skip


def test_a_server_that_is_not_there_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody listens there.
        url = f"postgresql://somebody@127.0.0.1:{taken.getsockname()[1]}/jobs"
        with pytest.raises(StoreUnavailableError, match=r"cannot be reached: .*refused\. Is the"):
            PostgresStore(url)
    assert not [each for each in caplog.records if each.name == "psycopg.pool"]


@pytest.mark.usefixtures("store")
def test_a_database_that_is_not_there_is_told_at_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = urlsplit(url)._replace(path="/nodb").geturl()
    told = 'refuses the connection: database "nodb" does not exist$'
    with pytest.raises(StoreUnavailableError, match=told):
        PostgresStore(elsewhere)
    assert not [each for each in caplog.records if each.name == "psycopg.pool"]


def test_workers_side_by_side_lease_every_job_once(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(4)]
    try:
        stores[0].submit(drafts(400))
        with ThreadPoolExecutor(8) as pool:
            submitting = [
                pool.submit(store.submit, drafts(50, f"more-{n}")) for n, store in enumerate(stores)
            ]
            running = [
                pool.submit(run_some, store, f"worker-{n}") for n, store in enumerate(stores)
            ]
            for each in submitting:
                each.result()
            ran = [job_id for each in running for job_id in each.result()]
        ran += run_some(stores[0], "last")
        assert len(ran) == len(set(ran)) == 600
        assert stores[1].stats().counts[Status.COMPLETED] == 600
        assert stores[1].stats().completed == 600
        assert stores[2].check() == []
    finally:
        for store in stores:
            store.close()


def test_processes_that_start_at_once_make_one_store(schemas: Schemas) -> None:
    url = schemas.lend() + "_raced"
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: PostgresStore(url), range(4)))
    try:
        assert len({store.describe()["store_id"] for store in stores}) == 1
    finally:
        for store in stores:
            store.close()


def test_who_waited_for_a_migration_sees_it(schemas: Schemas) -> None:
    """The server remembers within a transaction that a name is not there: it must not be asked."""
    address = parse(schemas.lend() + "_waited")
    with (
        open_connection(address, application_name="waits") as raw,
        open_connection(address, application_name="migrates") as other,
    ):
        waits = SqlConnection(raw)
        assert version(waits, address) == 0
        with raw.transaction():
            waits.execute(LOCK, (address.schema,))
            with other.transaction():
                other.execute(f"CREATE SCHEMA {address.schema}".encode())
                other.execute(b"CREATE TABLE migration AS SELECT 7 AS number")
            assert version(waits, address) == 7


def test_a_role_that_may_create_no_schema_uses_its_own(schemas: Schemas) -> None:
    name = f"owner_{os.getpid()}"
    with psycopg.connect(schemas.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN".encode())
        admin.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}".encode())
        try:
            where = urlsplit(schemas.url)
            place = where._replace(netloc=f"{name}@{where.netloc.rpartition('@')[2]}").geturl()
            with closing(PostgresStore(f"{place}&schema={name}")) as store:
                store.submit(drafts(1))
            with pytest.raises(StoreError, match="permission denied"):
                PostgresStore(f"{place}&schema={name}_2")
        finally:
            admin.execute(f"DROP OWNED BY {name}".encode())
            admin.execute(f"DROP ROLE {name}".encode())


def test_schemas_are_stores_of_their_own(schemas: Schemas, store: PostgresStore) -> None:
    other_url = schemas.lend()
    with closing(PostgresStore(other_url)) as other:
        store.submit(drafts(1))
        assert other.get("job-0") is None
        other.submit(drafts(1))
        assert store.describe()["store_id"] != other.describe()["store_id"]
    schemas.take_back(other_url)


def test_a_killed_process_is_proved_dead(url: str) -> None:
    clock = ManualClock()
    with closing(PostgresStore(url)) as real:
        real.submit(drafts(2))
        # Whoever leases under its name, from another process, is not the victim.
        [kept] = real.exchange(request=LeaseRequest(worker="victim", lease_seconds=3600)).leases
        ran = subprocess.run([sys.executable, "-c", VICTIM, url], check=False)
        assert ran.returncode == -9
        database = real._database
        database.deaths = Deaths(database.address.schema, clock, up_seconds=0)
        _wait_for_end_of_session(real)
        assert real.recover().recovered == 0
        clock.advance(DEAD_SECONDS)
        report = real.recover()
        assert (report.recovered, report.workers_proved_dead) == (1, ("victim",))
        assert [held.job_id for held in real.stuck(0)] == [kept.job_id]
        assert real.workers() == []


def _wait_for_end_of_session(store: PostgresStore) -> None:
    """The server notices the end of a process soon after it, not with it."""
    condition = threading.Condition()
    for _ in range(PATIENCE_SECONDS * 20):
        with store._database.read() as db:
            if Deaths(store._database.address.schema, ManualClock(), 0).free(db):
                return
        with condition:
            condition.wait(0.05)
    pytest.fail("the session lock of a killed process stays taken")


def test_a_worker_that_is_cut_off_takes_its_lock_again(url: str, store: PostgresStore) -> None:
    life = store.register_worker(enter(store))
    cut_session(url)
    _wait_until_held(store)
    assert store.recover().workers_proved_dead == ()
    life.close()


def cut_session(url: str) -> None:
    """End the connection on which locks of workers are held."""
    with psycopg.connect(url.partition("&schema")[0], autocommit=True) as db:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        db.execute(cut.encode(), ("leasehold session",))


def test_two_brief_cuts_prove_nothing_however_far_apart(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LOOK_SECONDS", 3600.0)  # Its thread does not interfere.
    database, clock = store._database, ManualClock()
    deaths = Deaths(database.address.schema, clock, 0)
    life = store.register_worker(enter(store))
    for _ in range(3):
        cut_session(url)
        _wait_for_end_of_session(store)
        with database.read() as look:
            assert deaths.free(look)
            assert deaths.find(look) == set()
        database.session.notify(["e"])  # It finds out, and takes its lock again.
        _wait_until_held(store)
        clock.advance(DEAD_SECONDS + 1)
    cut_session(url)
    _wait_for_end_of_session(store)
    # Now it is not taken again.
    with database.session._line, database.read() as look:
        assert deaths.find(look) == set()
        clock.advance(DEAD_SECONDS)
        assert {each.worker for each in deaths.find(look)} == {"worker"}
    life.close()


def _wait_until_held(store: PostgresStore) -> None:
    condition = threading.Condition()
    for _ in range(PATIENCE_SECONDS * 20):
        with store._database.read() as look:
            if not Deaths(store._database.address.schema, ManualClock(), 0).free(look):
                return
        with condition:
            condition.wait(0.05)
    pytest.fail("the lock was not taken again")


def test_a_worker_that_was_believed_dead_is_entered_again(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = store.register_worker(enter(store))
    [entry] = store.workers()
    with psycopg.connect(url.partition("&schema")[0], autocommit=True) as db:
        schema = store._database.address.schema
        db.execute(f'DELETE FROM "{schema}".worker'.encode())
    assert store.workers() == []
    assert store.dead_workers() == set()
    [again] = store.workers()
    assert (again.id, again.pid, again.queues) == (entry.id, entry.pid, entry.queues)
    with store._database.read() as look:
        assert not Deaths(schema, ManualClock(), 0).free(look)
    life.close()
    assert store.workers() == []
    assert store.dead_workers() == set()
    assert store.workers() == []


def test_a_worker_that_comes_while_the_connection_is_cut_takes_the_locks_of_all_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store._database.session
    first = store.register_worker(enter(store))
    monkeypatch.setattr(session_module, "LOOK_SECONDS", 3600.0)
    with session._line:
        session._drop()  # As the thread does that finds it cut, before it looks again.
    second = store.register_worker(enter(store, "second"))
    with store._database.read() as look:
        assert Deaths(store._database.address.schema, ManualClock(), 0).free(look) == set()
    first.close()
    second.close()


def test_a_worker_can_begin_although_the_connection_was_cut_while_nobody_used_it(
    store: PostgresStore,
) -> None:
    store.register_worker(enter(store)).close()
    connection = store._database.session._connection
    assert connection is not None
    connection.raw.pgconn.finish()
    life = store.register_worker(enter(store))
    assert life.lock_fd is not None
    # A worker that is just starting asks for it; it has no children yet that could hold it open.
    again = store._database.session._connection
    assert again is not None
    again.raw.pgconn.finish()
    assert life.lock_fd is None
    life.close()


class Ears:
    def __init__(self) -> None:
        self.ready = threading.Event()

    def on_ready(self) -> None:
        self.ready.set()

    def on_ended(self, job_ids: Collection[str] | None) -> None: ...
    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None: ...


def test_another_process_hears_of_new_jobs(url: str, store: PostgresStore) -> None:
    ears = Ears()
    store.subscribe(ears)
    with closing(PostgresStore(url)) as other:
        other.submit(drafts(1))
        assert ears.ready.wait(PATIENCE_SECONDS)


def test_news_of_a_lone_write_are_sent_behind_its_commit_and_a_stream_of_writes_shares_them(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ears = Ears()
    store.subscribe(ears)
    monkeypatch.setattr(session_module, "NEWS_GAP_SECONDS", 0)
    with closing(PostgresStore(url)) as other:
        for n in range(3):
            ears.ready.clear()
            other.submit(drafts(1, f"lone-{n}"))
            assert ears.ready.wait(PATIENCE_SECONDS)
        assert other._database.session._speaker is None
        monkeypatch.setattr(session_module, "NEWS_GAP_SECONDS", 1000)
        ears.ready.clear()
        other.submit(drafts(1, "next"))
        assert ears.ready.wait(PATIENCE_SECONDS)
        assert other._database.session._speaker is not None


def test_a_commit_is_kept_and_told_of_where_only_the_news_behind_it_fail(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ears = Ears()
    store.subscribe(ears)
    with closing(PostgresStore(url)) as other:
        fails = ("SELECT 1 / $1::bigint", (0,))
        monkeypatch.setattr(other._database.session, "behind_commit", lambda _: fails)
        for n in range(3):
            ears.ready.clear()
            assert other.submit(drafts(1, f"kept-{n}"))
            assert ears.ready.wait(PATIENCE_SECONDS)
    assert store.stats().counts[Status.PENDING] == 3


def test_nobody_commits_later_because_news_are_being_sent(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store._database.session
    is_sending, may_go_on = threading.Event(), threading.Event()
    say = session._say

    def slowly(news: str) -> None:
        is_sending.set()
        may_go_on.wait(PATIENCE_SECONDS)
        say(news)

    monkeypatch.setattr(session, "_say", slowly)
    monkeypatch.setattr(session_module, "NEWS_GAP_SECONDS", 1000)
    store.submit(drafts(1, "behind"))
    store.submit(drafts(1, "first"))
    assert is_sending.wait(PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as pool:
        try:
            assert pool.submit(store.submit, drafts(1, "next")).result(PATIENCE_SECONDS / 2)
        finally:
            may_go_on.set()


def test_what_must_be_done_alone_is_done_alone_also_after_many_tries(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = store._database
    transaction = database._transaction
    tries: list[bool] = []

    def with_trouble(db: SqlConnection, operation: Any, way: Any, *rest: Any) -> None:
        tries.append(way.side_by_side is None)
        if len(tries) < TRIES_MAX:
            raise psycopg.errors.SerializationFailure("somebody else was first")
        if way.side_by_side is not None:
            raise NotAlone
        transaction(db, operation, way, *rest)

    monkeypatch.setattr(database, "_transaction", with_trouble)
    assert database.write(lambda step: step.alone, side_by_side=lambda _: True)
    assert tries == [False] * TRIES_MAX + [True]


def test_versions_grow_when_the_server_is_another_one(url: str) -> None:
    with closing(PostgresStore(url)) as store:
        store.submit(drafts(2))
        (before,) = store.exchange(request=LeaseRequest(worker="w")).leases
        # As if this were a copy that was promoted, and had lost the sequence's last numbers.
        store._database.write(
            lambda step: step.execute("UPDATE store_state SET server_started_at = 'epoch'")
        )
        store._database.write(lambda step: step.execute("ALTER SEQUENCE lease_version RESTART"))
    with closing(PostgresStore(url)) as again:
        (after,) = again.exchange(request=LeaseRequest(worker="w")).leases
        assert after.version > before.version
        again._database.write(lambda step: step.execute("SELECT setval('lease_version', 1000)"))


@pytest.mark.parametrize("statement", [READY_IN_LANE, READY_AT, SETTLE])
def test_the_primary_key_drives_leases_and_settlements(schemas: Schemas, statement: str) -> None:
    """On a table that was never analyzed, and by the generic plan of a prepared statement."""
    # A schema of its own: one that was emptied before may have been vacuumed meanwhile.
    query = "&" if "?" in schemas.url else "?"
    schema = f"new_{os.getpid()}_{len(statement)}"
    with closing(PostgresStore(f"{schemas.url}{query}schema={schema}")) as store:
        check_plan(store, statement)


@pytest.mark.parametrize("statement", [READY_IN_LANE, READY_AT, SETTLE])
def test_and_when_the_tables_were_vacuumed_while_they_were_empty(
    store: PostgresStore, statement: str
) -> None:
    """The planner takes them for empty then, and any index for good, however full they are."""
    store.submit(drafts(2000))
    address = store._database.address
    with psycopg.connect(address.conninfo, autocommit=True) as db:
        for table in ("ready", "job", "running"):
            db.execute(f"DELETE FROM {address.schema}.{table}".encode())
            # Its pages stay, as when others look at it meanwhile.
            db.execute(f"VACUUM (TRUNCATE off, ANALYZE) {address.schema}.{table}".encode())
    check_plan(store, statement)


def check_plan(store: PostgresStore, statement: str) -> None:
    store.submit(drafts(5000))
    store.exchange(request=LeaseRequest(worker="w", limit=1000))
    with store._database.read() as db:
        # As in a write.
        db.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        db.execute("SET LOCAL enable_seqscan = off")
        values: tuple[object, ...] = (1, -1, 0, 0, 100)
        if statement is SETTLE:
            values = ("ARRAY['job-1', 'job-2']", "ARRAY[1, 1]")
        if statement is READY_AT:
            values = (1, "ARRAY[50000]", "ARRAY[1]", "ARRAY[1]", 100)
        types = "(text[], bigint[])" if statement is SETTLE else ""
        db.execute(f"PREPARE looked_at {types} AS {statement}")
        shown = ", ".join(map(str, values))
        plan = "\n".join(line for (line,) in db.execute(f"EXPLAIN EXECUTE looked_at ({shown})"))
        db.execute("DEALLOCATE looked_at")
    assert ("job_id_key" if statement is SETTLE else "ready_pkey") in plan, plan
    assert "Seq Scan" not in plan, plan
    assert "Sort" not in plan or statement is not READY_AT, plan
    if statement is READY_AT:
        assert re.search(r"Scan using ready_pkey on ready.*\n\s+Index Cond:.*seq = ", plan), plan
        assert re.search(r"Scan using job_pkey on job.*\n\s+Index Cond:", plan), plan
    if statement is SETTLE:
        # Each lease by its number: to read all of them for each one is quadratic.
        assert re.search(r"Scan using running_pkey on running.*\n\s+Index Cond:", plan), plan


def test_a_write_that_waits_too_long_is_refused(url: str) -> None:
    with closing(PostgresStore(f"{url}&lock_timeout_seconds=0.2")) as store:
        turn = store._database.turn.key
        with psycopg.connect(url.partition("&schema")[0]) as db:
            db.execute(b"SELECT pg_advisory_lock(%s)", (turn,))
            with pytest.raises(StoreBusyError, match="nothing was written"):
                store.submit(drafts(1))
        assert store.submit(drafts(1))


def test_text_with_nul_is_refused_or_replaced(store: PostgresStore) -> None:
    with pytest.raises(InvalidJobError):
        store.submit([Draft(id="a", task="work", limit_key="a\x00b")])
    store.submit([Draft(id="b", task="work", max_retries=0)])
    (lease,) = store.exchange(request=LeaseRequest(worker="w")).leases
    error = JobError("ValueError", "no \x00 here", "at \x00")
    store.exchange([Settlement("b", lease.version, Fail(error))])
    job = store.get("b")
    assert job is not None
    assert job.error is not None
    assert job.error.message == "no � here"
    assert store.check() == []


def test_a_forked_child_has_connections_of_its_own(store: PostgresStore) -> None:
    store.submit(drafts(1))
    child = os.fork()
    if child == 0:
        try:
            store.submit(drafts(1, "child"))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("child-0") is not None
    store.submit(drafts(1, "parent"))
    assert store.stats().counts[Status.PENDING] == 3


@pytest.mark.parametrize("hours", [-5, 5])
def test_the_clock_of_a_machine_does_not_count(url: str, hours: int) -> None:
    """Of two machines one is hours off: neither is early, nor takes the other's jobs."""
    ahead = [
        sys.executable, "-c", SHIFTED, url, str(hours * 3600),
    ]  # fmt: skip
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="held", task="t"), Draft(id="later", task="t", delay_seconds=3600)])
        (held,) = store.exchange(request=LeaseRequest(worker="here", lease_seconds=60)).leases
        subprocess.run(ahead, check=True)
        job = store.get("held")
        assert job is not None
        assert (job.status, job.lease_version) == (Status.RUNNING, held.version)
        later = store.get("later")
        assert later is not None
        assert later.status is Status.SCHEDULED
        theirs = store.get("theirs")
        assert theirs is not None
        assert abs((theirs.created_at - store.now()).total_seconds()) < 600
        # What the other one leased for a minute is its own for a minute.
        assert store.recover().recovered == 0
        (running,) = [each for each in store.stuck(0) if each.worker == "there"]
        assert 0 < (running.lease_expires_at - store.now()).total_seconds() <= 60


def test_time_is_the_servers(url: str) -> None:
    with closing(PostgresStore(url)) as real, closing(PostgresStore(url, env=Env())) as other:
        assert abs((real.now() - other.now()).total_seconds()) < 60


def test_writes_go_by_the_connection_that_was_used_last(url: str) -> None:
    """Each has a process of the server behind it, which plans every statement for itself."""
    with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as other:
        lending = store._database._lending

        def used(connections: int) -> set[int]:
            with ExitStack() as lent:
                each = [lent.enter_context(lending.connection()) for _ in range(connections)]
                return {db.raw.info.backend_pid for db in each}

        several = used(3)
        assert len(several) == 3
        processes = [used(1) for _ in range(10)]
        assert processes == [processes[0]] * 10
        # One that the server has ended is not lent again.
        (victim,) = processes[0]
        with other._database.beside_all() as db:
            db.execute("SELECT pg_terminate_backend($1::integer, 10000)", (victim,))
        assert victim not in used(3)


def test_who_comes_after_the_server_has_ended_all_idle_connections_is_served_at_once(
    url: str,
) -> None:
    """psycopg's own look at them would rest for longer after each that it finds."""
    with (
        closing(PostgresStore(url.replace("?", "?pool_timeout_seconds=4&"))) as store,
        closing(PostgresStore(url)) as other,
    ):
        lending = store._database._lending
        with ExitStack() as lent:
            each = [lent.enter_context(lending.connection()) for _ in range(10)]
            victims = [db.raw.info.backend_pid for db in each]
        with other._database.beside_all() as db:
            for victim in victims:
                db.execute("SELECT pg_terminate_backend($1::integer, 10000)", (victim,))
        store.submit(drafts(1))
        assert store.get("job-0")


def test_a_connection_is_not_kept_from_somebody_who_waits_for_one(url: str) -> None:
    with closing(PostgresStore(url.replace("?", "?pool_size=1&"))) as store:
        lending = store._database._lending

        def ten_times() -> None:
            for _ in range(10):
                with lending.connection() as db:
                    db.execute("SELECT 1").fetchone()

        with ThreadPoolExecutor(4) as threads:
            for each in [threads.submit(ten_times) for _ in range(4)]:
                each.result(PATIENCE_SECONDS)


# -- what a process remembers of the store between writes ------------------------------------------


def test_a_write_that_had_the_store_to_itself_is_noticed_by_processes_that_remember(
    url: str, store: PostgresStore
) -> None:
    """Writes read the rest of the state only when another write has had the store to itself."""
    with closing(PostgresStore(url)) as other:
        for n in range(4):
            store.submit(drafts(2, f"calm-{n}-"))
        remembered = store._database.remembered
        assert remembered.last_state is not None
        assert not remembered.last_state.somebody_waits
        # Another process makes a job wait for one that this process then settles.
        (first,) = store.exchange(request=LeaseRequest(worker="w")).leases
        other.submit([Draft(id="after", task="t", depends_on=(first.job_id,))])
        done = Settlement(first.job_id, first.version, Complete(b"null"))
        assert not isinstance(store.exchange([done]).settled[0], Exception)
        after = store.get("after")
        assert after is not None
        assert after.status is Status.PENDING


def test_state_that_was_seen_in_a_transaction_that_is_rolled_back_is_not_remembered(
    store: PostgresStore,
) -> None:
    for n in range(4):
        store.submit(drafts(2, f"calm-{n}"))
    remembered = store._database.remembered
    before = remembered.last_state
    assert before is not None
    with closing(store.connect()) as connection, suppress(ZeroDivisionError), connection:
        for job_id in ("after", "later"):
            draft = Draft(id=job_id, task="work", depends_on=("calm-0-0",))
            store.submit_within(connection, [draft])
        raise ZeroDivisionError
    assert remembered.last_state is before
    store.submit(drafts(2, "next"))
    assert remembered.last_state is not None
    assert not remembered.last_state.somebody_waits
