"""Real standbys: one that is read from, lags, hangs and goes; one that becomes the primary."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from leasehold import StoreUnavailableError, UnsupportedError
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock
from support.servers import Schemas, Server, needs_psycopg, own_server

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server import replica as replicas  # noqa: E402

pytestmark = pytest.mark.faults

PATIENCE_SECONDS = 60


def looked_up(store: PostgresStore) -> list[str]:
    return sorted(job.id for job in store.looking().search(JobFilter(), limit=9).jobs)


def wait_for(store: PostgresStore, jobs: list[str]) -> None:
    """The standby follows, soon."""
    for _ in range(PATIENCE_SECONDS * 20):
        if looked_up(store) == jobs:
            return
        threading.Event().wait(0.05)
    pytest.fail(f"the standby shows {looked_up(store)}")


def test_a_standby_that_lags_hangs_and_goes(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    with own_server() as primary:
        with closing(PostgresStore(primary.url)) as store:
            store.submit([Draft(id="first", task="t")])
        with primary.standby() as standby:
            url = f"{primary.url}&replica={quote(standby.url)}"
            with closing(PostgresStore(url, env=Env(clock=clock))) as store:
                assert looked_up(store) == ["first"]
                with psycopg.connect(standby.url, autocommit=True) as db:
                    db.execute("SELECT pg_wal_replay_pause()")
                    store.submit([Draft(id="second", task="t")])
                    assert looked_up(store) == ["first"]
                    assert store.get("second") is not None
                    db.execute("SELECT pg_wal_replay_resume()")
                wait_for(store, ["first", "second"])
                standby.freeze()
                store.submit([Draft(id="third", task="t")])
                assert looked_up(store) == ["first", "second", "third"]
                assert "the primary is asked" in caplog.text
                standby.freeze(signal.SIGCONT)
                clock.advance(replicas.AGAIN_SECONDS + 1)
                wait_for(store, ["first", "second", "third"])
                standby.stop(signal.SIGQUIT)
                assert looked_up(store) == ["first", "second", "third"]
                store.submit([Draft(id="fourth", task="t")])
                assert "fourth" in looked_up(store)


def test_a_standby_that_has_not_received_the_store_yet_is_not_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with own_server() as primary, primary.standby() as standby:
        with psycopg.connect(standby.url, autocommit=True) as db:
            db.execute("SELECT pg_wal_replay_pause()")
        with closing(PostgresStore(f"{primary.url}&replica={quote(standby.url)}")) as store:
            store.submit([Draft(id="first", task="t")])
            assert looked_up(store) == ["first"]
            assert "it has not received the store yet" in caplog.text


def both(primary: Server, standby: Server) -> str:
    """Whichever of them is the primary, as libpq finds out whenever it connects."""
    places = [parse_qs(urlsplit(each.url).query)["host"][0] for each in (primary, standby)]
    return (
        f"postgresql://postgres@/postgres?host={','.join(places)}&target_session_attrs=read-write"
    )


def test_after_a_failover_the_standby_that_was_promoted_is_written_to() -> None:
    """Its connections led to the other server; leases go on, and no token is granted again."""
    with (
        own_server() as primary,
        primary.standby() as standby,
        closing(PostgresStore(both(primary, standby))) as store,
    ):
        store.submit([Draft(id=f"job-{n}", task="t") for n in range(2)])
        (held,) = store.exchange(request=LeaseRequest(worker="w", limit=1)).leases
        # A primary that stops in order waits until the standby has everything.
        primary.stop(signal.SIGINT)
        with pytest.raises(StoreUnavailableError):
            store.submit([Draft(id="meanwhile", task="t")])
        with psycopg.connect(standby.url, autocommit=True) as db:
            assert db.execute("SELECT pg_promote()").fetchone() == (True,)
        store.submit([Draft(id="job-2", task="t")])
        (settled,) = store.exchange([Settlement(held.job_id, held.version, Complete())]).settled
        assert not isinstance(settled, Exception)
        leases = store.exchange(request=LeaseRequest(worker="w", limit=9)).leases
        assert {each.job_id for each in leases} == {"job-1", "job-2"}
        assert min(each.version for each in leases) > held.version
        assert store.check() == []


def test_a_server_that_takes_no_writes_any_more_is_left(schemas: Schemas) -> None:
    """A primary that has become a standby would refuse each write on a connection that lasts."""
    url = schemas.lend()
    with closing(PostgresStore(url)) as store:
        with store._database._lending.connection() as db:
            db.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        with pytest.raises(StoreUnavailableError, match="takes no writes for now") as caught:
            store.submit([Draft(id="job", task="t")])
        assert caught.value.is_transient
        assert store.submit([Draft(id="job", task="t")])
    schemas.take_back(url)


def test_a_store_that_cannot_be_made_on_a_standby_is_away() -> None:
    with (
        own_server() as primary,
        primary.standby() as standby,
        pytest.raises(StoreUnavailableError, match="it is a standby"),
    ):
        PostgresStore(standby.url)


def test_a_schema_that_is_not_there_is_no_replica(schemas: Schemas) -> None:
    url = schemas.lend()
    other = quote(f"{schemas.url}&schema=not_there")
    with (
        closing(PostgresStore(f"{url}&replica={other}")) as store,
        pytest.raises(UnsupportedError, match="not a replica of this store"),
    ):
        store.looking().stats()
    schemas.take_back(url)
