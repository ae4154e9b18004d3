"""The interface to the rest of Leasehold: store large data, and fetch it again."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from leasehold.blobs.cleaning import BlobsCleaned, clean_up
from leasehold.blobs.contract import BlobStore, ReservingBlobStore, SigningBlobStore
from leasehold.blobs.memory import MemoryBlobs
from leasehold.blobs.place import BlobPlace, folder_of, open_place
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import (
    BLOB_CODEC,
    BlobKey,
    BlobReference,
    OwnerKind,
    decode_reference,
)
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.limits import BLOB_BYTES_MAX, PAYLOAD_BYTES_MAX
from leasehold.core.model.phrases import counted
from leasehold.core.model.records import Submitted
from leasehold.core.rules.blob_retention import own_blobs
from leasehold.env import SYSTEM, Env, to_micros
from leasehold.errors import (
    BlobError,
    BlobLostError,
    BlobUnavailableError,
    LeaseholdError,
    PayloadTooLargeError,
    StoreError,
)

logger = logging.getLogger("leasehold.blobs")

MEMORY_CLEAN_BYTES: Final = 64 * 1024 * 1024
"""Blobs in memory are cleaned up when there are more than this, and twice as many as after the last
time.
"""


class HeldLease(Protocol):
    """A lease, or its holder's words across a network: anything that names a job and version."""

    @property
    def job_id(self) -> str: ...

    @property
    def version(self) -> int: ...


