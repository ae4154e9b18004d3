"""Whatever isolation applications and servers ask for, writes go by what is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from leasehold import StoreBusyError, TransactionError
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.seals import Seal
from leasehold.core.model.status import Status
from support.servers import needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402
from psycopg import IsolationLevel  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server.connection import SqlConnection  # noqa: E402

LEVELS = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
STRICT = "&options=-cdefault_transaction_isolation%3Dserializable"
SHOWN = "SHOW transaction_isolation"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store


@pytest.fixture(params=LEVELS, ids=lambda level: level.name.lower())
def own(url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The connection of an application that wants to see one moment in each transaction."""
    with psycopg.connect(url.partition("&schema")[0]) as own:
        own.isolation_level = request.param
        yield own


def draft(job_id: str, **options: Any) -> Draft:
    return Draft(id=job_id, task="work", **options)


def begin(own: Any) -> None:
    """From here on it sees this moment. (No snapshot is taken for what reads no rows.)"""
    own.execute("SELECT count(*) FROM pg_class").fetchone()


def lease_first(store: PostgresStore) -> Lease:
    """There is a job that runs, and another one in a queue of its own."""
    store.submit([draft("first"), draft("in", queue="full")])
    (lease,) = store.exchange(request=LeaseRequest(worker="w", limit=1)).leases
    return lease


def end_first(store: PostgresStore, lease: Lease) -> None:
    """As worker processes do it, side by side with all others."""
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])


def limit_queue(store: PostgresStore, _: Lease) -> None:
    store.create_queue("full", QueueConfig(max_depth=1), actor="me")


def use_key(store: PostgresStore, _: Lease) -> None:
    store.submit([draft("other", idempotency_key="key")])


def move_away(store: PostgresStore, _: Lease) -> None:
    seal = Seal(move="m", other="elsewhere", is_target=False, run="r")
    store.row_store().change_seal(None, seal)


def come_in(store: PostgresStore, _: Lease) -> None:
    store.submit([draft("late")])


@pytest.mark.parametrize(
    ("meanwhile", "asked"),
    [
        (end_first, draft("job", depends_on=("first",))),
        (limit_queue, draft("job", queue="full")),
        (use_key, draft("job", idempotency_key="key")),
        (move_away, draft("job")),
        (come_in, draft("job", depends_on=("late",))),
    ],
    ids=["dependency ended", "limited", "key used", "moved", "dependency came"],
)
def test_a_transaction_that_sees_the_past_is_told_to_begin_anew(
    store: PostgresStore, own: Any, meanwhile: Callable[[PostgresStore, Lease], None], asked: Draft
) -> None:
    lease = lease_first(store)
    begin(own)
    meanwhile(store, lease)
    with pytest.raises(StoreBusyError, match="repeat the whole transaction"):
        store.submit_within(own, [asked])
    # It is still of use for what else the application wants.
    assert own.execute("SELECT 1").fetchone() == (1,)
    own.commit()
    assert store.get("job") is None
    assert store.check() == []


def test_repeated_it_goes_by_what_is_there(store: PostgresStore, own: Any) -> None:
    lease = lease_first(store)
    begin(own)
    end_first(store, lease)
    with pytest.raises(StoreBusyError):
        store.submit_within(own, [draft("job", depends_on=("first",))])
    own.rollback()
    store.submit_within(own, [draft("job", depends_on=("first",))])
    own.commit()
    found = store.get("job")
    assert found is not None
    assert found.status is Status.PENDING


def test_what_does_not_concern_it_may_have_changed(store: PostgresStore, own: Any) -> None:
    lease = lease_first(store)
    begin(own)
    end_first(store, lease)
    store.submit([draft("other", idempotency_key="other")])
    store.submit_within(own, [draft("job")])
    own.commit()
    assert store.get("job") is not None


def test_what_it_has_submitted_itself_counts(store: PostgresStore, own: Any) -> None:
    store.submit_within(own, [draft("a", idempotency_key="a")])
    store.submit_within(own, [draft("b", depends_on=("a",), idempotency_key="b")])
    (again,) = store.submit_within(own, [draft("a", idempotency_key="a")])
    assert not isinstance(again, Exception)
    assert again.is_duplicate
    own.commit()
    found = store.get("b")
    assert found is not None
    assert found.status is Status.BLOCKED
    assert store.check() == []


def test_a_transaction_that_may_not_write_is_refused(store: PostgresStore, own: Any) -> None:
    own.read_only = True
    with pytest.raises(TransactionError, match="read-only"):
        store.submit_within(own, [draft("job")])
    assert own.execute("SELECT 1").fetchone() == (1,)


def test_the_stores_own_writes_see_the_last_commits(url: str) -> None:
    """Also where the server, the database or the role would have it otherwise."""
    with closing(PostgresStore(url + STRICT)) as store, store._database._lending.connection() as db:
        assert db.raw.execute(b"SHOW default_transaction_isolation").fetchone() == ("serializable",)
        assert isolation_within(db) == ["read committed"] * 2


def isolation_within(db: SqlConnection) -> list[str]:
    """Of both ways in which the store begins a transaction."""
    db.begin()
    first: Any = db.execute(SHOWN).fetchone()
    db.execute("ROLLBACK")
    with db.transaction():
        second: Any = db.execute(SHOWN).fetchone()
    return [first[0], second[0]]


def test_a_lease_may_be_renewed_during_the_transaction_of_its_task(url: str) -> None:
    with closing(PostgresStore(url + STRICT)) as store:
        store.submit([draft("job")])
        (lease,) = store.exchange(request=LeaseRequest(worker="w", lease_seconds=60)).leases
        held = store.open_transaction("job", lease.version)
        store.renew("w", [Renewal("job", lease.version, 60)])
        held.complete(Settlement("job", lease.version, Complete()))
        assert store.stats().counts[Status.COMPLETED] == 1
