"""Large payloads and results in the database itself, so that every process with the store has them.

This is where a PostgreSQL store keeps them by default. A blob is written in a transaction of its
own, in parts: no rule concerns it, so it waits for no turn and blocks none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from leasehold.errors import BlobUnavailableError, StoreError, StoreUnavailableError
from leasehold.stores.postgres.server.connection import SqlConnection

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

T = TypeVar("T")

PART_BYTES: Final = 4 * 1024 * 1024
"""A value of more than a gigabyte would not fit into a row, and a nearly as large one not into
memory.
"""

FORGET: Final = "DELETE FROM blob WHERE key = ANY($1)"
KEEP: Final = "INSERT INTO blob VALUES ($1, $2, $3)"
READ: Final = "SELECT data FROM blob WHERE key = $1 AND part < $2 ORDER BY part"
# Every key of a store begins with its id and a slash, after which comes a 0.
LIST: Final = """
    SELECT key FROM blob
    WHERE part = 0 AND key > $2 AND key >= $1 || '/' AND key < $1 || '0' ORDER BY key LIMIT $3
"""


class TableBlobs:
    """A table; see `leasehold.blobs.contract.BlobStore`."""

    kind = "postgres"

    def __init__(self, database: Database) -> None:
        self._database = database
        self.place = database.address.shown

    def put(self, key: str, data: bytes) -> None:
        def keep(db: SqlConnection) -> None:
            db.execute(FORGET, ([key],))
            for part, start in enumerate(range(0, max(1, len(data)), PART_BYTES)):
                db.execute(KEEP, (key, part, data[start : start + PART_BYTES]))

        self._do(key, keep)

    def get(self, key: str, bytes_max: int) -> bytes | None:
        parts = 1 + bytes_max // PART_BYTES
        found = self._do(key, lambda db: db.execute(READ, (key, parts)).fetchall())
        return b"".join(data for (data,) in found)[:bytes_max] if found else None

    def list(self, store_id: str, after: str, limit: int) -> list[str]:
        place = f"{store_id}/..."
        found = self._do(place, lambda db: db.execute(LIST, (store_id, after, limit)).fetchall())
        return [key for (key,) in found]

    def delete(self, keys: Sequence[str]) -> None:
        if keys:
            self._do(keys[0], lambda db: db.execute(FORGET, ([*keys],)))

    def _do(self, key: str, operation: Callable[[SqlConnection], T]) -> T:
        """Do it in one transaction, and retry once if it fails, for example after a restart of the
        server.

        Doing it twice is harmless.
        """
        try:
            with suppress(StoreUnavailableError), self._database.beside_all() as db:
                return operation(db)
            with self._database.beside_all() as db:
                return operation(db)
        except StoreError as error:
            raise BlobUnavailableError(f"blob {key} in {self.place}: {error}") from error
