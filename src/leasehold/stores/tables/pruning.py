"""A clean-up's access to the store: a look, and a way to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from leasehold.core.model.retention import PruneReport
from leasehold.core.rules.cleanup_store import CleanedStore, CleanUpLook, CleanUpWrite
from leasehold.stores.tables.database import TableDatabase


def cleaned_store(
    database: TableDatabase,
    look_of: Callable[[Any, int], CleanUpLook[int]],
    write_of: Callable[[Any], CleanUpWrite[int]],
) -> CleanedStore[int]:
    """A store as `core.rules.cleaning` asks for it."""

    @contextmanager
    def look() -> Iterator[CleanUpLook[int]]:
        with database.read() as db:
            yield look_of(db, database.now(db))

    def remove(operation: Callable[[CleanUpWrite[int]], PruneReport]) -> PruneReport:
        return database.write(lambda step: operation(write_of(step)))

    return CleanedStore(look, remove, database.env.clock.monotonic)
