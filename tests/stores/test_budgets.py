"""Every budget bounds what it says, on every store that has use for it.

`test_bounds` bounds the steps of whole writes, generously; here each budget is met exactly. That
none of these cases would miss a budget that bounds nothing is tried, too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.core.contract.store import Store
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from support import budgets, mutated_budgets
from support.budgets import AT_ONCE, IN_PLAY, InPlay
from support.counted_writes import Scene
from support.servers import Schemas

ON_STORES = [
    pytest.param(each, store, id=f"{each.case.__name__}-{store}")
    for each in IN_PLAY
    for store in each.stores
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(
    request: pytest.FixtureRequest, kind: str, clock: ManualClock, tmp_path: Path
) -> Iterator[Store]:
    env = Env(clock=clock)
    if kind == "memory":
        yield MemoryStore(env=env, capacity=None)
    elif kind == "sqlite":
        sqlite = SQLiteStore(tmp_path / "jobs.db", env=env, durability="normal")
        yield sqlite
        sqlite.close()
    else:
        schemas: Schemas = request.getfixturevalue("schemas")
        from leasehold.stores.postgres import PostgresStore

        url = schemas.lend()
        postgres = PostgresStore(url, env=env)
        yield postgres
        postgres.close()
        schemas.take_back(url)


def test_every_budget_is_in_play() -> None:
    assert {each.budget for each in IN_PLAY} == AT_ONCE.keys()


@pytest.mark.parametrize(("each", "kind"), ON_STORES)
def test_one_write_keeps_to_its_budget(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, each: InPlay
) -> None:
    assert budgets.is_kept(each, Scene(store, clock, monkeypatch))
    assert store.check() == []


def test_a_budget_that_bounds_nothing_is_noticed() -> None:
    """In a library whose budgets are all without end, every case fails."""
    found = subprocess.run(
        [sys.executable, mutated_budgets.__file__], check=True, capture_output=True, text=True
    )
    assert found.stdout.splitlines() == mutated_budgets.NOTICED, found.stdout + found.stderr
