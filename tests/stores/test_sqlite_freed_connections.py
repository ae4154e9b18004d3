"""How the SQLite store's connections end: whoever used one closes it, not the collector."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.core.contract.transactions import JobTransaction
from leasehold.core.model.lease import Settlement
from leasehold.core.model.outcome import Complete
from leasehold.errors import LeaseLostError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing import transaction_verbs
from leasehold.stores.sqlite.writing.application import ApplicationConnection, is_inside
from leasehold.stores.sqlite.writing.database import Database
from leasehold.testing.conformance.base import draft, lease_one, submit
from leasehold.worker.asyncturn import open_in_turn

WAIT = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    yield store
    store.close()


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_no_weak_reference_to_a_connection_has_a_callback(store: SQLiteStore) -> None:
    """apsw would run it when a collection destroys the connection a second time."""
    connection = store.connect()
    with connection.transaction(), store._database.read() as reading:
        for each in (connection, reading):
            references = weakref.getweakrefs(each)
            assert references, "somebody remembers it"
            assert [each.__callback__ for each in references] == [None] * len(references)
    connection.close()


def test_one_is_remembered_only_while_it_is_open(store: SQLiteStore) -> None:
    connection = store.connect()
    another = store.connect()
    assert len(store._database.connections_of_others()) == 2
    connection.close()
    assert store._database.connections_of_others() == [another]
    del another
    assert store._database.connections_of_others() == []


def close(connection: ApplicationConnection) -> None:
    with connection.transaction():
        connection.execute("CREATE TABLE app_row (id TEXT)")
    connection.close()


def drop(connection: ApplicationConnection) -> None:
    with connection.transaction():
        pass


def drop_inside(connection: ApplicationConnection) -> None:
    connection.begin()


def fail(connection: ApplicationConnection) -> None:
    with pytest.raises(KeyError), connection.transaction():
        raise KeyError


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("use", [close, drop, drop_inside, fail])
def test_one_is_freed_with_its_last_reference(
    store: SQLiteStore, use: Callable[[ApplicationConnection], None]
) -> None:
    connection = store.connect()
    itself = weakref.ref(connection)
    use(connection)
    del connection
    assert itself() is None
    assert not is_inside(store._database.files.database)
    submit(store, draft())  # It would wait for a transaction that is left open.


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("end", ["complete", "roll back", "stale", "broken"])
def test_a_jobs_connection_is_closed_and_freed(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    made: list[weakref.ref[ApplicationConnection]] = []
    connect = transaction_verbs.connect

    def noted(database: Database) -> ApplicationConnection:
        connection = connect(database)
        made.append(weakref.ref(connection))
        return connection

    def broken(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(transaction_verbs, "connect", noted)
    submit(store, draft())
    lease = lease_one(store)
    if end in ("complete", "roll back"):
        held = store.open_transaction(lease.job_id, lease.version)
        if end == "roll back":
            held.roll_back()
        else:
            held.complete(Settlement(lease.job_id, lease.version, Complete()))
        del held
    else:
        if end == "broken":
            monkeypatch.setattr(transaction_verbs, "_refuse_stale", broken)
        with pytest.raises((LeaseLostError, OSError)):
            store.open_transaction(lease.job_id, lease.version + (end == "stale"))
    assert [itself() for itself in made] == [None]


class Begun:
    """Opens a job's transaction in another thread once it may, and remembers it."""

    def __init__(self, store: SQLiteStore) -> None:
        submit(store, draft())
        self._store, self._lease = store, lease_one(store)
        self.begun, self.go, self.opened = (threading.Event() for _ in range(3))
        self.held: list[JobTransaction] = []
        self.given_up = 0

    def begin(self) -> JobTransaction:
        self.begun.set()
        assert self.go.wait(WAIT)
        held = self._store.open_transaction(self._lease.job_id, self._lease.version)
        self.held.append(held)
        self.opened.set()
        return held

    def gave_up(self) -> None:
        self.given_up += 1

    def is_over(self) -> bool:
        [held] = self.held
        assert isinstance(held.connection, ApplicationConnection)
        return held.connection.is_closed and self.given_up == 1


def test_one_that_is_opened_for_a_loop_that_ends_meanwhile_is_closed(store: SQLiteStore) -> None:
    begun = Begun(store)

    async def leave() -> None:
        opening = asyncio.ensure_future(open_in_turn(begun.begin, begun.gave_up))
        opening.add_done_callback(lambda _: begun.go.set())
        await asyncio.to_thread(begun.begun.wait, WAIT)

    asyncio.run(leave())  # It cancels whatever is still under way.
    assert begun.is_over()


def test_one_that_is_opened_for_a_cancelled_task_is_closed_before_the_next_turn(
    store: SQLiteStore,
) -> None:
    begun = Begun(store)

    async def cancel() -> None:
        opening = asyncio.ensure_future(open_in_turn(begun.begin, begun.gave_up))
        await asyncio.to_thread(begun.begun.wait, WAIT)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        begun.go.set()
        held, leave_turn = await open_in_turn(begun.begin, begun.gave_up)
        assert held is begun.held.pop()
        assert begun.is_over()
        held.roll_back()
        leave_turn()

    asyncio.run(cancel())


def test_one_that_is_opened_when_its_task_is_cancelled_is_closed(store: SQLiteStore) -> None:
    begun = Begun(store)
    begun.go.set()

    async def cancel() -> None:
        opening = asyncio.ensure_future(open_in_turn(begun.begin, begun.gave_up))
        # Not awaited: the loop must not hear of its end before it is told to cancel.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert begun.opened.wait(WAIT)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(cancel())
    assert begun.is_over()
