"""TXN-1 to TXN-5: jobs submitted in the application's own transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from leasehold.core.contract.local_store import LocalStore, LocalVerbs, local_part
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.job import Draft
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.env import Env
from leasehold.errors import (
    DuplicateJobError,
    InvalidJobError,
    QueueFullError,
    TransactionError,
    UnknownDependencyError,
    UnsupportedError,
)
from leasehold.testing.conformance.base import (
    ConformanceBase,
    MakeStore,
    assert_history_replays,
    draft,
    get,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.waking import PATIENCE_SECONDS, Ears

ROWS = "SELECT n FROM app_row ORDER BY n"
ADD_ROW = "INSERT INTO app_row VALUES ({})"


_NOTHING: Any = object()
"""No connection at all."""


class ChangedMindError(Exception):
    """Raised to have a transaction rolled back."""


@contextmanager
def undone(connection: Connection) -> Iterator[None]:
    """A transaction that is rolled back in the end."""
    with suppress(ChangedMindError), connection.transaction():
        yield
        raise ChangedMindError


class TransactingClauses(ConformanceBase):
    def test_txn_1_a_store_without_transactions_says_so(self, store: LocalStore) -> None:
        try:
            connection = local_part(store, "a connection").connect()
        except UnsupportedError:
            if not isinstance(store, LocalVerbs):
                return  # It is elsewhere, and says so.
            for verb in (
                lambda: store.submit_within(_NOTHING, [draft()]),
                lambda: store.open_transaction("job", 1),
            ):
                with pytest.raises(UnsupportedError):
                    verb()
            assert (store.owns(_NOTHING), store.address(), store.get("job")) == (False, None, None)
        else:
            assert store.owns(connection)
            assert store.address() is not None
            connection.close()

    def test_txn_1_store_and_application_wait_for_each_other(
        self, store: LocalStore, connection: Connection
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def application() -> None:
            with connection.transaction():
                connection.execute(ADD_ROW.format(1))
                begun.set()
                assert go_on.wait(PATIENCE_SECONDS)

        def the_store() -> None:
            submit(store, draft())

        first, second = threading.Thread(target=application), threading.Thread(target=the_store)
        first.start()
        assert begun.wait(PATIENCE_SECONDS)
        assert store.get("job") is None, "reading does not wait"
        second.start()
        store.get("job")  # Nor does it now. A store on a server may have let the job in already.
        go_on.set()
        for thread in (first, second):
            thread.join(PATIENCE_SECONDS)
        assert get(store).status is Status.PENDING
        assert rows(connection) == [1]

    def test_txn_2_seen_when_it_commits(self, store: LocalStore, connection: Connection) -> None:
        with connection.transaction():
            connection.execute(ADD_ROW.format(1))
            (answer,) = store.submit_within(connection, [draft()])
            assert answer == Submitted("job", Status.PENDING)
            assert store.get("job") is None, "nobody else sees it yet"
        assert get(store).status is Status.PENDING
        assert_history_replays(store, get(store))
        assert store.stats().submitted == 1
        settle(store, lease_one(store), Complete())

    def test_txn_2_nothing_is_left_of_it_after_a_rollback(
        self, store: LocalStore, connection: Connection
    ) -> None:
        with undone(connection):
            connection.execute(ADD_ROW.format(1))
            store.submit_within(connection, [draft(idempotency_key="key")])
        assert rows(connection) == []
        assert store.get("job") is None
        assert (store.queues(), store.stats().submitted) == ([], 0)
        # Its number, its key and its lane are free: for others, who get them now.
        other = draft("other", task="another", idempotency_key="key")
        assert submit(store, other, draft()) == [
            Submitted("other", Status.PENDING),
            Submitted("job", Status.PENDING),
        ]
        assert lease_one(store, tasks=("work",)).job_id == "job"
        assert store.check() == []

    def test_txn_2_a_part_can_be_rolled_back_alone(
        self, store: LocalStore, connection: Connection
    ) -> None:
        with connection.transaction():
            store.submit_within(connection, [draft("one")])
            with undone(connection):
                store.submit_within(connection, [draft("two", task="new")])
            with connection.transaction():
                store.submit_within(connection, [draft("three", task="new")])
        assert [store.get(name) is not None for name in ("one", "two", "three")] == [
            True,
            False,
            True,
        ]
        assert {lease_one(store).task, lease_one(store).task} == {"work", "new"}
        assert store.check() == []

    def test_txn_2_listeners_hear_of_it_after_the_commit(
        self, store: LocalStore, connection: Connection
    ) -> None:
        ears = Ears(store)
        store.subscribe(ears)
        with undone(connection):
            store.submit_within(connection, [draft("undone")])
        with connection.transaction():
            store.submit_within(connection, [draft()])
            assert ears.ready == 0, "it is not there yet"
        assert ears.wait_for(lambda: ears.ready == 1)

    def test_txn_2_all_rules_of_a_submit_hold(
        self, store: LocalStore, connection: Connection
    ) -> None:
        store.create_queue("narrow", QueueConfig(max_depth=1), actor="test")
        with connection.transaction():
            first = store.submit_within(connection, [draft(idempotency_key="key")])
            again = store.submit_within(connection, [draft("other", idempotency_key="key")])
            assert first == [Submitted("job", Status.PENDING)]
            assert again == [Submitted("job", Status.PENDING, is_duplicate=True)]
            store.submit_within(connection, [draft("needs", depends_on=("job",))])
            store.submit_within(connection, [draft("later", delay_seconds=60)])
            store.submit_within(connection, [draft("fits", queue="narrow")])
            with pytest.raises(QueueFullError):
                store.submit_within(connection, [draft("too-many", queue="narrow")])
        assert store.stats("narrow").rejected == 1
        assert get(store, "needs").status is Status.BLOCKED
        settle(store, lease_one(store), Complete())
        assert get(store, "needs").status is Status.PENDING
        assert get(store, "later").status is Status.SCHEDULED
        assert store.check() == []

    def test_txn_2_where_dependencies_have_ended_badly(
        self, store: LocalStore, connection: Connection
    ) -> None:
        submit(store, draft("gone"))
        store.cancel(["gone"], reason="not needed", actor="test")
        with connection.transaction():
            (answer,) = store.submit_within(connection, [draft(depends_on=("gone",))])
        assert isinstance(answer, Submitted)
        assert answer.status is get(store).status is Status.CANCELLED

    def test_txn_3_a_refused_draft_undoes_its_call_alone(
        self, store: LocalStore, connection: Connection
    ) -> None:
        with connection.transaction():
            connection.execute(ADD_ROW.format(1))
            store.submit_within(connection, [draft("one")])
            with pytest.raises(DuplicateJobError):
                store.submit_within(connection, [draft("two"), draft("one")])
            keyed = [draft("two", idempotency_key="a"), draft("one", idempotency_key="b")]
            with pytest.raises(DuplicateJobError):
                store.submit_within(connection, keyed)
            with pytest.raises(UnknownDependencyError):
                store.submit_within(connection, [draft("two", depends_on=("nobody",))])
            with pytest.raises(InvalidJobError):
                store.submit_within(connection, [Draft(id="two", task="work", priority=101)])
            good, bad = store.submit_within(
                connection, [draft("three"), draft("one")], partial=True
            )
        assert (isinstance(good, Submitted), type(bad)) == (True, DuplicateJobError)
        assert store.get("two") is None
        assert get(store, "one").status is get(store, "three").status is Status.PENDING
        assert rows(connection) == [1]
        assert store.check() == []

    def test_txn_4_only_an_open_transaction_of_this_store(
        self, store: LocalStore, connection: Connection, make_store: MakeStore, env: Env
    ) -> None:
        with pytest.raises(TransactionError, match="no open transaction"):
            store.submit_within(connection, [draft()])
        other = local_part(make_store(env), "a connection")
        assert not other.owns(connection)
        with (
            connection.transaction(),
            pytest.raises(TransactionError, match=r"leads to|is to a different"),
        ):
            other.submit_within(connection, [draft()])
        other.close()
        with pytest.raises(TransactionError, match="cannot carry"):
            store.submit_within(_NOTHING, [draft()])
        assert store.get("job") is None

    def test_txn_5_nobody_waits_for_his_own_transaction(
        self, store: LocalStore, connection: Connection
    ) -> None:
        submit(store, draft("before"))
        other = store.connect()
        with connection.transaction():
            for write in (
                lambda: store.submit([draft()]),
                lambda: store.cancel(["before"], reason="", actor="test"),
                lambda: other.transaction().__enter__(),
            ):
                with pytest.raises(TransactionError, match="has a transaction open"):
                    write()
        other.close()
        submit(store, draft())
        assert get(store, "before").status is Status.PENDING


def rows(connection: Connection) -> list[int]:
    """The rows of the application's table."""
    return [n for (n,) in connection.execute(ROWS)]
