"""The archive of the PostgreSQL store: a partition for each day, made in time, dropped whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from leasehold.core.model.archive import ArchiveSpan
from leasehold.core.model.job import Draft
from leasehold.core.model.retention import PruneReport, RetentionPolicy, Scope, day_number
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreError, StoreUnavailableError
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import under_fire
from support.servers import needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.keeping import days  # noqa: E402
from leasehold.stores.postgres.server.connection import SqlConnection  # noqa: E402
from support import day_children  # noqa: E402

DAY = 86400.0
FORCE = Scope(force=True)
KEEP_TWO = RetentionPolicy(cancelled_seconds=0, archive_seconds=2 * DAY, worth_cleaning=0)
PROCESSES = 3
KILLS = drawn(60)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(url: str, clock: ManualClock) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, env=Env(clock=clock))) as made:
        yield made


@pytest.fixture
def db(url: str) -> Iterator[psycopg.Connection]:
    """Somebody else, in the store's schema."""
    with someone(url) as made:
        yield made


@contextmanager
def someone(url: str, **more: Any) -> Iterator[psycopg.Connection]:
    server, _, schema = url.rpartition("schema=")
    options = f"-csearch_path={schema}"
    where = server.rstrip("?&")
    with psycopg.connect(where, autocommit=True, options=options, **more) as made:
        yield made


def clean(store: PostgresStore, policy: RetentionPolicy = KEEP_TWO) -> list[PruneReport]:
    """A whole clean-up."""
    reports = [store.prune(policy, scope=FORCE, actor="me")]
    while reports[-1].more:
        reports.append(store.prune(policy, scope=FORCE, run=reports[0].run, actor="me"))
    return reports


def archive(store: PostgresStore, *names: str) -> list[PruneReport]:
    """Let jobs end, and clean up."""
    store.submit([Draft(id=name, task="t") for name in names])
    store.cancel(names, reason="", actor="me")
    return clean(store)


def archived(store: PostgresStore, span: ArchiveSpan = ArchiveSpan()) -> list[str]:  # noqa: B008
    return [job.id for job in store.search_archive(JobFilter(), span=span, limit=1000).jobs]


def partitions(db: psycopg.Connection) -> list[str]:
    return sorted(name for (name,) in db.execute(days.PARTITIONS.encode()))


def dropped(store: PostgresStore) -> int:
    """By the latest clean-up, as its record has it."""
    return store.cleanups(1)[0].archive_dropped


def test_each_day_is_a_partition_and_dropped_as_a_whole(
    store: PostgresStore, clock: ManualClock, db: psycopg.Connection
) -> None:
    # A row that is deleted leaves a dead one behind.
    db.execute(b"""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'a row of the archive was deleted'; END $$
    """)
    db.execute(b"""
        CREATE TRIGGER refuse BEFORE DELETE ON archive FOR EACH ROW EXECUTE FUNCTION refuse()
    """)
    first = clock.now().date()
    for number in range(5):
        archive(store, f"{number}-a", f"{number}-b")
        clock.advance(DAY)
    wanted = [days.partition(day_number(first) + number) for number in range(2, 5)]
    assert partitions(db) == wanted
    assert archived(store) == [f"{n}-{letter}" for n in (4, 3, 2) for letter in "ba"]
    assert [each.archive_dropped for each in store.cleanups()] == [2, 2, 0, 0, 0]
    assert [store.archived(each) is None for each in ("1-b", "2-a")] == [True, False]
    assert store.check() == []


