"""`replica=` with a real standby: one that lags, one that hangs, one that is gone."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from urllib.parse import quote

import pytest

from leasehold import UnsupportedError
from leasehold.core.model.job import Draft
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock
from support.servers import Schemas, needs_psycopg, own_server

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


def test_a_schema_that_is_not_there_is_no_replica(schemas: Schemas) -> None:
    url = schemas.lend()
    other = quote(f"{schemas.url}&schema=not_there")
    with (
        closing(PostgresStore(f"{url}&replica={other}")) as store,
        pytest.raises(UnsupportedError, match="not a replica of this store"),
    ):
        store.looking().stats()
    schemas.take_back(url)
