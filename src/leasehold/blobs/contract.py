"""The blob store contract: bytes under keys, nothing else. The conformance suite cites the clauses.

- BLO-4  `get` returns the bytes that were put under that key, or None if there are none and the
         blob store itself can be reached.
- BLO-5  A blob is there as a whole or not at all, whenever a writer dies; when `put` has returned
         it is as durable as the store's rows.
- BLO-6  `list` answers in the order of the keys, after a given one, leftovers of dead writers
         included.
- BLO-7  `delete` forgets the given keys; a missing one is no error.
- BLO-8  A blob store that cannot be reached, or refuses us, raises BlobUnavailableError; its errors
         name the key and the place, and no secret.
- BLO-9  Any number of threads and processes may call at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable


class BlobStore(Protocol):
    """Where blobs live. Keys are those of `core.model.blob.BlobKey`."""

    @property
    def kind(self) -> str:
        """The word for it in references: `folder`, `s3`, `postgres` or `memory`."""

    @property
    def place(self) -> str:
        """Its place, for people; without secrets."""

    def put(self, key: str, data: bytes) -> None:
        """Keep these bytes under a key, in place of older ones."""

    def get(self, key: str, bytes_max: int) -> bytes | None:
        """The bytes under a key, or its first `bytes_max`; None if there are none."""

    def list(self, store_id: str, after: str, limit: int) -> list[str]:
        """At most `limit` keys of one store after this key; empty at the end."""

    def delete(self, keys: Sequence[str]) -> None:
        """Forget these blobs."""


@runtime_checkable
class KeepsOwnBlobs(Protocol):
    """A store that keeps its blobs itself, unless another place is named for them."""

    def blob_store(self) -> BlobStore: ...


@runtime_checkable
class ReservingBlobStore(Protocol):
    """A blob store whose disk keeps room for the results of running jobs."""

    def refuse_when_low(self, size: int) -> None:
        """Raise StoreFullError if a new payload of this size would eat into that room."""


@runtime_checkable
class SigningBlobStore(BlobStore, Protocol):
    """A blob store that can give others access to single blobs."""

    def sign(self, method: Literal["GET", "PUT"], key: str) -> str:
        """A URL by which its bearer may read or write the blob under a key for a while."""
