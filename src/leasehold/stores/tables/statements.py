"""The connection that statements are executed on, for any database.

A statement in this folder is the same text for every database. Its placeholders are numbered ($1)
in the order in which they first appear: PostgreSQL goes by the number, SQLite takes $1 for a name
and goes by the order. Lists of values are one parameter (`Dialect`). What else has to be said
differently (many rows at once, the order of joins) is said by the store itself, in a method of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, Protocol


class SqlCursor(Protocol):
    """The result of a statement."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Execute(Protocol):
    """Executes a statement with its values."""

    def __call__(self, statement: str, values: Any = None, /) -> SqlCursor: ...


class SqlConnection(Protocol):
    """What statements are executed on: a connection, or a write."""

    @property
    def execute(self) -> Execute: ...


class Dialect(NamedTuple):
    """How a database takes a list of values as one parameter, and other words of its own."""

    is_one_of: str
    """Follows a column; the placeholder is put into it."""
    listed: Callable[[Collection[Any]], Any]
    """The parameter."""
    no_bytes: str
    """An empty value of bytes."""

    def among(self, column: str, placeholder: str) -> str:
        """Holds where a column has one of the values."""
        return f"{column} {self.is_one_of.format(placeholder)}"
