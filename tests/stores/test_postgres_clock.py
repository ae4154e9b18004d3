"""The clock of a PostgreSQL store, when its server's is set back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.span import DAY_MICROS
from leasehold.env import Env, ManualClock, to_micros
from support.servers import Schemas, needs_psycopg

needs_psycopg()

from leasehold.stores.postgres import PostgresStore  # noqa: E402

HOUR = 3600
FORCE = Scope(force=True)
AT_ONCE = RetentionPolicy(cancelled_seconds=0, archive_seconds=None, worth_cleaning=0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(schemas: Schemas, clock: ManualClock) -> Iterator[PostgresStore]:
    url = schemas.lend()
    with closing(PostgresStore(url, env=Env(clock))) as store:
        yield store
    schemas.take_back(url)


def submit(store: PostgresStore, *names: str) -> None:
    for name in names:
        store.submit([Draft(id=name, task="work")])


def clean(store: PostgresStore) -> None:
    """Archive every job that has ended."""
    report = store.prune(AT_ONCE, scope=FORCE, actor="me")
    while report.more:
        report = store.prune(AT_ONCE, scope=FORCE, run=report.run, actor="me")


def test_time_goes_on_where_plain_submits_are_the_only_writes(
    store: PostgresStore, clock: ManualClock
) -> None:
    submit(store, "first", "second")
    clock.step_wall_clock(-HOUR)
    submit(store, "third")
    before = store.now()
    clock.advance(60)
    submit(store, "fourth")
    assert (store.now() - before).total_seconds() == 30
    clock.advance(2 * HOUR)
    submit(store, "fifth")
    assert store.now() == clock.now()
    assert store.check() == []


def test_a_clock_that_is_set_back_again_goes_on_from_there(
    store: PostgresStore, clock: ManualClock
) -> None:
    submit(store, "first")
    for number in range(3):
        clock.step_wall_clock(-HOUR)
        store.promote()
        before = store.now()
        clock.advance(60)
        store.promote()
        assert (store.now() - before).total_seconds() == 30, number


def test_a_repair_takes_the_archive_and_its_days_along(
    store: PostgresStore, clock: ManualClock
) -> None:
    submit(store, "archived today")
    store.cancel(["archived today"], reason="", actor="me")
    clean(store)
    submit(store, "archived in a year")
    clock.step_wall_clock(365 * 24 * HOUR)
    store.cancel(["archived in a year"], reason="", actor="me")
    clean(store)
    clock.step_wall_clock(-365 * 24 * HOUR)
    assert store.repair_clock(actor="me").changed["archive"] > 0
    assert store.now() == clock.now()
    with store._database.read() as db:
        days = {day for (day,) in db.execute("SELECT day FROM archive")}
    assert days == {to_micros(clock.now()) // DAY_MICROS}
    assert store.check() == []
