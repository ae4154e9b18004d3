"""The PostgreSQL store behind PgBouncer, which lends connections for one transaction each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from leasehold import DuplicateJobError, NewJob, Status, TaskQueue
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.records import WorkerInfo
from leasehold.env import EPOCH, SYSTEM, Env
from leasehold.testing.conformance import MakeStore
from leasehold.testing.conformance.archiving import ArchivingClauses
from leasehold.testing.conformance.expiring import ExpiringClauses
from leasehold.testing.conformance.leasing import LeasingClauses
from leasehold.testing.conformance.transacting import TransactingClauses
from leasehold.testing.conformance.waking import Ears
from support.killing import kill_again_and_again
from support.poolers import pgbouncer
from support.servers import Schemas, needs_psycopg
from support.zygote import zygote

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.clauses import NOT_KEPT  # noqa: E402

PATIENCE_SECONDS = 120
WORKERS = 2
KILLS = 3
JOBS_PER_KILL = 20
WHO = WorkerInfo(
    id="w", host="h", pid=1, queues=("default",), slots=1, started_at=EPOCH, heartbeat_at=EPOCH
)


@pytest.fixture(scope="module")
def server(schemas: Schemas) -> str:
    """The URL of the database itself."""
    lent = schemas.lend()
    PostgresStore(lent).close()
    schemas.take_back(lent)
    return lent.partition("&schema")[0]


@pytest.fixture(scope="module")
def pooler(server: str) -> Iterator[str]:
    """The same, through the pooler."""
    with pgbouncer(server) as url:
        yield url


@pytest.fixture
def direct(schemas: Schemas) -> Iterator[str]:
    lent = schemas.lend()
    with closing(PostgresStore(lent)):
        yield lent
    schemas.take_back(lent)


@pytest.fixture
def url(direct: str, server: str, pooler: str) -> str:
    return direct.replace(server, pooler)


class PooledStore(PostgresStore):
    """One whose schema is used again when it is closed."""

    def __init__(self, schemas: Schemas, server: str, pooler: str, env: Env = SYSTEM) -> None:
        self._schemas = schemas
        self._direct = schemas.lend()
        super().__init__(self._direct.replace(server, pooler), env=env)

    def close(self) -> None:
        super().close()
        self._schemas.take_back(self._direct, "DROP TABLE IF EXISTS public.app_row")


class TestBehindPgBouncer(LeasingClauses, TransactingClauses, ArchivingClauses, ExpiringClauses):
    not_kept = NOT_KEPT
    # Listeners are told to look now and then, whether there is something or not.
    test_txn_2_listeners_hear_of_it_after_the_commit = None  # type: ignore[assignment]

    @pytest.fixture
    def make_store(self, schemas: Schemas, server: str, pooler: str) -> MakeStore:
        return lambda env: PooledStore(schemas, server, pooler, env)


def test_nothing_of_a_store_stays_on_connections_of_the_server(url: str, pooler: str) -> None:
    """The next one that they are lent to finds them as they were."""
    with closing(PostgresStore(url)) as store:
        assert store.describe()["is_pooled"] is True
        store.submit([Draft(id="job", task="work")])
        store.register_worker(WHO).close()
        store.connect().close()
    shown = "SELECT current_setting('search_path'), current_setting('lock_timeout'), "
    shown += "(SELECT count(*) FROM pg_prepared_statements), "
    shown += "(SELECT count(*) FROM pg_listening_channels()), "
    shown += (
        "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"
    )
    others = [psycopg.connect(pooler, prepare_threshold=None) for _ in range(5)]
    for other in others:
        # All at once, so that each is lent another connection.
        assert other.execute(shown.encode()).fetchone() == ('"$user", public', "0", 0, 0, 0)
    for other in others:
        other.close()


def test_listeners_are_told_to_look(url: str) -> None:
    with closing(PostgresStore(url)) as store:
        ears = Ears(store)
        store.subscribe(ears)
        assert ears.wait_for(lambda: ears.ready > 1)


def test_no_death_is_proved_where_no_session_lasts(url: str, direct: str) -> None:
    with closing(PostgresStore(url)) as pooled, closing(PostgresStore(direct)) as other:
        life = pooled.register_worker(WHO)
        assert life.lock_fd is None
        pooled.submit([Draft(id="job", task="work")])
        assert pooled.exchange(request=LeaseRequest(worker="w", lease_seconds=3600)).leases
        database = other._database
        with database.read() as db:
            assert database.deaths.free(db) == set()
        life.close()


def test_every_job_runs_although_workers_are_killed(url: str, tmp_path: Path) -> None:
    """Leases run out, and whoever listens looks now and then: nobody tells."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    acknowledged: list[str] = []
    with TaskQueue(url, num_workers=0) as queue, zygote("support.noting_worker") as processes:
        queue.store.set_setting("sweep_interval", 0.5, actor="test")

        def start() -> int:
            return processes.spawn("support.noting_worker:work", url, str(ledger))

        def feed() -> None:
            named = [f"job-{len(acknowledged) + n}" for n in range(JOBS_PER_KILL)]
            queue.submit_many(
                [NewJob("note", job_id=each, max_retries=50, lease_seconds=2) for each in named]
            )
            acknowledged.extend(named)
            queue.wait(named[JOBS_PER_KILL // 2], PATIENCE_SECONDS)

        starts = [start] * WORKERS
        kill_again_and_again(processes, starts, Random(91), kills=KILLS, pause=feed)
        for job_id in acknowledged:
            assert queue.wait(job_id, PATIENCE_SECONDS).status is Status.COMPLETED
        processes.kill_all()
        runs = [tuple(line.split()[:2]) for line in ledger.read_text().splitlines()]
        assert {job_id for job_id, _ in runs} == set(acknowledged)
        assert set(Counter(runs).values()) == {1}, "a fencing token ran twice"
        assert queue.check() == []


def test_an_id_that_is_taken_is_refused_as_on_a_direct_connection(url: str) -> None:
    with TaskQueue(url, num_workers=0) as queue:
        queue.submit("t", job_id="a")
        with pytest.raises(DuplicateJobError):
            queue.submit("t", job_id="a")
        with pytest.raises(DuplicateJobError):
            queue.submit_many([NewJob("t", job_id="b"), NewJob("t", job_id="a")])
        assert [job.id for job in queue.search()] == ["a"]
