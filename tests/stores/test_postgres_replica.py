"""`replica=`: what only looks is read from there, and nothing that anybody decides by."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from leasehold import JobNotFoundError, StoreUnavailableError, TaskQueue, UnsupportedError
from leasehold.core.contract.looking import looking
from leasehold.core.model.job import Draft
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore
from leasehold.stores.tables.closed_spans import ClosedSpans
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server import replica as replicas  # noqa: E402


@pytest.fixture
def urls(schemas: Schemas) -> Iterator[tuple[str, str]]:
    """A store, and one that takes itself for it: as a replica that lags behind, and only reads."""
    primary, other = schemas.lend(), schemas.lend()
    with (
        closing(PostgresStore(primary)) as store,
        closing(PostgresStore(other)) as copy,
        copy._database.alone() as db,
    ):
        db.execute("UPDATE store_state SET store_id = $1", (store._database.store_id,))
    with closing(PostgresStore(other)) as copy:
        copy.submit([Draft(id="old", task="t")])
    read_only = quote("-cdefault_transaction_read_only=on")
    yield f"{primary}&replica={quote(f'{other}&options={read_only}')}", other
    schemas.take_back(primary)
    schemas.take_back(other)


def test_looking_shows_the_replica_and_deciding_the_primary(urls: tuple[str, str]) -> None:
    with TaskQueue(urls[0], num_workers=0) as queue:
        queue.submit("t", job_id="new")
        assert [job.id for job in queue.search()] == ["old"]
        assert [job.id for job in queue.search_page().jobs] == ["old"]
        assert (queue.count().jobs, queue.metrics().submitted) == (1, 1)
        assert queue.history("new") == []
        queue.audit_log(), queue.series(), queue.daily(), queue.failures(), queue.worker_totals()
        assert list(queue.archive.search()) == []
        # Whoever waits, leases, orders or cleans up sees what is so.
        with pytest.raises(JobNotFoundError):
            queue.get("old")
        assert queue.get("new").id == "new"
        with pytest.raises(JobNotFoundError):
            queue.cancel("old")
        lease = queue.lease(wait=0)
        assert lease is not None
        assert lease.job_id == "new"
        queue.ack(lease)
        assert [job.id for job in queue.store.search(JobFilter(), limit=9).jobs] == ["new"]


def test_a_forked_child_has_connections_of_its_own_to_the_replica(urls: tuple[str, str]) -> None:
    with closing(PostgresStore(urls[0])) as store:
        replica: Any = store._looking

        def process() -> int:
            with replica.read() as db:
                (pid,) = db.execute("SELECT pg_backend_pid()").fetchone()
                return int(pid)

        parents = process()
        child = os.fork()
        if child == 0:
            try:
                os._exit(process() == parents)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert process() == parents


def test_a_read_that_a_standby_ends_is_done_by_the_primary(urls: tuple[str, str]) -> None:
    """It ends what holds up its changes for long: a day of the archive that is dropped, say."""
    tries: list[str] = []

    def read(db: Any) -> list[str]:
        tries.extend(found := [job_id for (job_id,) in db.execute("SELECT id FROM job")])
        if found == ["old"]:
            raise psycopg.errors.SerializationFailure("conflict with recovery")
        return found

    with closing(PostgresStore(urls[0])) as store:
        store.submit([Draft(id="new", task="t")])
        looking = store.looking()._database
        assert looking.look(read) == ["new"]
        assert tries == ["old", "new"]
        # One that is read as it comes cannot be begun anew here.
        ended = r"the replica has ended this read.*try again"
        with pytest.raises(StoreUnavailableError, match=ended), looking.read() as db:
            read(db)


def test_minutes_that_are_over_are_read_from_a_replica_once_a_minute(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresStore(urls[0], env=Env(clock=ManualClock()))) as store:
        first = store.looking().metrics()
        answers: list[object] = []
        known = ClosedSpans.known

        def noted(closed: ClosedSpans, *asked: Any) -> object:
            answers.append(known(closed, *asked))
            return answers[-1]

        monkeypatch.setattr(ClosedSpans, "known", noted)
        assert store.looking().metrics() == first
        assert answers
        assert None not in answers


def test_a_replica_proves_nobody_dead(urls: tuple[str, str]) -> None:
    with closing(PostgresStore(urls[0])) as store:
        assert store.looking().metrics().submitted == 1
        assert store.looking().lifetimes()
        assert store.dead_workers() == set()


def test_the_primary_answers_for_a_replica_that_is_away(
    schemas: Schemas, caplog: pytest.LogCaptureFixture
) -> None:
    url, clock = schemas.lend(), ManualClock()
    away = quote("postgresql://me@localhost:1/jobs")
    with closing(PostgresStore(f"{url}&replica={away}", env=Env(clock=clock))) as store:
        store.submit([Draft(id="job", task="t")])
        found = [store.looking().search(JobFilter(), limit=9).jobs[0].id for _ in range(3)]
        assert found == ["job"] * 3
        assert caplog.text.count("cannot be reached, and the primary is asked") == 1
        clock.advance(replicas.AGAIN_SECONDS + 1)
        assert store.looking().count(JobFilter()).jobs == 1
        assert caplog.text.count("cannot be reached, and the primary is asked") == 2
    schemas.take_back(url)


def test_what_is_no_replica_is_refused(urls: tuple[str, str], schemas: Schemas) -> None:
    other = schemas.lend()
    with closing(PostgresStore(other)):
        pass
    primary = urls[0].partition("&replica")[0]
    with (
        closing(PostgresStore(f"{primary}&replica={quote(other)}")) as store,
        pytest.raises(UnsupportedError, match="not a replica of this store"),
    ):
        store.looking().stats()
    schemas.take_back(other)
    with pytest.raises(UnsupportedError, match="give the URL of a server"):
        PostgresStore(f"{primary}&replica=standby.example.org")


def test_a_store_without_a_replica_is_asked_itself(schemas: Schemas) -> None:
    memory: Any = MemoryStore(Env())
    assert looking(memory) is memory
    url = schemas.lend()
    with closing(PostgresStore(url)) as store:
        assert looking(store) is store
    schemas.take_back(url)
