"""Moving blobs along with their store, from the source's place to the target's.

Only where both are the stores' own: blobs in a place named by the user stay there, and are found
when that place is named again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from leasehold.blobs.contract import BlobStore
from leasehold.blobs.place import open_place
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import parse_key
from leasehold.core.model.limits import BLOB_BYTES_MAX

LIST_AT_ONCE: Final = 1000


def move_blobs(
    source: Store, target: Store, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Copy every blob that the target does not have yet; returns how many it has now.

    The source keeps its own. The target keeps them under the id of the source, which becomes its
    own when it takes the source's place.
    """
    here, there = open_place(None, source), open_place(None, target)
    if here is None or there is None:
        return 0
    (old, store_id), (new, _) = here, there
    known = set(_keys(new, store_id))
    count = 0
    for key in _keys(old, store_id):
        if key not in known and (data := old.get(key, BLOB_BYTES_MAX)) is not None:
            new.put(key, data)
        count += 1
        progress(count)
    return count


def _keys(blobs: BlobStore, store_id: str) -> Iterator[str]:
    """The keys of whole blobs."""
    after = ""
    while keys := blobs.list(store_id, after, LIST_AT_ONCE):
        yield from (key for key in keys if parse_key(key) is not None)
        after = keys[-1]
