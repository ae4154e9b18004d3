"""Applications' own transactions on the SQLite file: whose they are, and who waits for whom."""

from __future__ import annotations

import gc
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock
from leasehold.errors import (
    DuplicateJobError,
    StoreClosedError,
    StoreUnavailableError,
    TransactionError,
)
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing import application as application_module
from leasehold.stores.sqlite.writing import transaction_verbs
from leasehold.stores.sqlite.writing.application import ApplicationConnection
from leasehold.stores.sqlite.writing.step import Step
from leasehold.testing.conformance.base import draft, get, lease_one, submit
from leasehold.testing.conformance.waking import Ears
from support.effort import drawn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path, durability="normal")
    yield store
    store.close()


@pytest.fixture
def connection(store: SQLiteStore) -> Iterator[ApplicationConnection]:
    connection = store.connect()
    connection.execute("CREATE TABLE app_row (id TEXT)")
    yield connection
    connection.close()


def impatient(store: SQLiteStore) -> None:
    """Let the writer give up at once, so that a test need not wait for it to."""
    store._database.side.db.set_busy_timeout(50)


def in_another_thread(action: Any) -> BaseException | None:
    """What came of it there: None, or what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return raised[0] if raised else None


def test_a_look_inside_ones_own_transaction_places_nothing_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "placed.db", env=Env(clock))
    impatient(store)
    submit(store, draft(deadline=store.now() + timedelta(hours=2)))
    clock.advance(5400)
    connection = store.connect()
    with connection.transaction():
        assert store.position("job") == 0
    assert caplog.records == [], "it would have waited for itself"
    connection.close()
    store.close()


# -- which connections will do -----------------------------------------------------------------


def test_the_standard_librarys_connection_is_refused_with_the_reason(store: SQLiteStore) -> None:
    # On no file at all: on the store's own file it would do the harm that it is refused for.
    foreign: Any = sqlite3.connect(":memory:")
    with pytest.raises(TransactionError, match=r"commits are lost.*queue.connect\(\)"):
        store.submit_within(foreign, [draft()])
    foreign.close()
    assert store.get("job") is None


def test_an_apsw_connection_that_is_not_from_connect_is_refused(
    store: SQLiteStore, path: Path
) -> None:
    foreign: Any = apsw.Connection(str(path))
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransactionError, match=r"apsw.Connection cannot carry"):
        store.submit_within(foreign, [draft()])
    foreign.close()
    submit(store, draft())


def test_a_connection_that_only_reads_is_refused(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    connection.pragma("query_only", 1)
    connection.execute("BEGIN")
    with pytest.raises(TransactionError, match="only reads"):
        store.submit_within(connection, [draft()])
    connection.execute("ROLLBACK")


def test_a_closed_connection_and_a_closed_store_are_refused(path: Path) -> None:
    store = SQLiteStore(path)
    closed, left_open = store.connect(), store.connect()
    closed.close()
    with pytest.raises(Exception, match="closed"):
        store.submit_within(closed, [draft()])
    store.close()
    with pytest.raises(StoreClosedError):
        store.connect()
    with pytest.raises(StoreClosedError), left_open.transaction():
        pass
    left_open.close()


def test_another_store_on_the_same_file_will_do(
    store: SQLiteStore, connection: ApplicationConnection, path: Path
) -> None:
    other = SQLiteStore(path)
    ears = Ears(store)
    store.subscribe(ears)
    with connection.transaction():
        other.submit_within(connection, [draft()])
    assert get(store).id == "job"
    assert ears.wait_for(lambda: ears.ready > 0)
    other.close()


def test_it_is_configured_as_the_writer_is(path: Path) -> None:
    for durability, code in (("normal", 1), ("full", 2)):
        store = SQLiteStore(path, durability=durability)  # type: ignore[arg-type]
        connection = store.connect()
        assert connection.pragma("synchronous") == code
        assert connection.pragma("journal_mode") == "wal"
        connection.close()
        store.close()


def test_no_table_of_ours_takes_a_name_that_is_left_to_applications(store: SQLiteStore) -> None:
    with store._database.read() as db:
        names = [str(name) for (name,) in db.execute("SELECT name FROM sqlite_schema")]
    assert "job" in names
    assert not [name for name in names if name.startswith("app_")]


# -- however it is begun and ended -------------------------------------------------------------


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT mine"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_by_hand(
    store: SQLiteStore, connection: ApplicationConnection, begin: str, commits: bool
) -> None:
    ears = Ears(store)
    store.subscribe(ears)
    connection.execute(begin)
    store.submit_within(connection, [draft(task="first")])
    store.submit_within(connection, [draft("two", task="first")])
    refused = in_another_thread(lambda: None if store.get("job") is None else pytest.fail("seen"))
    assert refused is None
    if "SAVEPOINT" in begin:
        connection.execute("RELEASE mine" if commits else "ROLLBACK TO mine; RELEASE mine")
    else:
        connection.execute("COMMIT" if commits else "ROLLBACK")
    assert (store.get("job") is not None) == commits
    if commits:
        assert ears.wait_for(lambda: ears.ready > 0)
    # The thread is free to write again, and no lane was remembered that is not there.
    submit(store, draft("three", task="second"), draft("four", task="first"))
    assert {lease.task for lease in leases(store)} == {"first", "second"}
    assert store.check() == []


def test_with_the_connection_itself_is_a_transaction(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    with connection:
        assert connection.txn_state() == apsw.SQLITE_TXN_WRITE, "it has its turn from the beginning"
        store.submit_within(connection, [draft()])
        with suppress(KeyError), connection:
            store.submit_within(connection, [draft("two")])
            raise KeyError
    assert (store.get("job") is not None, store.get("two")) == (True, None)


def test_a_read_that_has_become_old_is_told_what_to_do(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM app_row").fetchall()
    assert in_another_thread(lambda: submit(store, draft("other"))) is None
    with pytest.raises(StoreUnavailableError, match=r"begin it with connection.transaction\(\)"):
        store.submit_within(connection, [draft()])
    connection.execute("ROLLBACK")
    assert store.get("job") is None


def test_the_applications_own_idea_of_rows_is_respected(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    connection.row_trace = lambda _cursor, row: {"only": row[0]}
    with connection.transaction():
        store.submit_within(connection, [draft(idempotency_key="key")])
        store.submit_within(connection, [draft("two", idempotency_key="key")])
        connection.execute("INSERT INTO app_row VALUES ('x')")
        found: list[Any] = connection.execute("SELECT id FROM app_row").fetchall()
        assert found == [{"only": "x"}]
    assert get(store).idempotency_key == "key"


def test_a_large_log_is_checkpointed(
    store: SQLiteStore, connection: ApplicationConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_module, "WAL_PAGES_BEFORE_CHECKPOINT", 3)
    for number in range(10):
        with connection.transaction():
            connection.execute("INSERT INTO app_row VALUES (?)", (str(number) * 3000,))
    in_log, in_database = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    # Were it left to itself, the log would hold a page or more for each row.
    assert in_log == in_database < 10


# -- who waits for whom ------------------------------------------------------------------------


def test_who_waits_in_vain_is_told_for_whom(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    impatient(store)
    with connection.transaction():
        error = in_another_thread(lambda: submit(store, draft()))
        assert isinstance(error, StoreUnavailableError)
        assert "thread MainThread) since 2" in str(error)
        assert "holds a transaction open" in str(error)
    submit(store, draft())
    lease = lease_one(store)
    own = store.open_transaction(lease.job_id, lease.version)
    error = in_another_thread(lambda: submit(store, draft("more")))
    assert "for job job" in str(error)
    own.roll_back()


def test_a_connection_that_is_dropped_blocks_nobody(store: SQLiteStore) -> None:
    dropped = store.connect()
    dropped.begin()
    store.submit_within(dropped, [draft("dropped")])
    del dropped
    gc.collect()
    submit(store, draft())
    assert store.get("dropped") is None


def test_one_that_is_dropped_with_an_error_is_closed_whole(store: SQLiteStore) -> None:
    def fail() -> None:
        dropped = store.connect()
        dropped.begin()
        store.submit_within(dropped, [draft("dropped")])
        raise KeyError

    # The error knows the frame, the frame the connection, and the box the error for ever.
    for _ in range(5):
        box: list[Any] = []
        try:
            fail()
        except KeyError as error:
            box += [error, box]
        del box
        gc.collect()
        assert not store._database.files.transaction_note.exists()
    submit(store, draft())
    assert store.get("dropped") is None


def test_many_threads_and_the_store_take_turns(path: Path, store: SQLiteStore) -> None:
    threads, rounds = 6, 15
    with store.connect() as setup:
        setup.execute("CREATE TABLE app_row (id TEXT)")
    setup.close()

    def application(number: int) -> None:
        connection = store.connect()
        for turn in range(rounds):
            name = f"{number}-{turn}"
            with connection.transaction():
                connection.execute("INSERT INTO app_row VALUES (?)", (name,))
                store.submit_within(connection, [draft(name, task=f"task-{number}")])
            store.submit([draft(f"{name}-alone")])
        connection.close()

    workers = [threading.Thread(target=application, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    reader = store.connect()
    written = {row[0] for row in reader.execute("SELECT id FROM app_row")}
    reader.close()
    assert len(written) == threads * rounds
    assert written | {f"{name}-alone" for name in written} == ids(store)
    assert store.check() == []


# -- any program ---------------------------------------------------------------------------------

Program = list[Any]
"""A job's number to submit, or a transaction: (its parts, whether it is kept)."""

