"""The SQLite store keeps the contract: the conformance suite and the state machine."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from leasehold.core.store import Store
from leasehold.env import Env
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance import MakeStore, StoreConformance
from leasehold.testing.machine import StoreMachine


class TestSQLiteStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        names = iter(range(1000))
        return lambda env: SQLiteStore(tmp_path / f"{next(names)}.db", env=env)


class SQLiteMachine(StoreMachine):
    def make_store(self, env: Env) -> Store:
        self.folder = tempfile.mkdtemp()
        # What the machine looks for does not depend on the disk's sync.
        return SQLiteStore(Path(self.folder) / "jobs.db", env=env, durability="normal")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


TestSQLiteMachine = SQLiteMachine.TestCase
TestSQLiteMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
