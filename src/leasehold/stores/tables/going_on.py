"""The rest of a write, because it was too much for one."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from leasehold.errors import StoreError
from leasehold.stores.tables.dependents import TableLinks
from leasehold.stores.tables.ready import TableReady
from leasehold.stores.tables.rebalance import rebalance

T = TypeVar("T")

logger = logging.getLogger("leasehold.store")


class WritesGoOn(ABC):
    """Goes on with the rest of a write; others write in between."""

    _links: type[TableLinks]
    _ready: type[TableReady]
    _unresolved = False
    """Whether dependents may be left of the last write."""

    @abstractmethod
    def _run(self, operation: Callable[[Any], T]) -> T:
        """Carry out an operation in one transaction."""

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
            logger.warning("some jobs will be placed anew later: %s", error)
