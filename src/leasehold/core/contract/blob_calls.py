"""Blobs across a network: the calls that carry them to and from a store behind a service.

A remote client needs no access to the blob store. A blob goes through the service, or straight to
the storage by a URL that the service has signed for this one blob. The service makes the keys, so
no client can overwrite an existing blob.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import msgspec

from leasehold.core.model.blob import OwnerKind

CARRIED_BYTES_MAX: Final = 60 * 1024 * 1024
"""The largest blob that goes through a service, in one call."""


class BlobPut(msgspec.Struct, frozen=True):
    """Where a blob is, or where it is to be written."""

    reference: bytes = b""
    """The reference to store in the row; empty if the blob has to come through the service."""
    url: str | None = None
    """Where to write the blob, with one PUT, before the reference is given to anybody."""


class BlobFetched(msgspec.Struct, frozen=True):
    """A blob, or where to read it; neither if it is lost."""

    data: bytes | None = None
    url: str | None = None


@runtime_checkable
class BlobCarrier(Protocol):
    """A store that carries blobs to and from where they are kept."""

    def put_blob(
        self,
        kind: OwnerKind,
        owner: str,
        codec: str,
        *,
        size: int,
        sha256: str,
        version: int = 0,
        data: bytes | None = None,
    ) -> BlobPut:
        """Store a payload, or a result under the lease `version`; without `data`, ask where to
        write it.
        """

    def get_blob(self, document: bytes) -> BlobFetched:
        """The data that a reference stands for."""
