"""Schemas of another version or program, and many processes that bring one up to date."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from leasehold import StoreError, StoreVersionError
from leasehold.core.model.job import Draft
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.schema import migrate  # noqa: E402

KNOWN = migrate.migrations()
NUMBERS = [(number,) for number, _ in KNOWN]
NEXT = KNOWN[-1][0] + 1
APPLIED = "SELECT number FROM {}.migration ORDER BY number"


class Place:
    """A schema of its own."""

    def __init__(self, server: str, name: str) -> None:
        self.name = name
        self.server = server
        self.url = f"{server}{'&' if '?' in server else '?'}schema={name}"

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server, autocommit=True) as db:
            answer = db.execute(statement.format(self.name).encode())
            return answer.fetchall() if answer.description else []


@pytest.fixture
def place(schemas: Schemas) -> Iterator[Place]:
    made = Place(schemas.url, "of_versions")
    yield made
    made.execute("DROP SCHEMA IF EXISTS {} CASCADE")


def test_a_store_of_a_newer_version_is_refused_with_what_to_do(place: Place) -> None:
    with closing(PostgresStore(place.url)) as store:
        store.submit([Draft(id="job", task="work")])
    place.execute("INSERT INTO {}.migration VALUES (9999, now())")
    with pytest.raises(StoreVersionError, match=r"newer Leasehold \(schema 9999.*upgrade"):
        PostgresStore(place.url)
    place.execute("DELETE FROM {}.migration WHERE number = 9999")
    with closing(PostgresStore(place.url)) as store:
        assert store.get("job") is not None


def test_a_schema_of_another_program_is_left_alone(place: Place) -> None:
    place.execute("CREATE SCHEMA {}")
    place.execute("CREATE TABLE {}.orders (n integer)")
    with pytest.raises(StoreVersionError, match="name another one with"):
        PostgresStore(place.url)
    tables = place.execute("SELECT relname FROM pg_class WHERE relnamespace = '{}'::regnamespace")
    assert tables == [("orders",)]


def test_of_many_processes_one_brings_a_store_up_to_date(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in use meanwhile, and nothing in it is lost."""
    with closing(PostgresStore(place.url)) as old:
        old.submit([Draft(id="before", task="work")])
        next_one = (NEXT, "ALTER TABLE job ADD COLUMN later integer; SELECT pg_sleep(0.2)")
        monkeypatch.setattr(migrate, "migrations", lambda: [*KNOWN, next_one])
        with ThreadPoolExecutor(4) as pool, ExitStack() as opened:
            stores = list(pool.map(PostgresStore, [place.url] * 4))
            for each in stores:
                opened.enter_context(closing(each))
            assert place.execute(APPLIED) == [*NUMBERS, (NEXT,)]
            assert all(each.get("before") is not None for each in stores)
            assert old.get("before") is not None


def test_a_migration_that_fails_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresStore(place.url)):
        pass
    broken = (NEXT, "ALTER TABLE job ADD COLUMN later integer; SELECT 1 / 0")
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda: [*KNOWN, broken])
        with pytest.raises(StoreError, match="division by zero"):
            PostgresStore(place.url)
    assert place.execute(APPLIED) == NUMBERS
    with closing(PostgresStore(place.url)) as store:
        store.submit([Draft(id="job", task="work")])
        assert store.check() == []
