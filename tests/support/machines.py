"""Stores for state machines: one per example, closed when it ends."""

from __future__ import annotations

import tempfile
from pathlib import Path

from leasehold.core.contract.store import Store
from leasehold.env import Env
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore


class OnMemory:
    """A machine whose store is in memory."""

    def make_store(self, env: Env) -> Store:
        return MemoryStore(env)


class OnSQLite:
    """A machine whose store is a file of its own."""

    def make_store(self, env: Env) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return SQLiteStore(Path(self.folder.name) / "jobs.db", env=env, durability="normal")

    def teardown(self) -> None:
        super().teardown()  # type: ignore[misc]  # of the machine
        self.folder.cleanup()
