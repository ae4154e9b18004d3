"""Testing the tests of transactions: each of these faults must be found out by a clause."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from leasehold.core.model.lease import Settled, Settlement
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.submitting import submit
from leasehold.stores.sqlite.writing import transaction_verbs
from leasehold.stores.sqlite.writing.application import ApplicationConnection
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Remembered, Step
from leasehold.stores.sqlite.writing.transaction_verbs import HeldTransaction, within
from leasehold.testing.conformance import StoreConformance

pytestmark = pytest.mark.faults

Mutate = Callable[[pytest.MonkeyPatch], None]


def examine(folder: Path, name: str, test: Callable[..., None]) -> None:
    clock = ManualClock()
    env = Env(clock=clock, random=Random(7))
    opened: list[SQLiteStore] = []

    def make_store(env: Env) -> SQLiteStore:
        opened.append(SQLiteStore(folder / f"{name}-{len(opened)}.db", env=env))
        # A mutant that makes somebody wait for himself need not be waited for.
        opened[-1]._database.side.db.set_busy_timeout(100)
        return opened[-1]

    store = make_store(env)
    with closing(store.connect()) as connection:
        connection.execute("CREATE TABLE app_row (n)")
        given: dict[str, Any] = {"self": StoreConformance(), "store": store, "clock": clock}
        given |= {"env": env, "make_store": make_store, "connection": connection}
        try:
            test(**{each: given[each] for each in inspect.signature(test).parameters})
        finally:
            for each in opened:
                each.close()


def is_found_out(folder: Path) -> bool:
    for name, test in inspect.getmembers(StoreConformance, inspect.isfunction):
        if name.startswith("test_txn_"):
            try:
                examine(folder, name, test)
            except (Exception, pytest.fail.Exception):
                return True
    return False


def settings_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Remembered._learn

    def learn(self: Remembered, *values: Any) -> None:
        settings = self.settings
        original(self, *values)
        self.settings = settings

    monkeypatch.setattr(Remembered, "_learn", learn)


def lanes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def submit_within(database: Database, connection: Any, drafts: Any, *, partial: Any) -> Any:
        run = lambda operation: within(database, connection, operation)  # noqa: E731
        return submit.submit_by(database, run, database.lanes, drafts, partial=partial)

    monkeypatch.setattr(transaction_verbs, "submit_within", submit_within)


def undoing_rolls_back_all(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Step.undo

    def undo(self: Step) -> None:
        self.is_first = True
        original(self)

    monkeypatch.setattr(Step, "undo", undo)


def nobody_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApplicationConnection, "tell", lambda _: None)


def woken_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def told_at_once(database: Database, connection: Any, operation: Any) -> Any:
        answer = within(database, connection, operation)
        connection.tell()
        return answer

    monkeypatch.setattr(transaction_verbs, "within", told_at_once)


def numbers_are_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "end", lambda _: None)


def anybody_opens_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_verbs, "_refuse_stale", lambda *_: None)


def anybody_commits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.stores.sqlite.writing.application._may_commit", lambda _: False)


def committed_before_it_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    original = HeldTransaction.complete

    def complete(self: HeldTransaction, settlement: Settlement) -> Settled:
        self._db.is_kept_open = False
        self._db.commit()
        self._db.begin()
        return original(self, settlement)

    monkeypatch.setattr(HeldTransaction, "complete", complete)


def a_write_beside_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.stores.sqlite.writing.database.check_not_inside", lambda _: None)


MUTANTS: list[Mutate] = [
    settings_are_read_once,
    lanes_are_remembered,
    undoing_rolls_back_all,
    nobody_is_woken,
    woken_before_the_commit,
    numbers_are_not_written_down,
    anybody_opens_one,
    anybody_commits_it,
    committed_before_it_is_settled,
    a_write_beside_it_waits,
]


def test_without_a_mutant_all_is_well(folder: Path) -> None:
    assert not is_found_out(folder)


# A clause that fails leaves its threads to find the store closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_a_mutant_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mutate: Mutate
) -> None:
    monkeypatch.setattr("leasehold.testing.conformance.waking.PATIENCE_SECONDS", 1)
    mutate(monkeypatch)
    assert is_found_out(folder), "no clause minds"
