"""The clean-up of blobs: list them, ask the store which it still names, delete the rest.

It runs with the clean-up of the store. Its progress is kept in the blob store itself, so that a
pass may be short, and the next one, by any process, continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from leasehold.blobs.contract import BlobStore
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BLOB_CODEC, BlobKey, decode_reference, parse_key
from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.rules.blob_retention import belongs_to_job, is_young
from leasehold.env import to_micros

KEYS_PER_PASS: Final = 100_000
LIST_AT_ONCE: Final = 5000
ASK_AT_ONCE: Final = 100
"""Jobs read in one call: each may hold half a megabyte."""
_POSITION_BYTES_MAX: Final = 4096


class BlobsCleaned(msgspec.Struct, frozen=True):
    """The report of one pass."""

    looked_at: int = 0
    deleted: int = 0


def clean_up(
    store: Store,
    blobs: BlobStore,
    store_id: str,
    *,
    keys_max: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> BlobsCleaned:
    """One pass: over everything, or on from where the last one stopped over `keys_max` of them."""
    if not blobs.list(store_id, "", 1):
        return BlobsCleaned()  # Most stores never have a blob.
    # Age is measured up to here: a job submitted in a transaction that opens during the pass is
    # young, however long that stays open.
    now_micros = to_micros(store.now())
    remembered = f"{store_id}/clean-up"
    after = ""
    if keys_max is not None:
        after = (blobs.get(remembered, _POSITION_BYTES_MAX) or b"").decode(errors="replace")
    looked_at = deleted = 0
    while not should_stop() and (keys_max is None or looked_at < keys_max):
        keys = blobs.list(store_id, after, LIST_AT_ONCE)
        if not keys:
            after = ""
            break
        for start in range(0, len(keys), ASK_AT_ONCE):
            garbage = _garbage(store, keys[start : start + ASK_AT_ONCE], store_id, now_micros)
            blobs.delete(garbage)
            deleted += len(garbage)
        after = keys[-1]
        looked_at += len(keys)
    if after and keys_max is not None:
        blobs.put(remembered, after.encode())
    elif keys_max is not None:
        blobs.delete([remembered])
    return BlobsCleaned(looked_at, deleted)


def _garbage(store: Store, texts: Iterable[str], store_id: str, now_micros: int) -> list[str]:
    """The blobs that belong to no job; a name that is not a key of this store is left alone."""
    keys = [
        (text, key)
        for text in texts
        if (key := parse_key(text)) is not None and key.store_id == store_id
    ]
    jobs = _jobs(store, {key.owner for _, key in keys if key.kind != "schedule"})
    return [
        text
        for text, key in keys
        if not (
            _belongs_to_schedule(store, key, text, now_micros)
            if key.kind == "schedule"
            else belongs_to_job(key, text, jobs.get(key.owner), now_micros)
        )
    ]


def _jobs(store: Store, ids: set[str]) -> dict[str, Job]:
    if not ids:
        return {}
    where = JobFilter(ids=tuple(sorted(ids)))
    return {job.id: job for job in store.search(where, limit=len(ids)).jobs}


def _belongs_to_schedule(store: Store, key: BlobKey, text: str, now_micros: int) -> bool:
    """Whether the schedule, or any job that it has ever submitted, names this payload."""
    if is_young(key, now_micros):
        return True
    schedule = store.get_schedule(key.owner)
    if schedule is not None:
        job = schedule.draft.job
        if job.codec == BLOB_CODEC and decode_reference(job.payload).key == text:
            return True
    # It reads through the jobs, but only for a schedule that was removed or given another payload.
    where = JobFilter(metadata={"schedule": key.owner}, text=text)
    return bool(store.search(where, limit=1).jobs)
