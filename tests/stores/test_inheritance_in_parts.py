"""Priority inheritance that takes many writes ends where one write would have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.stores.memory import MemoryStore
from leasehold.stores.memory import state as memory_state
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.submitting import dependencies
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.step import TableStep
from leasehold.testing.conformance import MakeStore
from leasehold.testing.conformance.inheriting import InheritingClauses, Links


class InParts(InheritingClauses):
    @pytest.fixture(params=[1, 3], autouse=True)
    def budget(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TableStep, "inherited_left", request.param)
        monkeypatch.setattr(memory_state, "INHERITED_AT_ONCE", request.param)

    @staticmethod
    def _check(store: Store, own: dict[str, int], links: Links) -> None:
        store.promote()  # An exchange leaves the rest to whoever writes next.
        InheritingClauses._check(store, own, links)


class TestInMemory(InParts):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda env: MemoryStore(env=env)


class TestInSQLite(InParts):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        names = iter(range(1000))
        return lambda env: SQLiteStore(tmp_path / f"{next(names)}.db", env=env, durability="normal")


def test_what_one_process_has_left_another_goes_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableStep, "inherited_left", 2)
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    names = [f"{n}" for n in range(10)]
    store.submit([Draft(id=name, task="t", priority=10) for name in names])
    store.submit([Draft(id="last", task="t", priority=10, depends_on=tuple(names))])
    # What a process leaves that dies after the first write of a change.
    seq = len(names) + 1

    def cut_short(write: Step) -> None:
        write.execute("UPDATE job SET priority = 90 WHERE seq = ?", (seq,))
        dependencies.Bases(write).reprioritized(seq, 10)

    store._database.write(cut_short, go_on=False)
    raised = [job.inherited_priority for job in map(store.get, names) if job is not None]
    assert raised.count(90) == 2
    assert store.check() == []
    store.close()
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    store.promote()
    raised = [job.inherited_priority for job in map(store.get, names) if job is not None]
    assert raised == [90] * len(names)
    assert store.check() == []
    store.close()