PROGRAMS = st.recursive(
    st.integers(0, 5),
    lambda parts: st.tuples(st.lists(parts, max_size=4), st.booleans()),
    max_leaves=12,
)


class UndoneError(Exception):
    """Raised at the end of a part that is not to be kept."""


@settings(max_examples=drawn(60), deadline=None)
@given(st.lists(st.tuples(st.lists(PROGRAMS, max_size=4), st.booleans()), max_size=4))
def test_row_and_job_are_both_there_or_neither(program: Program) -> None:
    with TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder) / "jobs.db", durability="normal")
        connection = store.connect()
        connection.execute("CREATE TABLE app_row (id TEXT)")
        for part in program:
            run(store, connection, part)
        written = [row[0] for row in connection.execute("SELECT id FROM app_row")]
        assert sorted(written) == sorted(ids(store))
        assert store.stats().submitted == len(written)
        assert len(leases(store)) == len(written)
        assert store.check() == []
        connection.close()
        store.close()


def run(store: SQLiteStore, connection: ApplicationConnection, part: Any) -> None:
    if isinstance(part, int):
        # Each of its numbers has a task, and so a lane, of its own, made by whoever is first.
        with suppress(DuplicateJobError), connection.transaction():
            connection.execute("INSERT INTO app_row VALUES (?)", (str(part),))
            store.submit_within(connection, [draft(str(part), task=f"task-{part}")])
        return
    parts, kept = part
    with suppress(UndoneError), connection.transaction():
        for inner in parts:
            run(store, connection, inner)
        if not kept:
            raise UndoneError


def ids(store: SQLiteStore) -> set[str]:
    return {job.id for job in store.search(JobFilter(), limit=1000).jobs}


def leases(store: SQLiteStore) -> list[Any]:
    return store.exchange(request=LeaseRequest(worker="w", limit=1000)).leases


def test_an_operation_that_fails_half_way_leaves_nothing(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    def fails(step: Step) -> None:
        step.execute("INSERT INTO app_row VALUES ('half')")
        raise DuplicateJobError("as if it were")

    with connection:
        connection.execute("INSERT INTO app_row VALUES ('before')")
        with pytest.raises(DuplicateJobError):
            transaction_verbs.within(store._database, connection, fails)
    assert connection.execute("SELECT id FROM app_row").fetchall() == [("before",)]