def test_many_days_are_dropped_by_one_clean_up(
    store: PostgresStore,
    clock: ManualClock,
    db: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(days, "OLD", days.OLD.replace(str(days.DAYS_AT_ONCE), "2"))
    keep = RetentionPolicy(cancelled_seconds=0, archive_seconds=None, worth_cleaning=0)
    for number in range(5):
        store.submit([Draft(id=f"{number}", task="t")])
        store.cancel([f"{number}"], reason="", actor="me")
        clean(store, keep)
        clock.advance(DAY)
    clock.advance(9 * DAY)
    assert [each.archive_dropped for each in clean(store) if each.archive_dropped] == [2, 2, 1]
    assert (partitions(db), archived(store), store.check()) == ([], [], [])


def test_whoever_reads_the_archive_keeps_nobody_from_archiving(
    store: PostgresStore, db: psycopg.Connection
) -> None:
    """Another partition is attached while the archive is read and written."""
    db.execute(b"BEGIN")
    db.execute(b"SELECT count(*) FROM archive")
    db.execute(b"SET LOCAL lock_timeout = '10s'")
    archive(store, "job")
    assert archived(store) == ["job"]
    db.execute(b"COMMIT")


@pytest.mark.parametrize("step", ["ALTER TABLE archive ATTACH", "DROP TABLE"])
def test_whoever_stands_still_while_it_changes_the_days_does_not_keep_others_waiting(
    store: PostgresStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, step: str, url: str
) -> None:
    archive(store, "early")
    clock.advance(5 * DAY)
    store.submit([Draft(id="late", task="t")])
    store.cancel(["late"], reason="", actor="me")
    stands_still, goes_on = threading.Event(), threading.Event()
    execute = SqlConnection.execute

    def held(db: SqlConnection, statement: str, values: Any = None) -> Any:
        done = execute(db, statement, values)
        if statement.startswith(step) and not stands_still.is_set():
            stands_still.set()
            goes_on.wait(60)
        return done

    def clean_up() -> None:
        with suppress(StoreUnavailableError):
            clean(store)

    with monkeypatch.context() as patched:
        patched.setattr(SqlConnection, "execute", held)
        stopped = threading.Thread(target=clean_up)
        stopped.start()
        assert stands_still.wait(60)
        # Each waits 10 seconds at most for a lock.
        with closing(PostgresStore(url, env=Env(clock=clock))) as other:
            archived(other)
            clean(other)
            assert archived(other) == ["late"]
        goes_on.set()
        stopped.join(60)
    assert store.check() == []


def test_a_day_that_is_being_read_is_dropped_by_a_later_clean_up(
    store: PostgresStore,
    clock: ManualClock,
    db: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive(store, "old")
    clock.advance(9 * DAY)
    monkeypatch.setattr(days, "BRIEFLY", "SET LOCAL lock_timeout = '50ms'")
    db.execute(b"BEGIN")
    db.execute(b"SELECT count(*) FROM archive")
    clean(store)
    assert (dropped(store), archived(store)) == (0, ["old"])
    assert store.cleanups(1)[0].ended_at is not None
    db.execute(b"COMMIT")
    clean(store)
    assert (dropped(store), archived(store), partitions(db)) == (1, [], [])


@pytest.mark.parametrize("change", ["make", "drop"])
def test_others_write_while_the_archive_is_changed(
    url: str, store: PostgresStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Nobody's turn is taken for it, however long it waits."""
    archive(store, "old")
    clock.advance(9 * DAY)
    done = []
    original: Callable[..., None] = getattr(days, change)

    def changed(*args: Any) -> None:
        # In a transaction that has changed the tables, and not been committed yet.
        with someone(url) as db, db.transaction():
            db.execute(b"LOCK TABLE archive IN ACCESS EXCLUSIVE MODE")
            env = Env(clock=clock)
            with closing(PostgresStore(f"{url}&lock_timeout_seconds=5", env=env)) as other:
                other.submit([Draft(id="plain", task="t")])
                other.submit([Draft(id="keyed", task="t", idempotency_key="alone")])
                done.append(change)
        original(*args)

    monkeypatch.setattr(days, change, changed)
    archive(store, "new")
    assert done == [change]
    assert (dropped(store), archived(store), store.check()) == (1, ["new"], [])


def test_of_many_that_make_the_same_days_each_finds_them_made(
    url: str, db: psycopg.Connection
) -> None:
    begin = threading.Barrier(4)
    errors: list[Exception] = []
    PostgresStore(url).close()

    def make() -> None:
        with closing(PostgresStore(url)) as store:
            for day in range(20_000, 20_010):
                begin.wait()
                try:
                    days.make(store._database, day)
                except Exception as error:
                    errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(begin.parties)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert partitions(db) == [days.partition(day) for day in range(20_000, 20_010)]


@pytest.mark.parametrize("when", ["made", "dropped"])
def test_what_a_process_leaves_that_ends_between_two_tries_is_taken_up(
    store: PostgresStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    archive(store, "old")
    clock.advance(9 * DAY)
    original: Callable[..., None] = getattr(days, when := {"made": "make", "dropped": "drop"}[when])

    def killed(*args: Any) -> None:
        original(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(days, when, killed)
    with pytest.raises(KeyboardInterrupt):
        archive(store, "new")
    monkeypatch.setattr(days, when, original)
    clean(store)
    assert (archived(store), store.check()) == (["new"], [])
    # Counted once, by who came later.
    assert sum(each.archive_dropped for each in store.cleanups()) == 1


def test_a_day_that_comes_again_after_it_was_dropped_is_made_anew(
    url: str, clock: ManualClock, db: psycopg.Connection
) -> None:
    with closing(PostgresStore(url, env=Env(clock=clock))) as store:
        archive(store, "old")
        today = day_number(clock.now().date())
        days.drop(store._database, [today])
        assert partitions(db) == []
        archive(store, "again")
        assert (archived(store), store.check()) == (["again"], [])


def test_a_day_that_somebody_has_detached_to_keep_it_is_not_dropped(
    store: PostgresStore, clock: ManualClock, db: psycopg.Connection
) -> None:
    archive(store, "old")
    [name] = partitions(db)
    db.execute(f"ALTER TABLE archive DETACH PARTITION {name}".encode())
    clock.advance(9 * DAY)
    archive(store, "new")
    assert archived(store) == ["new"]
    assert db.execute(f"SELECT id FROM {name}".encode()).fetchall() == [("old",)]
    db.execute(f"DROP TABLE {name}".encode())


def test_a_check_does_not_miss_a_day_that_is_no_part_of_the_archive(
    store: PostgresStore, clock: ManualClock, db: psycopg.Connection, url: str
) -> None:
    archive(store, "old")
    clock.advance(DAY)
    archive(store, "newer")
    first, second = partitions(db)
    db.execute(f"ALTER TABLE archive DETACH PARTITION {second}".encode())
    assert store.check() == []
    clock.advance(9 * DAY)
    with store._database.read() as own, closing(PostgresStore(url, env=Env(clock=clock))) as other:
        # Its look begins here, and the days are dropped before it comes to them.
        assert own.execute("SELECT count(*) FROM archive_day").fetchone() == (2,)
        clean(other)
        assert first not in partitions(db)
        assert list(days.problems(own)) == []
    db.execute(f"DROP TABLE {second}".encode())


def test_a_search_since_a_day_reads_only_the_partitions_since(
    store: PostgresStore,
    clock: ManualClock,
    db: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep = RetentionPolicy(cancelled_seconds=0, archive_seconds=None, worth_cleaning=0)
    for number in range(6):
        store.submit([Draft(id=f"{number}", task="t")])
        store.cancel([f"{number}"], reason="", actor="me")
        clean(store, keep)
        clock.advance(DAY)
    executed: list[tuple[str, Any]] = []
    execute = SqlConnection.execute

    def noted(self: SqlConnection, statement: str, values: Any = None) -> Any:
        executed.append((statement, values))
        return execute(self, statement, values)

    monkeypatch.setattr(SqlConnection, "execute", noted)
    since = (clock.now() - timedelta(days=2)).date()
    assert archived(store, ArchiveSpan(first_day=since)) == ["5", "4"]
    monkeypatch.undo()
    [(statement, values)] = [each for each in executed if "FROM archive" in each[0]]
    read = []
    with store._database.read() as own:
        for (line,) in own.execute(f"EXPLAIN {statement}", values):
            read += [name for name in partitions(db) if f" {name} " in line]
    assert sorted(read) == partitions(db)[-2:]


def test_a_role_that_may_not_make_tables_is_told_so(
    url: str,
    store: PostgresStore,
    clock: ManualClock,
    db: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    role, schema = f"writer_{os.getpid()}", url.rpartition("schema=")[2]
    db.execute(f"CREATE ROLE {role} LOGIN".encode())
    try:
        for what in (
            "USAGE ON SCHEMA",
            "ALL ON ALL TABLES IN SCHEMA",
            "ALL ON ALL SEQUENCES IN SCHEMA",
        ):
            db.execute(f"GRANT {what} {schema} TO {role}".encode())
        theirs = url.replace("postgres@", f"{role}@", 1)
        with closing(PostgresStore(theirs, env=Env(clock=clock))) as writer:
            with pytest.raises(StoreError, match=r"may not make one \(permission denied .*owns"):
                archive(writer, "early")
            # The job is still there. Who may has it archived; then its partition is there for all.
            assert writer.get("early") is not None
            archive(store, "another")
            archive(writer, "late")
            assert sorted(archived(writer)) == ["another", "early", "late"]
            # Nor may it drop a day. Its clean-up goes on with the rest, and ends.
            [day] = partitions(db)
            clock.advance(9 * DAY)
            clean(writer)
            assert (dropped(writer), partitions(db)) == (0, [day])
            assert writer.cleanups(1)[0].ended_at is not None
            assert f"up to {day}, because this role may not drop them (must be own" in caplog.text
            clean(store)
            assert (dropped(store), partitions(db)) == (3, [])
    finally:
        db.execute(f"DROP OWNED BY {role}".encode())
        db.execute(f"DROP ROLE {role}".encode())


def test_a_check_finds_what_is_wrong_with_the_days(
    store: PostgresStore, clock: ManualClock, db: psycopg.Connection
) -> None:
    archive(store, "a", "b")
    clock.advance(DAY)
    archive(store, "c")
    first, second = partitions(db)
    columns = ", ".join(days_columns(db))
    moved = columns.replace("day", "day + 1", 1)
    db.execute(
        f"INSERT INTO archive ({columns}) SELECT {moved} FROM {first} WHERE id = 'a'".encode()
    )
    db.execute(f"DELETE FROM {first} WHERE id = 'b'".encode())
    assert store.check() == [
        f"{first}: 2 jobs are counted, but there are 1",
        f"{second}: 1 jobs are counted, but there are 2",
        "job a is in the archive twice",
    ]


def days_columns(db: psycopg.Connection) -> list[str]:
    found = db.execute(b"SELECT * FROM archive LIMIT 0")
    assert found.description is not None
    return [each.name for each in found.description if each.name != "run_micros"]


@pytest.fixture
def acknowledged() -> Iterator[Acknowledged]:
    told = Acknowledged()
    yield told
    told.close()


@pytest.mark.faults
def test_kills_leave_each_job_in_the_store_or_in_the_archive_or_dropped_with_its_day(
    url: str, acknowledged: Acknowledged
) -> None:
    told = acknowledged
    functions = ["support.day_children:archive_by_day"] * PROCESSES
    under_fire(url, told, Random(11), functions, kills=KILLS, lines_between_kills_max=12)
    with closing(PostgresStore(url, env=Env(clock=ManualClock()))) as store:
        assert store.check() == []
        store.cancel(
            [job.id for job in store.search(JobFilter(), limit=1000).jobs], reason="", actor="me"
        )
        clean(store, day_children.POLICY)
        assert store.check() == []
        kept = archived(store)
        assert len(kept) == len(set(kept))
        removed = store.stats().cleaned
        forgotten = sum(each.archive_dropped for each in store.cleanups(1000))
        assert len(kept) + forgotten == removed
        assert forgotten > 0
        assert removed >= len(told.submitted)
