"""An application's own psycopg connections: jobs and rows in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Event
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import orm

from leasehold import (
    DuplicateJobError,
    StoreBusyError,
    TaskQueue,
    TransactionError,
    current_job,
)
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Renewed, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.status import Status
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402

PATIENCE_SECONDS = 60


@pytest.fixture
def url(schemas: Schemas) -> Iterator[str]:
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent, "DROP TABLE IF EXISTS public.app_row")


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store


@pytest.fixture
def own(url: str) -> Iterator[Any]:
    """The application's, as applications open them."""
    with psycopg.connect(url.partition("&schema")[0]) as own:
        own.execute("CREATE TABLE app_row (n integer)")
        own.commit()
        yield own


def draft(job_id: str = "job", **options: Any) -> Draft:
    return Draft(id=job_id, task="work", **options)


def test_a_job_is_there_when_its_transaction_commits(store: PostgresStore, own: Any) -> None:
    own.execute("INSERT INTO app_row VALUES (1)")
    store.submit_within(own, [draft()])
    assert store.get("job") is None
    own.commit()
    assert store.get("job") is not None
    assert store.check() == []


def test_nothing_is_left_after_a_rollback(store: PostgresStore, own: Any) -> None:
    own.execute("INSERT INTO app_row VALUES (1)")
    store.submit_within(own, [draft(idempotency_key="key")])
    own.rollback()
    assert store.get("job") is None
    assert own.execute("SELECT n FROM app_row").fetchall() == []
    assert store.stats().submitted == 0


def test_a_refusal_leaves_the_transaction_as_it_was(store: PostgresStore, own: Any) -> None:
    store.submit([draft("taken")])
    (before,) = own.execute("SHOW search_path").fetchall()
    own.execute("INSERT INTO app_row VALUES (1)")
    with pytest.raises(DuplicateJobError):
        store.submit_within(own, [draft("new"), draft("taken")])
    assert own.execute("SHOW search_path").fetchall() == [before]
    own.commit()
    assert own.execute("SELECT n FROM app_row").fetchall() == [(1,)]
    assert store.get("new") is None


