"""The SQLite store keeps the contract: the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.core.model.changes import CHANGES_KEPT
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.reading import feed
from leasehold.testing.conformance import MakeStore, StoreConformance

FEW_CHANGES = 2000


class TestSQLiteStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        names = iter(range(1000))
        return lambda env: SQLiteStore(tmp_path / f"{next(names)}.db", env=env)

    @pytest.fixture
    def changes_kept(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """To write a hundred thousand takes long, and the bound is the same whatever it is."""
        trigger = feed.TRIGGERS["change_trimmed"]
        assert f" - {CHANGES_KEPT};" in trigger
        fewer = trigger.replace(f" - {CHANGES_KEPT};", f" - {FEW_CHANGES};")
        monkeypatch.setitem(feed.TRIGGERS, "change_trimmed", fewer)
        return FEW_CHANGES
