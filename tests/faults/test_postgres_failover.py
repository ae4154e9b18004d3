"""A PostgreSQL server that comes back as it was some time ago; roles and pools that are small."""

from __future__ import annotations

import signal
from contextlib import closing

import pytest

from leasehold import LeaseLostError, StoreBusyError
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from support.servers import Schemas, needs_psycopg, own_server

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402

pytestmark = pytest.mark.faults

ROLE = "leasehold_app"


def lease(store: PostgresStore) -> Lease:
    (leased,) = store.exchange(request=LeaseRequest(worker="w", limit=1)).leases
    return leased


def test_a_restored_server_repeats_no_token_and_misleads_nobody() -> None:
    """A process that has the store open goes on, and what it remembers may be lost."""
    with (
        own_server(durable=True) as server,
        closing(PostgresStore(f"{server.url}&schema=jobs")) as store,
    ):
        store.submit([Draft(id=f"job-{n}", task="work") for n in range(3)])
        kept = lease(store)
        server.back_up()
        lost = [lease(store), lease(store)]
        # The next one that makes a lane is given the number of this one.
        store.submit([Draft(id="lost", task="lost")])
        store.create_queue("limited", QueueConfig(max_concurrency=1), actor="test")
        server.stop(signal.SIGQUIT)
        server.restore()
        server.start()
        again = [lease(store), lease(store)]
        assert {each.job_id for each in again} == {each.job_id for each in lost}
        assert min(each.version for each in again) > max(each.version for each in lost)
        (stale,) = store.exchange([Settlement(lost[0].job_id, lost[0].version, Complete())]).settled
        assert isinstance(stale, LeaseLostError)
        store.exchange([Settlement(kept.job_id, kept.version, Complete())])
        store.submit([Draft(id="new", task="new")])
        store.submit([Draft(id="late", task="lost")])
        found = {each: job.task for each in ("new", "late") if (job := store.get(each))}
        assert found == {"new": "new", "late": "lost"}
        assert store.queue_info("limited") is None
        assert store.check() == []


def test_a_restored_dump_repeats_no_token_and_takes_its_leases_back() -> None:
    """The server goes on all the while, so only its tables tell that they were made anew."""
    with own_server() as server, closing(PostgresStore(f"{server.url}&schema=jobs")) as store:
        store.submit([Draft(id=f"job-{n}", task="work") for n in range(2)])
        held = lease(store)
        server.dump("jobs")
        store.recover_one(
            held.job_id, held.version, reset_attempts=False, reason="stuck", actor="test"
        )
        lost = [lease(store), lease(store)]
        server.restore_dump("jobs")
        (stale,) = store.exchange([Settlement(held.job_id, held.version, Complete())]).settled
        assert isinstance(stale, LeaseLostError)
        job = store.get(held.job_id)
        assert job is not None
        assert job.error is not None
        assert "restored from a copy in which worker w held the job" in job.error.message
        again = [lease(store), lease(store)]
        assert min(each.version for each in again) > max(each.version for each in lost)
        assert store.check() == []


def test_a_role_without_privileges_will_do(schemas: Schemas) -> None:
    mine = f"{schemas.lend()}_role"
    own = mine.replace("postgres@", f"{ROLE}@")
    with psycopg.connect(mine.partition("&schema")[0], autocommit=True) as db:
        db.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
        db.execute(f"GRANT CREATE ON DATABASE postgres TO {ROLE}".encode())
        try:
            with closing(PostgresStore(own)) as store:
                store.submit([Draft(id="job", task="work")])
                held = lease(store)
                store.recover()
                store.exchange([Settlement("job", held.version, Complete())])
                assert store.describe()["size_bytes"] > 0
                assert store.prune(actor="test") is not None
                assert store.check() == []
        finally:
            db.execute(f"DROP OWNED BY {ROLE} CASCADE".encode())
            db.execute(f"DROP ROLE {ROLE}".encode())


def test_a_pool_that_is_exhausted_says_so(url: str) -> None:
    with closing(PostgresStore(f"{url}&pool_size=1&pool_timeout_seconds=0.2")) as store:
        with store._database.read(), pytest.raises(StoreBusyError, match="raise pool_size"):
            store.submit([Draft(id="job", task="work")])
        assert store.submit([Draft(id="job", task="work")])