def test_a_connection_outlives_any_number_of_refusals(
    store: PostgresStore, own: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store.submit([draft("taken")])
    for n in range(12):
        store.submit_within(own, [draft(f"new-{n}")])
        with pytest.raises(DuplicateJobError):
            store.submit_within(own, [draft("taken")])
    own.commit()
    assert store.stats().submitted == 13
    assert [each.getMessage() for each in caplog.records if each.name == "psycopg"] == []


def test_a_connection_that_cannot_be_used_is_refused_by_its_kind(
    url: str, store: PostgresStore, own: Any
) -> None:
    own.close()
    with pytest.raises(TransactionError, match="the connection is closed: open another one"):
        store.submit_within(own, [draft()])
    with (
        TaskQueue(url, num_workers=0) as queue,
        pytest.raises(TransactionError, match=r"are no builtins\.int, but psycopg\.Connection"),
    ):
        queue.connect(int)


def test_without_a_transaction_nothing_is_submitted(url: str, store: PostgresStore) -> None:
    own: Any
    with psycopg.connect(url.partition("&schema")[0], autocommit=True) as own:
        with pytest.raises(TransactionError, match="no open transaction"):
            store.submit_within(own, [draft()])
        with own.transaction():
            store.submit_within(own, [draft()])
    assert store.get("job") is not None


def test_a_task_and_its_completion_are_one_commit(url: str, own: Any) -> None:
    with TaskQueue(url, num_workers=2) as queue:

        @queue.task(name="credit", max_retries=2, retry=0)
        def credit(amount: int) -> None:
            ctx = current_job()
            with ctx.transaction() as connection:
                connection.execute("INSERT INTO app_row VALUES (%s)", (amount,))
                if ctx.attempt == 1:
                    raise RuntimeError("the first attempt fails")

        with own.transaction():
            job = queue.submit(credit, 7, connection=own)
        job.result(timeout=PATIENCE_SECONDS)
        assert own.execute("SELECT n FROM app_row").fetchall() == [(7,)]
        assert queue.check() == []


@pytest.mark.parametrize("kind", ["connection", "session", "scoped session"])
def test_sqlalchemy_brings_its_connection(store: PostgresStore, url: str, kind: str) -> None:
    place = url.partition("&schema")[0].replace("postgresql://", "postgresql+psycopg://", 1)
    engine = sqlalchemy.create_engine(place)
    try:
        with engine.begin() as own:
            own.exec_driver_sql("CREATE TABLE app_row (n integer)")
        for job_id, is_kept in (("kept", True), ("dropped", False)):
            sessions = orm.scoped_session(orm.sessionmaker(engine))
            with ExitStack() as stack:
                lent: Any = sessions
                if kind == "scoped session":
                    stack.callback(sessions.remove)
                else:
                    opened = engine.connect() if kind == "connection" else orm.Session(engine)
                    lent = stack.enter_context(opened)
                # The first thing that is done on it, and one after another.
                store.submit_within(lent, [draft("first")])
                lent.rollback()
                assert store.get("first") is None
                lent.execute(sqlalchemy.text("INSERT INTO app_row VALUES (1)"))
                store.submit_within(lent, [draft(job_id)])
                assert store.get(job_id) is None
                lent.commit() if is_kept else lent.rollback()
            assert (store.get(job_id) is not None) is is_kept
            assert store.get("first") is None
        with engine.connect() as own:
            assert own.exec_driver_sql("SELECT count(*) FROM app_row").scalar() == 1
    finally:
        engine.dispose()


class Wrapped:
    """As Django's connection, which has the driver's once it is open."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection


def test_django_brings_its_connection(store: PostgresStore, own: Any) -> None:
    with pytest.raises(TransactionError, match="not open yet"):
        store.submit_within(Wrapped(None), [draft()])
    store.submit_within(Wrapped(own), [draft()])
    assert store.get("job") is None
    own.commit()
    assert store.get("job") is not None


def test_nobody_waits_for_the_transaction_of_a_task(url: str) -> None:
    with closing(PostgresStore(f"{url}&lock_timeout_seconds=0.5")) as store:
        store.submit([draft()])
        (lease,) = store.exchange(request=LeaseRequest(worker="w", lease_seconds=60)).leases
        held = store.open_transaction("job", lease.version)
        held.report_progress(b"{}")
        (renewed,) = store.renew("w", [Renewal("job", lease.version, 60)])
        assert isinstance(renewed, Renewed)
        with pytest.raises(StoreBusyError, match="nothing was written"):
            store.recover_one("job", lease.version, reset_attempts=False, reason="impatient")
        (job,) = store.cancel(["job"], reason="too late", actor="me")
        assert not isinstance(job, Exception)
        assert job.status is Status.RUNNING
        held.complete(Settlement("job", lease.version, Complete()))
        assert store.stats().counts[Status.COMPLETED] == 1
        assert store.check() == []


def test_transactions_in_a_circle_are_told_so(url: str, store: PostgresStore, own: Any) -> None:
    """One has the turn and wants a row, one has the row and wants the turn."""
    own.execute("INSERT INTO app_row VALUES (1)")
    own.commit()
    keyed = draft(idempotency_key="key")
    with (
        psycopg.connect(url.partition("&schema")[0]) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        # The one that waits longer than this finds the circle.
        other.execute("SET deadlock_timeout = '1min'")
        own.execute("UPDATE app_row SET n = 2")
        store.submit_within(other, [keyed])
        waiting = pool.submit(other.execute, "UPDATE app_row SET n = 3")
        with pytest.raises(StoreBusyError, match="deadlock with another transaction"):
            store.submit_within(own, [keyed])
        own.rollback()
        waiting.result(PATIENCE_SECONDS)
        other.commit()
    assert store.get("job") is not None


WAITING = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid = ((%s::bigint >> 32) & 4294967295)::oid
        AND objid = (%s::bigint & 4294967295)::oid
"""


ENDS_ALONE = ("needed", "limited")
NEEDS_NOTHING = ("ruled", "unneeded", "plain")


def two_leased(store: PostgresStore, case: str) -> list[Lease]:
    """Two jobs of a queue, and something that makes their ends concern other jobs, or not quite."""
    if case in ("ruled", "limited"):
        rules = QueueConfig(max_concurrency=5) if case == "limited" else QueueConfig()
        store.create_queue("default", rules, actor="me")
    store.submit([draft("one"), draft("two"), draft("other", queue="elsewhere")])
    needed = {"needed": ("one", "two"), "unneeded": ("other",)}.get(case, ())
    store.submit([draft(f"after {each}", depends_on=(each,)) for each in needed])
    return store.exchange((), LeaseRequest(worker="w", queues=("default",), limit=2)).leases


@pytest.mark.parametrize("case", [*ENDS_ALONE, *NEEDS_NOTHING])
def test_transactions_of_tasks_that_submit_wait_for_each_other_only_where_their_ends_concern_others(
    url: str, store: PostgresStore, case: str
) -> None:
    first, second = (
        store.open_transaction(each.job_id, each.version) for each in two_leased(store, case)
    )
    has_submitted = Event()

    def run(job_id: str, held: Any) -> None:
        store.submit_within(held.connection, [draft(f"by {job_id}", queue="elsewhere")])
        has_submitted.set()
        held.complete(Settlement(job_id, held._version, Complete()))

    key = store._database.turn._first
    store.submit_within(first.connection, [draft("by one", queue="elsewhere")])
    with (
        psycopg.connect(url.partition("&schema")[0], autocommit=True) as looking,
        ThreadPoolExecutor(1) as pool,
    ):
        later = pool.submit(run, "two", second)
        if case in ENDS_ALONE:
            while looking.execute(WAITING, (key, key)).fetchone() == (0,):
                assert not later.done()
            assert not has_submitted.is_set()
        else:
            later.result(PATIENCE_SECONDS)
        first.complete(Settlement("one", first._version, Complete()))
        later.result(PATIENCE_SECONDS)
    jobs = [store.get(name) for name in ("one", "two", "by one", "by two")]
    done, new = Status.COMPLETED, Status.PENDING
    assert [each and each.status for each in jobs] == [done, done, new, new]
    assert store.check() == []


def test_an_open_transaction_and_who_waits_to_be_alone_hold_up_nobody_else(
    url: str, store: PostgresStore, own: Any
) -> None:
    store.submit([draft("held")])
    [lease] = store.exchange((), LeaseRequest(worker="w", queues=("default",))).leases
    store.submit_within(own, [draft("within")])
    key = store._database.turn.key
    with (
        psycopg.connect(url.partition("&schema")[0], autocommit=True) as looking,
        ThreadPoolExecutor(1) as pool,
    ):
        alone = pool.submit(lambda: store.submit([draft("keyed", idempotency_key="key")]))
        while looking.execute(WAITING, (key, key)).fetchone() == (0,):
            assert not alone.done()
        # Both would wait for the keyed one, and that for the commit below.
        store.submit([draft("plain")])
        renewal = Renewal(lease.job_id, lease.version, 60)
        assert isinstance(store.renew("w", [renewal])[0], Renewed)
        assert not alone.done()
        own.commit()
        assert alone.result(PATIENCE_SECONDS)
    assert all(store.get(name) for name in ("within", "keyed", "plain"))


def test_a_submit_outside_the_transaction_that_its_caller_has_open_is_refused(
    store: PostgresStore, own: Any
) -> None:
    """It would be kept where the transaction is rolled back. Other threads may."""
    assert own
    store.submit([draft("before")])
    with ThreadPoolExecutor(1) as pool:
        connection = store.connect()
        with connection.transaction():
            connection.execute("INSERT INTO app_row VALUES (1)")
            for write in (
                lambda: store.submit([draft("outside")]),
                lambda: store.cancel(["outside"], reason="", actor="test"),
            ):
                with pytest.raises(TransactionError, match=r"transaction open .*outside"):
                    write()
            store.submit_within(connection, [draft("inside")])
            pool.submit(store.submit, [draft("of another thread")]).result(PATIENCE_SECONDS)
        connection.execute("BEGIN")
        with pytest.raises(TransactionError, match="transaction open"):
            store.submit([draft("outside")])
        connection.close()
        store.submit([draft("after")])
        assert store.get("outside") is None


def test_tasks_of_one_event_loop_have_transactions_of_their_own(store: PostgresStore) -> None:
    async def main() -> None:
        connection = store.connect()
        with connection.transaction():
            connection.execute("SELECT 1")
            with pytest.raises(TransactionError, match="transaction open"):
                store.submit([draft("mine")])
            await asyncio.create_task(other())
        connection.close()

    async def other() -> None:
        store.submit([draft("of another task")])

    asyncio.run(main())
    assert store.get("of another task") is not None
