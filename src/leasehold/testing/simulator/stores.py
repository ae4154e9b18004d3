"""New, empty stores for the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from leasehold.core.contract.store import Store
from leasehold.core.model.retention import RetentionPolicy
from leasehold.env import Env
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore


def memory_store(env: Env) -> Store:
    """A memory store that forgets nothing, so that everything can be judged in the end."""
    keep = RetentionPolicy(completed_seconds=None, dead_seconds=None, cancelled_seconds=None)
    return MemoryStore(env, retention=keep)


@contextmanager
def sqlite_stores() -> Iterator[Callable[[Env], Store]]:
    """A maker of SQLite stores, each in a file of its own that is gone in the end."""
    with TemporaryDirectory(prefix="leasehold-simulator-") as folder:
        made: list[Path] = []

        def make(env: Env) -> Store:
            made.append(Path(folder, f"{len(made)}.db"))
            return SQLiteStore(made[-1], env=env, durability="normal")

        yield make
