"""The store's database for callers that only read: reads go to its replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from leasehold.errors import StoreUnavailableError
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import SqlConnection, one_moment
from leasehold.stores.postgres.server.failures import TRY_AGAIN, translated
from leasehold.stores.postgres.server.replica import Replica
from leasehold.stores.postgres.writing.database import Database

T = TypeVar("T")


class NoDeaths:
    """Workers hold their locks on the primary, so a replica cannot prove a death."""

    def workers(self, db: SqlConnection) -> set[str]:  # noqa: ARG002  # whatever it shows
        return set()


class LookingDatabase:
    """A `Database` that differs only in where it reads."""

    def __init__(self, database: Database, replica: Address) -> None:
        self._database = database
        self._replica = Replica(replica, database.store_id, database.env)
        self.deaths = NoDeaths()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextmanager
    def read(self) -> Iterator[SqlConnection]:
        """Several statements of one moment, on the replica if it can be reached."""
        try:
            with self._read() as db:
                yield db
        except TRY_AGAIN as error:
            raise StoreUnavailableError(
                f"{self._replica.address.shown}: the replica has ended this read, which held up "
                "changes that it had to apply; try again"
            ) from error

    @contextmanager
    def _read(self) -> Iterator[SqlConnection]:
        self._database.check_open()
        with translated(self._replica.address), self._replica.connection() as db:
            if db is not None:
                with one_moment(db):
                    yield db
                return
        with self._database.read() as db:
            yield db

    def look(self, operation: Callable[[SqlConnection], T]) -> T:
        """Read; if the replica ends this, as a standby ends long reads, the primary answers."""
        try:
            with self._read() as db:
                return operation(db)
        except TRY_AGAIN:
            return self._database.look(operation)

    def close(self) -> None:
        self._replica.close()
