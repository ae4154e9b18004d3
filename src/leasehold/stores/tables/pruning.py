"""A clean-up's access to the store: a look, and a way to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from leasehold.core.model.retention import PruneReport
from leasehold.core.rules import cleaning
from leasehold.core.rules.cleaning import PruneRequest
from leasehold.core.rules.cleanup_store import CleanedStore, CleanUpLook, CleanUpWrite
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.finding import TableLook
from leasehold.stores.tables.removing import TableRemoval


class TablePruning:
    """A clean-up of a store."""

    look: ClassVar[type[TableLook]]
    removal: ClassVar[type[TableRemoval]]

    def __init__(self, database: Any) -> None:
        self._database: TableDatabase = database

    def run(self, run: int | None, order: PruneRequest) -> PruneReport:
        """Begin a clean-up, or go on with one."""
        store = CleanedStore(self._look, self._remove, self._database.env.clock.monotonic)
        return cleaning.prune(store, run, order)

    @contextmanager
    def _look(self) -> Iterator[CleanUpLook[int]]:
        with self._database.read() as db:
            yield self.look(db, self._database.now(db))

    def _remove(self, operation: Callable[[CleanUpWrite[int]], PruneReport]) -> PruneReport:
        return self._database.write(lambda step: operation(self.removal(step)))
