"""A server, or the way to it, that falls silent on open connections: nobody waits without end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.errors import StoreUnavailableError
from support.relay import Relay, relay
from support.servers import Schemas, needs_psycopg

needs_psycopg()

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server import connection  # noqa: E402

pytestmark = pytest.mark.faults

TIMEOUTS = "&statement_timeout_seconds=1&lock_timeout_seconds=0.5&connect_timeout=2"


@pytest.fixture
def way(schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Relay]]:
    """The URL of a store behind a relay."""
    lent = schemas.lend()
    (server,) = parse_qs(urlsplit(lent).query).get("host", [""])
    if not server:
        pytest.skip("the relay of the tests is for a server on a local socket")
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.5)
    # A socket's path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="leasehold-relay-") as folder,
        relay(Path(folder), server) as carrying,
    ):
        yield lent.replace(server, folder).replace(quote(server), folder) + TIMEOUTS, carrying
    schemas.take_back(lent)


def test_a_server_that_falls_silent_is_away(way: tuple[str, Relay]) -> None:
    url, relay = way
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="before", task="t")])
        relay.silence(new=True)
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            store.submit([Draft(id="lost", task="t")])


def test_connections_that_fell_silent_are_not_used_again(way: tuple[str, Relay]) -> None:
    """As behind a router that has forgotten them: new ones work, and the write is done again."""
    url, relay = way
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="before", task="t")])
        relay.silence(new=False)
        store.submit([Draft(id="job", task="t")])
        relay.silence(new=False)
        with pytest.raises(StoreUnavailableError, match="no answer for 2 s"):
            store.get("job")
        assert store.count(JobFilter()).jobs == 2
        assert store.check() == []


@pytest.mark.parametrize("jobs", [1, 2], ids=["in one piece", "after a look"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_silence_at_commit_is_resolved_by_looking_up(
    way: tuple[str, Relay], when: str, jobs: int
) -> None:
    """What the server has not heard of by then it will not carry out: it is done again."""
    url, relay = way
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="before", task="t")])
        relay.silent_at_commit = when
        store.submit([Draft(id=f"job-{n}", task="t") for n in range(jobs)])
        assert relay.silent_at_commit is None
        assert store.count(JobFilter()).jobs == 1 + jobs
        assert store.stats().submitted == 1 + jobs
        assert store.check() == []


def test_a_task_whose_transaction_cannot_be_committed_is_told(way: tuple[str, Relay]) -> None:
    url, relay = way
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="job", task="t")])
        (lease,) = store.exchange(request=LeaseRequest(worker="w", limit=1)).leases
        held = store.open_transaction(lease.job_id, lease.version)
        relay.silence(new=False)
        with pytest.raises(StoreUnavailableError, match="no answer for 2 s"):
            held.complete(Settlement(lease.job_id, lease.version, Complete()))
        held.roll_back()
