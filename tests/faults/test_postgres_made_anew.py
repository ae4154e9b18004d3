"""A schema that is dropped and made anew under a live process is another store: the numbers of
lanes, jobs and leases that the process remembers mean others there, so that it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Status
from leasehold.errors import StoreLostError
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402

Stores = tuple[PostgresStore, Lease, PostgresStore]

REQUEST = LeaseRequest(worker="w", limit=1)
WRITES: dict[str, Callable[[PostgresStore, Lease], object]] = {
    "submit": lambda store, _: store.submit([Draft(id="lost", task="t")]),
    "exchange": lambda store, _: store.exchange((), REQUEST),
    "settle": lambda store, lease: store.exchange(
        [Settlement(lease.job_id, lease.version, Complete(b"1"))]
    ),
    "renew": lambda store, lease: store.renew("w", [Renewal(lease.job_id, lease.version, 60.0)]),
    "cancel": lambda store, lease: store.cancel([lease.job_id], reason="", actor="test"),
    "recover": lambda store, _: store.recover(),
}


@pytest.fixture
def stores(schemas: Schemas) -> Iterator[Stores]:
    """A store of before, one of its leases, and the store of others in its place."""
    schema = f"anew_{os.getpid()}"
    url = f"{schemas.url}{'&' if '?' in schemas.url else '?'}schema={schema}"
    try:
        with closing(PostgresStore(url)) as before:
            # Statements that were sent often are prepared, and lanes that were used remembered.
            for number in range(8):
                before.submit([Draft(id=f"job-{number}", task="t")])
                [old] = before.exchange((), REQUEST).leases
            with psycopg.connect(schemas.url, autocommit=True) as db:
                db.execute(f"DROP SCHEMA {schema} CASCADE".encode())
            with closing(PostgresStore(url)) as after:
                after.submit([Draft(id=f"other-{n}", task="other", queue="q") for n in range(8)])
                yield before, old, after
    finally:
        with psycopg.connect(schemas.url, autocommit=True) as db:
            db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@pytest.mark.parametrize("verb", WRITES)
def test_a_schema_that_was_dropped_is_a_lost_store(schemas: Schemas, verb: str) -> None:
    schema = f"dropped_{os.getpid()}"
    url = f"{schemas.url}{'&' if '?' in schemas.url else '?'}schema={schema}"
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="job", task="t")])
        [lease] = store.exchange((), REQUEST).leases
        with psycopg.connect(schemas.url, autocommit=True) as db:
            db.execute(f"DROP SCHEMA {schema} CASCADE".encode())
        with pytest.raises(StoreLostError, match="restart the process"):
            WRITES[verb](store, lease)
        with pytest.raises(StoreLostError, match="restart the process"):
            store.now()


@pytest.mark.parametrize("verb", WRITES)
def test_every_write_is_refused_and_changes_nothing(stores: Stores, verb: str) -> None:
    before, old, after = stores
    # The same numbers as the old ones.
    held = after.exchange((), LeaseRequest(worker="w", queues=("q",), limit=8)).leases
    assert old.version in {lease.version for lease in held}
    for _ in range(2):
        with pytest.raises(StoreLostError, match="is not the store that this process has opened"):
            WRITES[verb](before, old)
    assert after.get("lost") is None
    for lease in held:
        job = after.get(lease.job_id)
        assert job is not None
        assert job.status is Status.RUNNING
    assert after.check() == []
