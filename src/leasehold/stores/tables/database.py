"""A store's database: one way to write, one way to read, and the rest of long writes."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from leasehold.core.model.lives import LivesHere
from leasehold.env import Env
from leasehold.errors import StoreError
from leasehold.stores.tables.dependents import TableLinks
from leasehold.stores.tables.order import TableReady
from leasehold.stores.tables.rebalance import rebalance
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

T = TypeVar("T")


logger = logging.getLogger("leasehold.store")


class TableDatabase(ABC):
    """See `writing.database` of each store."""

    env: Env
    lives: LivesHere
    _links: type[TableLinks]
    _ready: type[TableReady]
    _unresolved = False
    """Whether the last write may have left dependents."""

    @abstractmethod
    def read(self) -> AbstractContextManager[SqlConnection]:
        """A connection for long walks, in which each statement may see a different moment."""

    @abstractmethod
    def look(self, operation: Callable[[SqlConnection], T]) -> T:
        """Read with several statements at one moment; retried without damaged cells."""

    @abstractmethod
    def write(self, operation: Callable[[TableStep], T], *, go_on: bool = True) -> T:
        """Carry out an operation in one transaction, together with work that earlier ones have
        left.
        """

    @abstractmethod
    def now(self, db: SqlConnection) -> int:
        """The store's time in microseconds, for callers that only read."""

    @abstractmethod
    def _run(self, operation: Callable[[Any], T]) -> T:
        """Carry out an operation in one transaction."""

    # -- the rest of a write that was too much for one; others write in between ----------------

    def _resolve_the_rest(self) -> None:
        """Continue with dependents."""
        try:
            while self._unresolved:
                self._unresolved = False
                self._run(self._links.resolve)
        except StoreError as error:
            # The caller's own request is durable; the next exchange or sweep continues this.
            logger.warning("some dependents will be dealt with later: %s", error)

    def rebalance_the_rest(self) -> None:
        """Move the jobs that have to be moved."""
        try:
            while self._run(lambda step: rebalance(step, self._ready)):
                pass
        except StoreError as error:
            # The caller's own request is durable; the next lease or sweep continues this.
            logger.warning("some jobs will be reordered later: %s", error)
