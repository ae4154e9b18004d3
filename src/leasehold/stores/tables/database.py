"""A store's database, as verbs that are more than one read or write use it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from leasehold.core.model.lives import LivesHere
from leasehold.env import Env
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

T = TypeVar("T")


class TableDatabase(Protocol):
    """See `writing.database` of each store."""

    @property
    def env(self) -> Env: ...

    @property
    def lives(self) -> LivesHere: ...

    def read(self) -> AbstractContextManager[SqlConnection]:
        """A connection for long walks, in which each statement may be of another moment."""

    def look(self, operation: Callable[[SqlConnection], T]) -> T:
        """Read: several statements, one moment; and once more without cells that are damaged."""

    def write(self, operation: Callable[[TableStep], T], *, go_on: bool = True) -> T:
        """Carry out an operation in one transaction, and what earlier ones have left to do."""

    def rebalance_the_rest(self) -> None:
        """Place jobs anew that have to be; others write in between."""

    def now(self, db: SqlConnection) -> int:
        """The store's time in microseconds, for who only looks."""
