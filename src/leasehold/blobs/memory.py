"""Blobs in this process, for a store that is in this process too: both end together."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from leasehold.core.contract.store import Store

_lock: Final = threading.Lock()
_by_store: Final[WeakKeyDictionary[Store, MemoryBlobs]] = WeakKeyDictionary()


class MemoryBlobs:
    """A dictionary; see `BlobStore`."""

    kind = "memory"
    place = "this process"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blobs: dict[str, bytes] = {}
        self.bytes_held = 0

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self.bytes_held += len(data) - len(self._blobs.get(key, b""))
            self._blobs[key] = data

    def get(self, key: str, bytes_max: int) -> bytes | None:
        data = self._blobs.get(key)
        return None if data is None else data[:bytes_max]

    def list(self, store_id: str, after: str, limit: int) -> list[str]:
        with self._lock:
            keys = sorted(key for key in self._blobs if key.startswith(f"{store_id}/"))
        start = bisect_right(keys, after)
        return keys[start : start + limit]

    def delete(self, keys: Sequence[str]) -> None:
        with self._lock:
            for key in keys:
                self.bytes_held -= len(self._blobs.pop(key, b""))


def memory_blobs_of(store: Store) -> MemoryBlobs:
    """The blobs of this very store: every queue on it has the same."""
    with _lock:
        return _by_store.setdefault(store, MemoryBlobs())
