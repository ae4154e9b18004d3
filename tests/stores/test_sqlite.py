"""The SQLite store keeps the contract: the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance import MakeStore, StoreConformance


class TestSQLiteStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        names = iter(range(1000))
        return lambda env: SQLiteStore(tmp_path / f"{next(names)}.db", env=env)
