"""Where the blobs of a store are: URL or path -> blob store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from leasehold.blobs.contract import BlobStore, KeepsOwnBlobs
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BlobReference
from leasehold.errors import UnsupportedError

if TYPE_CHECKING:
    from leasehold.blobs.folder import FolderBlobs

BlobPlace = str | os.PathLike[str] | Literal[False] | None
"""A folder, an s3:// URL, False for no blobs at all, or None for the store's own place."""


def _check(place: object) -> None:
    """Refuse a value that can be no place."""
    if place is None:
        return
    if not isinstance(place, str | os.PathLike):
        raise TypeError(f"blobs must be a folder, an s3:// URL, False or None, not {place!r}")
    scheme, separator, _ = os.fspath(place).partition("://")
    if separator and scheme != "s3":
        raise UnsupportedError(
            f"'{scheme}://...' is not a place for blobs: give a folder or s3://bucket/prefix"
        )


def open_place(place: str | os.PathLike[str] | None, store: Store) -> tuple[BlobStore, str] | None:
    """The blob store for this store, and the id under which its blobs stand there.

    None if no place was named, and the store has none of its own.
    """
    _check(place)
    about = store.describe()
    store_id = about.get("store_id")
    if store_id is None:
        # It ends with its process: blobs left anywhere else would never be cleaned up.
        if place is not None:
            raise UnsupportedError(
                "this store has no id of its own to distinguish its blobs from those of other "
                "stores: leave out blobs=..., or use a SQLite file"
            )
        if about.get("kind") != "memory":
            return None
        from leasehold.blobs.memory import memory_blobs_of

        return memory_blobs_of(store), "memory"
    if place is not None and os.fspath(place).startswith("s3://"):
        from leasehold.blobs.s3 import S3Blobs

        return S3Blobs(os.fspath(place)), str(store_id)
    if place is None and isinstance(store, KeepsOwnBlobs):
        return store.blob_store(), str(store_id)
    folder = f"{about['path']}-blobs" if place is None and "path" in about else place
    if folder is None:
        return None
    from leasehold.blobs.folder import FolderBlobs

    synced = about.get("durability") != "normal"
    return FolderBlobs(os.fspath(folder), synced=synced), str(store_id)


def folder_of(reference: BlobReference) -> FolderBlobs | None:
    """The folder that a blob was written to, to read it there; None for a blob that is no file."""
    if reference.kind != "folder" or not reference.place:
        return None
    from leasehold.blobs.folder import FolderBlobs

    return FolderBlobs(reference.place)
