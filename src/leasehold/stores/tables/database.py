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
    """Whether dependents may be left of the last write."""

    @abstractmethod
    def read(self) -> AbstractContextManager[SqlConnection]:
        """A connection for long walks, in which each statement may be of another moment."""

    @abstractmethod
    def look(self, operation: Callable[[SqlConnection], T]) -> T:
        """Read: several statements, one moment; and once more without cells that are damaged."""

    @abstractmethod
    def write(self, operation: Callable[[TableStep], T], *, go_on: bool = True) -> T:
        """Carry out an operation in one transaction, and what earlier ones have left to do."""

    @abstractmethod
    def now(self, db: SqlConnection) -> int:
        """The store's time in microseconds, for who only looks."""

    @abstractmethod
    def _run(self, operation: Callable[[Any], T]) -> T:
        """Carry out an operation in one transaction."""

    # -- the rest of a write that was too much for one; others write in between ----------------

    def _resolve_the_rest(self) -> None:
        """Go on with dependents."""
        try:
            while self._unresolved:
                self._unresolved = False
                self._run(self._links.resolve)
        except StoreError as error:
            # The caller's own request is durable; the next exchange or sweep goes on with this.
            logger.warning("some dependents will be dealt with later: %s", error)

    def rebalance_the_rest(self) -> None:
        """Place jobs anew that have to be."""
        try:
            while self._run(lambda step: rebalance(step, self._ready)):
                pass
        except StoreError as error:
            # The caller's own request is durable; the next lease or sweep goes on with this.
            logger.warning("some jobs will be reordered later: %s", error)
