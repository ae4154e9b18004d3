"""Followers of the change feed of a PostgreSQL store hold up no write, and miss none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from leasehold.core.model.changes import FOLLOWED_SECONDS, Change
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from support.servers import needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.reading import feed  # noqa: E402

SIX_MINUTES = 360
"""After so long a follower says again that it follows."""
WRITERS = 4
JOBS_OF_EACH = 40
PATIENCE_SECONDS = 60


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(url: str, clock: ManualClock) -> Iterator[PostgresStore]:
    # Whoever waits for its turn at all is told so at once.
    with closing(PostgresStore(f"{url}&lock_timeout_seconds=0.1", env=Env(clock=clock))) as opened:
        # The first job of a queue has the store to itself, and so has the first one of a worker.
        opened.submit([Draft(id="first of theirs", task="other", queue="theirs")])
        work_through(opened, "first")
        yield opened


@pytest.fixture
def application(url: str) -> Iterator[psycopg.Connection]:
    with closing(psycopg.connect(url.partition("&schema")[0])) as connection:
        yield connection


class Follower:
    """One that remembers what it was told."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._cursor = store.changes().cursor

    def look(self) -> list[tuple[str, Status | None]]:
        return [(each.name, each.status) for each in self.look_closely()]

    def look_closely(self) -> list[Change]:
        found = self._store.changes(self._cursor, limit=7)
        assert not found.gap
        self._cursor = found.cursor
        return found.changes


def work_through(store: PostgresStore, job_id: str) -> None:
    """Submit, lease and complete a job."""
    store.submit([Draft(id=job_id, task="work")])
    (lease,) = store.exchange(request=LeaseRequest(worker="w")).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])


def steps_of(job_id: str) -> list[tuple[str, Status | None]]:
    return [(job_id, each) for each in (Status.PENDING, Status.RUNNING, Status.COMPLETED)]


def test_an_open_transaction_of_an_application_holds_up_nobody(
    store: PostgresStore, application: psycopg.Connection
) -> None:
    follower = Follower(store)
    store.submit_within(application, [Draft(id="theirs", task="other", queue="theirs")])
    work_through(store, "ours")
    assert follower.look() == steps_of("ours")
    work_through(store, "next")
    application.commit()
    assert follower.look() == [*steps_of("next"), ("theirs", Status.PENDING)]
    assert follower.look() == []


def test_what_an_application_rolls_back_is_not_told(
    store: PostgresStore, application: psycopg.Connection
) -> None:
    follower = Follower(store)
    store.submit_within(application, [Draft(id="theirs", task="other", queue="theirs")])
    work_through(store, "ours")
    application.rollback()
    assert follower.look() == steps_of("ours")
    work_through(store, "next")
    assert follower.look() == steps_of("next")


def test_a_follower_says_that_it_still_follows_beside_an_open_transaction(
    store: PostgresStore, application: psycopg.Connection, clock: ManualClock
) -> None:
    follower = Follower(store)
    store.submit_within(application, [Draft(id="theirs", task="other", queue="theirs")])
    clock.advance(SIX_MINUTES)
    assert follower.look() == []
    application.commit()
    assert follower.look() == [("theirs", Status.PENDING)]


TRIGGERS = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgname LIKE 'change_%'"


def triggers(store: PostgresStore) -> int:
    with store._database.read() as db:
        (row,) = db.execute(TRIGGERS + " AND tgrelid = to_regclass('job')")
        return int(row[0])


def test_whoever_reads_keeps_nobody_waiting_when_the_last_follower_has_gone(
    store: PostgresStore, application: psycopg.Connection, clock: ManualClock
) -> None:
    """As pg_dump does, for hours."""
    Follower(store)
    schema = store._database.address.schema
    application.execute(f"SELECT count(*) FROM {schema}.job".encode())
    store.submit([Draft(id="held", task="work")])
    (lease,) = store.exchange(request=LeaseRequest(worker="w", lease_seconds=99_999)).leases
    held = store.open_transaction("held", lease.version)
    clock.advance(FOLLOWED_SECONDS + 1)
    store.recover()
    assert triggers(store), "they cannot be dropped yet"
    application.commit()
    store.recover()
    assert triggers(store), "the task's transaction has looked at its job"
    held.complete(Settlement("held", lease.version, Complete()))
    store.recover()
    assert not triggers(store)
    assert Follower(store).look() == []
    assert triggers(store)


