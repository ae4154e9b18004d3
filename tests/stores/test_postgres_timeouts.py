"""The server's own timeouts on every connection: for statements, locks and idle transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, cast

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.errors import StoreBusyError, StoreUnavailableError
from support.poolers import pgbouncer
from support.servers import needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server import connection  # noqa: E402
from leasehold.stores.postgres.server.connection import name_of  # noqa: E402

TIMEOUTS = """
    SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),
        current_setting('idle_in_transaction_session_timeout')
"""
GIVEN = "&statement_timeout_seconds=7&lock_timeout_seconds=1.5"
IDLE = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s"
WANTED = ("7s", "1500ms", "1min")


@contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    """Somebody else has this table for as long as the block lasts."""
    server, _, schema = url.partition("&schema=")
    with psycopg.connect(server) as db:
        db.execute(f"LOCK TABLE {schema}.{table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def test_each_connection_has_them(url: str) -> None:
    with closing(PostgresStore(url + GIVEN)) as store:
        database = store._database
        with database.read() as db:
            assert db.execute(TIMEOUTS).fetchone() == WANTED
        with database.beside_all() as db:
            assert db.execute(TIMEOUTS).fetchone() == WANTED
        database.session.begin_life()
        session = database.session._connection
        assert session is not None
        assert session.execute(TIMEOUTS).fetchone() == WANTED
        own: Any = store.connect()
        assert own.execute(TIMEOUTS).fetchone() == WANTED
        own.close()


def test_also_behind_a_pooler_where_each_transaction_sets_them(url: str) -> None:
    server, _, schema = url.partition("&schema=")
    with pgbouncer(server) as pooler:
        PostgresStore(url).close()
        with closing(PostgresStore(f"{pooler}&schema={schema}{GIVEN}")) as store:
            with store._database.beside_all() as db:
                assert db.execute(TIMEOUTS).fetchone() == WANTED
            with store._database.read() as db:
                assert db.execute(TIMEOUTS).fetchone() == WANTED


@pytest.mark.parametrize(
    "limits",
    [
        "&statement_timeout_seconds=0.3&lock_timeout_seconds=60",
        "&statement_timeout_seconds=60&lock_timeout_seconds=0.3",
    ],
    ids=["statement", "lock"],
)
def test_what_takes_too_long_is_refused_and_may_be_tried_again(url: str, limits: str) -> None:
    with closing(PostgresStore(url + limits)) as store:
        store.submit([Draft(id="before", task="t")])
        with locked(url, "job"):
            with pytest.raises(StoreBusyError, match="nothing was written, try again"):
                store.submit([Draft(id="meanwhile", task="t")])
            with pytest.raises(StoreBusyError):
                store.get("before")
        store.submit([Draft(id="meanwhile", task="t")])
        assert store.get("meanwhile") is not None
        assert store.check() == []


def test_the_transaction_of_a_task_that_does_nothing_in_it_is_ended(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is to wait for it without end. Its job is told, and can be run again."""
    monkeypatch.setattr(connection, "IDLE_IN_TRANSACTION_SECONDS", 0.2)
    with (
        closing(PostgresStore(url)) as store,
        psycopg.connect(url.partition("&schema=")[0], autocommit=True) as db,
    ):
        store.submit([Draft(id="job", task="t")])
        [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
        held = store.open_transaction("job", lease.version)
        cast("psycopg.Connection", held.connection).execute("SELECT 1")
        while db.execute(IDLE, (name_of(store._database.address) + " application",)).fetchone():
            db.execute("SELECT pg_sleep(0.05)")
        with pytest.raises(StoreUnavailableError, match="Nothing of it is kept"):
            held.complete(Settlement("job", lease.version, Complete(b"1")))
        held.roll_back()
        [settled] = store.exchange([Settlement("job", lease.version, Complete(b"2"))]).settled
        assert isinstance(settled, Settled)
        assert store.check() == []
