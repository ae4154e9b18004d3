"""URLs of PostgreSQL stores: what works as it is written, and what is refused, without a secret."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.errors import UnsupportedError
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402
from psycopg.conninfo import conninfo_to_dict  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server.address import parse  # noqa: E402
from leasehold.testing.conformance.waking import Ears  # noqa: E402

ENCODE = "are encoded"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        # What has to be encoded in a password, each in the place of a letter of it.
        ("postgresql://me:se#cret@db/jobs", ENCODE),
        ("postgresql://me:se/cret@db/jobs", ENCODE),
        ("postgresql://me:12/cret@db/jobs", ENCODE),
        ("postgresql://me:se?cret@db/jobs", ENCODE),
        ("postgresql://me:12?cret@db/jobs", ENCODE),
        ("postgresql://me:12?cre=t@db/jobs", "unknown parameter"),
        ("postgresql://me:se%zcret@db/jobs", ENCODE),
        ("postgresql://me:se@cret@db/jobs", ENCODE),
        ("postgresql://me:se[cret@db/jobs", ENCODE),
        ("postgresql://me:se\u2100cret@db/jobs", ENCODE),
        ("postgresql://me:secret@db:port/jobs", ENCODE),
        ("postgresql://me:secret@[::1/jobs", ENCODE),
        ("postgresql://me:secret@db/jobs?replica=postgresql://me:se#cret@copy/jobs", ENCODE),
        ("postgresql://me:secret@db/jobs?replica=postgresql://me:se%2523@cret@copy/x", "replica="),
        ("postgresql://me:secret@db/jobs?pool_sise=3", "did you mean 'pool_size'"),
        ("postgresql://me:secret@db/jobs?lock_timeout=3", "did you mean 'lock_timeout_seconds'"),
        ("postgresql://me:secret@db/jobs?sslmod=require", "did you mean 'sslmode'"),
        ("postgresql://me:secret@db/jobs?durability=full", "unknown parameter 'durability'"),
        ("postgresql://me:secret@db/jobs?pool_size=2.5", "a whole number from 1 to 1000"),
        ("postgresql://me:secret@db/jobs?pool_size=", "a whole number"),
        ("postgresql://me:secret@db/jobs?pool_size=nan", "a whole number"),
        ("postgresql://me:secret@db/jobs?away_seconds=nan", "a number from 0.5 to 3600"),
        ("postgresql://me:secret@db/jobs?schema=pg_jobs", "does not begin with"),
        ("postgresql://me:secret@db/jobs?schema=" + "s" * 54, "at most 53"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_no_part_of_a_password_shown(
    url: str, why: str
) -> None:
    with pytest.raises(UnsupportedError, match=why) as caught:
        parse(url)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("options=-c%20jit%3Doff%20-c%20work_mem%3D9MB", {"options": "-c jit=off -c work_mem=9MB"}),
        ("application_name=a+b", {"application_name": "a+b"}),
        ("application_name=a%2Bb", {"application_name": "a+b"}),
        ("ssl=true", {"sslmode": "require"}),
        ("host=/a,/b&connect_timeout=3", {"host": "/a,/b", "connect_timeout": "3"}),
    ],
)
def test_parameters_of_libpq_reach_it_as_they_are_written(
    written: str, meant: dict[str, str]
) -> None:
    place = "postgresql://me:p%23%25%40%2F%3F@one:5432,[::1]:5433,three/jobs"
    found = conninfo_to_dict(parse(f"{place}?pool_size=3&{written}&schema=tests&").conninfo)
    expected = {"user": "me", "password": "p#%@/?", "dbname": "jobs", "port": "5432,5433,"}
    assert found == {"host": "one,::1,three", **expected, **meant}


def test_options_count_on_each_connection(url: str) -> None:
    options = "options=-c%20synchronous_commit%3Dlocal%20-c%20work_mem%3D9MB"
    shown = "SELECT current_setting('synchronous_commit'), current_setting('work_mem')"
    with closing(PostgresStore(f"{url}&{options}")) as store:
        with store._database.read() as db:
            assert db.execute(shown).fetchone() == ("local", "9MB")
        own: Any = store.connect()
        with closing(own):
            assert own.execute(shown).fetchone() == ("local", "9MB")


@pytest.mark.parametrize("name", ["user", "current_schema", "s" * 53])
def test_a_schema_may_have_any_name(schemas: Schemas, name: str) -> None:
    """Also one that is a word of SQL, or as long as names may be."""
    place = schemas.url
    url = f"{place}{'&' if '?' in place else '?'}schema={name}"
    try:
        with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as other:
            ears = Ears(other)
            other.subscribe(ears)
            with psycopg.connect(place) as own:
                store.submit_within(own, [Draft(id="job", task="work")])
            assert ears.wait_for(lambda: ears.ready > 0)
            (lease,) = store.exchange(request=LeaseRequest(worker="w", limit=5)).leases
            held = store.open_transaction("job", lease.version)
            held.complete(Settlement("job", lease.version, Complete()))
            assert ears.wait_for(lambda: ears.unknown)
            store.changes()
            store.prune(actor="me")
            assert store.check() == []
    finally:
        with psycopg.connect(place, autocommit=True) as db:
            db.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())