WAITS = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'relation' AND NOT granted AND mode = 'ShareRowExclusiveLock'
"""


def test_a_first_follower_that_waits_for_a_vacuum_gives_way(
    url: str, application: psycopg.Connection
) -> None:
    with (
        closing(PostgresStore(f"{url}&lock_timeout_seconds={PATIENCE_SECONDS}")) as followed,
        closing(PostgresStore(f"{url}&lock_timeout_seconds=5")) as store,
        ThreadPoolExecutor(1) as pool,
    ):
        lock = f"LOCK TABLE {store._database.address.schema}.job IN SHARE UPDATE EXCLUSIVE MODE"
        application.execute(lock.encode())
        following = pool.submit(followed.changes)
        while application.execute(WAITS.encode()).fetchone() != (1,):
            threading.Event().wait(0.01)
        store.submit([Draft(id="meanwhile", task="work")])
        application.commit()
        assert following.result(PATIENCE_SECONDS).changes == []
        assert triggers(store)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that hangs is not waited for."""
    monkeypatch.setattr(feed, "_PAUSES_SECONDS", (0.0,))


@pytest.mark.usefixtures("impatient")
def test_nothing_is_told_past_a_commit_that_hangs(
    store: PostgresStore, application: psycopg.Connection
) -> None:
    follower = Follower(store)
    work_through(store, "before")
    store.submit_within(application, [Draft(id="theirs", task="other", queue="theirs")])
    # As at its commit: what it has changed is given numbers, and nobody sees it yet.
    application.execute("SET CONSTRAINTS ALL IMMEDIATE")
    work_through(store, "after")
    newcomer = Follower(store)
    assert follower.look() == steps_of("before")
    assert follower.look() == []
    application.commit()
    rest = [("theirs", Status.PENDING), *steps_of("after")]
    assert follower.look() == rest
    assert [each for each in newcomer.look() if each not in steps_of("before")] == rest


@pytest.mark.usefixtures("impatient")
def test_numbers_of_a_commit_that_failed_hold_up_nobody(
    store: PostgresStore, application: psycopg.Connection
) -> None:
    follower = Follower(store)
    store.submit_within(application, [Draft(id="theirs", task="other", queue="theirs")])
    application.execute("SET CONSTRAINTS ALL IMMEDIATE")
    work_through(store, "ours")
    assert follower.look() == []
    application.rollback()
    assert follower.look() == steps_of("ours")


def test_many_writers_beside_each_other_and_a_follower_that_looks_all_the_time(url: str) -> None:
    with closing(PostgresStore(url)) as store:
        follower = Follower(store)
        told: list[Change] = []
        writers = [
            threading.Thread(target=write_much, args=(url, f"queue-{n}")) for n in range(WRITERS)
        ]
        for each in writers:
            each.start()
        while any(each.is_alive() for each in writers):
            told += follower.look_closely()
        while found := follower.look_closely():
            told += found
    by_job: dict[str, list[int | None]] = {}
    for change in told:
        by_job.setdefault(change.name, []).append(change.sequence)
    wanted = {f"queue-{n}-{m}": [1, 2, 3] for n in range(WRITERS) for m in range(JOBS_OF_EACH)}
    assert by_job == wanted


def write_much(url: str, queue: str) -> None:
    """As another process would."""
    with closing(PostgresStore(f"{url}&lock_timeout_seconds={PATIENCE_SECONDS}")) as store:
        for n in range(JOBS_OF_EACH):
            store.submit([Draft(id=f"{queue}-{n}", task="work", queue=queue)])
            request = LeaseRequest(worker=queue, queues=(queue,))
            (lease,) = store.exchange(request=request).leases
            store.exchange([Settlement(lease.job_id, lease.version, Complete())])