class Blobs:
    """The blobs of one store. Nothing is created before the first large value.

    >>> from leasehold.stores.memory import MemoryStore
    >>> blobs = Blobs(MemoryStore())
    >>> draft = blobs.keep_payload(Draft(id="job-1", task="resize", payload=b"[" + b"1" * 300_000))
    >>> draft.codec, len(draft.payload) < 300
    ('blob', True)
    >>> data, codec = blobs.fetch(draft.payload)
    >>> len(data), codec
    (300001, 'json')
    """

    def __init__(
        self,
        store: Store,
        place: BlobPlace = None,
        *,
        env: Env = SYSTEM,
        bytes_max: int = BLOB_BYTES_MAX,
    ) -> None:
        self._store = store
        self._place = place
        self._env = env
        self._lock = threading.Lock()
        self._opened = open_place(place, store) if place else None
        self._clean_above = MEMORY_CLEAN_BYTES
        self.bytes_max = bytes_max
        """The largest payload or result that it accepts."""

    # -- writing -----------------------------------------------------------------------------

    def keep_payload(self, draft: Draft) -> Draft:
        """The draft of a job with its payload stored as a blob; it must be submitted at once."""
        return self._kept(draft, "payload", draft.id)

    def keep_schedule_payload(self, name: str, draft: Draft, known: Draft | None) -> Draft:
        """The same for the job of a schedule, which all its jobs share.

        A schedule is declared again at every start of a program: an unchanged payload stays where
        it is.
        """
        if known is not None and known.codec == BLOB_CODEC:
            reference = decode_reference(known.payload)
            if reference.identity() == _identity(draft.payload, draft.codec):
                return msgspec.structs.replace(draft, payload=known.payload, codec=BLOB_CODEC)
        return self._kept(draft, "schedule", name)

    def keep_result(self, lease: HeldLease, data: bytes, codec: str) -> tuple[bytes, str]:
        """Store a result before it is settled; returns the reference and its codec."""
        return self.put("result", lease.job_id, data, codec, lease.version), BLOB_CODEC

    def forget_refused(
        self, drafts: Sequence[Draft], answers: Sequence[Submitted | LeaseholdError]
    ) -> None:
        """Delete payloads stored for jobs that were refused or are duplicates.

        An error of the store itself does not say whether it has the job: those are left alone.
        """
        self.forget_payloads(
            [
                draft
                for draft, answer in zip(drafts, answers, strict=True)
                if (
                    answer.is_duplicate
                    if isinstance(answer, Submitted)
                    else not isinstance(answer, StoreError)
                )
            ]
        )

    def forget_payloads(self, drafts: Sequence[Draft]) -> None:
        """Delete payloads stored for jobs that no store has."""
        self._forget([decode_reference(draft.payload).key for draft in drafts])

    def forget_jobs(self, jobs: Iterable[Job | LeaseholdError]) -> None:
        """Delete the blobs of discarded jobs."""
        self._forget([key for job in jobs if isinstance(job, Job) for key in own_blobs(job)])

    def _kept(self, draft: Draft, kind: OwnerKind, owner: str) -> Draft:
        # Other errors of the job are raised before anything is written.
        msgspec.structs.replace(draft, payload=b"").check()
        reference = self.put(kind, owner, draft.payload, draft.codec)
        return msgspec.structs.replace(draft, payload=reference, codec=BLOB_CODEC)

    def put(self, kind: OwnerKind, owner: str, data: bytes, codec: str, version: int = 0) -> bytes:
        """Store data for its owner; returns the reference to it."""
        self.check_size(len(data))
        opened = self._open()
        if opened is None:
            raise PayloadTooLargeError(
                f"{len(data):,} bytes exceed the {PAYLOAD_BYTES_MAX:,} that are kept inline, and "
                "this store has no blob store: name one with TaskQueue(blobs=...)"
            )
        blob_store, store_id = opened
        if kind != "result" and isinstance(blob_store, ReservingBlobStore):
            blob_store.refuse_when_low(len(data))
        key = self._new_key(store_id, kind, owner, version)
        blob_store.put(key, data)
        self._clean_memory(blob_store)
        digest = hashlib.sha256(data).hexdigest()
        return BlobReference(
            kind=blob_store.kind,
            key=key,
            size=len(data),
            sha256=digest,
            codec=codec,
            place=blob_store.place,
        ).encode()

    def check_size(self, size: int) -> None:
        """Refuse data larger than any blob."""
        if size > self.bytes_max:
            raise PayloadTooLargeError(
                f"{size:,} bytes exceed the limit of a blob, {self.bytes_max:,}: "
                "store the data elsewhere and pass its address"
            )

    def _new_key(self, store_id: str, kind: OwnerKind, owner: str, version: int) -> str:
        return BlobKey(
            store_id=store_id,
            kind=kind,
            owner=owner,
            version=version,
            made_at=to_micros(self._store.now()),
            nonce=self._env.new_secret(),
        ).text

    # -- for callers without access to the blob store -----------------------------------------

    def sign_put(
        self, kind: OwnerKind, owner: str, codec: str, *, size: int, sha256: str, version: int = 0
    ) -> tuple[bytes, str] | None:
        """The reference to a blob that another process may write, and its URL; None without S3."""
        self.check_size(size)
        opened = self._open()
        if opened is None:
            return None
        blob_store, store_id = opened
        if not isinstance(blob_store, SigningBlobStore):
            return None
        key = self._new_key(store_id, kind, owner, version)
        reference = BlobReference(
            kind=blob_store.kind,
            key=key,
            size=size,
            sha256=sha256,
            codec=codec,
            place=blob_store.place,
        )
        return reference.encode(), blob_store.sign("PUT", key)

    def sign_get(self, reference: BlobReference) -> str | None:
        """The URL by which another process may read a blob; None without S3."""
        blob_store = self._holder_of(reference)
        if not isinstance(blob_store, SigningBlobStore) or blob_store.kind != reference.kind:
            return None
        return blob_store.sign("GET", reference.key)

    def get(self, reference: BlobReference) -> bytes | None:
        """The stored bytes of a blob, unchecked; None if it is lost.

        It is looked for in this place first: whole stores are moved, with their blobs. Then in the
        folder that it was written to, if that is another one and can be reached from here.
        """
        blob_store = self._holder_of(reference)
        is_elsewhere = _is_elsewhere(reference, blob_store)
        try:
            data = blob_store.get(reference.key, reference.size + 1)
        except BlobUnavailableError:
            if not is_elsewhere:
                raise
            data = None
        if data is not None or not is_elsewhere:
            return data
        folder = folder_of(reference)
        if folder is not None:
            with suppress(BlobUnavailableError):
                data = folder.get(reference.key, reference.size + 1)
        if data is None:
            raise _kept_elsewhere(reference, blob_store.place)
        return data

    def is_own(self, key: BlobKey) -> bool:
        """Whether a key is one of this store's: others may share its place."""
        opened = self._open()
        return opened is not None and opened[1] == key.store_id

    # -- reading -----------------------------------------------------------------------------

    def fetch(self, document: bytes) -> tuple[bytes, str]:
        """The data that a reference stands for, and its codec; whole, or an error."""
        reference = decode_reference(document)
        data, place = self._read(reference, document)
        if data is None:
            raise BlobLostError(
                f"blob {reference.key} is not in {place}. Restore it from a "
                "copy and replay the job, or discard the job and submit it again."
            )
        return reference.check(data, place), reference.codec

    def _read(self, reference: BlobReference, _document: bytes) -> tuple[bytes | None, str]:
        """The data as stored, and where it was found."""
        return self.get(reference), self._holder_of(reference).place

    def _holder_of(self, reference: BlobReference) -> BlobStore:
        opened = self._open()
        if opened is None:
            raise _kept_elsewhere(reference, "no place at all")
        return opened[0]

    # -- cleaning up -------------------------------------------------------------------------

    def clean_up(
        self, *, keys_max: int | None = None, should_stop: Callable[[], bool] = lambda: False
    ) -> BlobsCleaned:
        """Delete blobs that no longer belong to anything; see `cleaning`."""
        opened = self._open()
        if opened is None:
            return BlobsCleaned()
        return clean_up(self._store, *opened, keys_max=keys_max, should_stop=should_stop)

    def _clean_memory(self, blob_store: BlobStore) -> None:
        # A store in memory forgets its jobs automatically, an hour after they have ended.
        if isinstance(blob_store, MemoryBlobs) and blob_store.bytes_held > self._clean_above:
            self.clean_up()
            self._clean_above = max(MEMORY_CLEAN_BYTES, 2 * blob_store.bytes_held)

    def _forget(self, keys: Sequence[str]) -> None:
        opened = self._open() if keys else None
        if opened is None:
            return
        try:
            opened[0].delete(keys)
        except BlobError as error:
            logger.warning("%s left to the next clean-up: %s", counted(len(keys), "blob"), error)

    def _open(self) -> tuple[BlobStore, str] | None:
        place = self._place
        if self._opened is None and place is not False:
            with self._lock:
                self._opened = self._opened or open_place(place, self._store)
        return self._opened


def _is_elsewhere(reference: BlobReference, here: BlobStore) -> bool:
    """Whether a blob was written to another place than this; a database has several names."""
    if reference.kind != here.kind:
        return True
    return here.kind in ("folder", "s3") and reference.place not in ("", here.place)


def _kept_elsewhere(reference: BlobReference, here: str) -> BlobUnavailableError:
    written_to = reference.place or f"a blob store of kind {reference.kind!r}"
    return BlobUnavailableError(
        f"blob {reference.key} was written to {written_to}, and this process looks in {here}: name "
        "the same place in every process, with TaskQueue(blobs=...) or `queuectl serve --blobs`"
    )


def _identity(data: bytes, codec: str) -> bytes:
    digest = hashlib.sha256(data).hexdigest()
    return BlobReference(kind="", key="", size=len(data), sha256=digest, codec=codec).identity()
