"""Large payloads and results: a row's reference to data kept in a blob store, and the blob's key.

A store keeps PAYLOAD_BYTES_MAX of a payload or a result. Larger data is a *blob*, in a blob store,
and the row holds a small reference under the codec `blob`. Stores carry it like any other document;
only the fingerprint of an idempotent submit looks into it.

A clean-up finds everything it must know of a blob in its key: the store and the job it belongs to,
which lease's result it is, and when it was made. No key is ever used twice, so that writing a blob
never changes one that is in use.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal

import msgspec

from leasehold.env import from_micros
from leasehold.errors import BlobDamagedError

BLOB_CODEC: Final = "blob"
"""The codec of a payload or a result that is only a reference."""

OwnerKind = Literal["payload", "result", "schedule"]

_SEGMENT_LENGTH_MAX: Final = 150
"""File systems allow 255 bytes per name, of which the rest of the last segment needs some."""
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_KEY: Final = re.compile(
    r"(?P<store>[a-z0-9]+)/\d{4}-\d\d-\d\d/(?P<owner>[a-z0-9_\-!/]+)"
    r"\.(?P<kind>payload|result|schedule)\.(?P<version>\d+)\.(?P<made>\d+)\.(?P<nonce>[0-9a-f]+)"
    r"(?P<unfinished>\.part)?",
    re.ASCII,
)


class BlobReference(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a job's row in place of the data."""

    kind: str
    """The kind of blob store that has it: `folder`, `s3` or `memory`."""
    key: str
    size: int
    sha256: str
    codec: str
    """How the data itself is encoded."""
    place: str = ""
    """The blob store's name for the place where it was written."""

    def encode(self) -> bytes:
        """The document for the row."""
        return msgspec.json.encode(self)

    def identity(self) -> bytes:
        """The part that is the same in all references to the same data."""
        return f"{self.codec}:{self.size}:{self.sha256}".encode()

    def check(self, data: bytes, place: str) -> bytes:
        """Return the data; raises BlobDamagedError if it is not the data that was written."""
        if len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256:
            return data
        raise BlobDamagedError(
            f"blob {self.key} in {place} is not what was written: {self.size:,} bytes with the "
            f"SHA-256 {self.sha256} were expected. Restore it from a copy and replay the job, or "
            "discard the job and submit it again."
        )


def decode_reference(document: bytes) -> BlobReference:
    """The reference in a row; raises BlobDamagedError for anything Leasehold cannot have written.

    Keys become paths, so a key that `BlobKey` did not make is never read.
    """
    try:
        reference = msgspec.json.decode(document, type=BlobReference)
    except msgspec.DecodeError as error:
        raise BlobDamagedError(f"the reference to a blob is damaged: {error}") from error
    if parse_key(reference.key) is None or reference.size < 0:
        raise BlobDamagedError(f"the reference to a blob names an impossible key: {reference.key}")
    return reference


def names_blob_of(document: bytes, kind: OwnerKind, owner: str) -> bool:
    """Whether a reference names a blob that was written for this owner.

    Otherwise a caller who knows a key could read the blob through a job of their own, and delete
    both.
    """
    key = _key_in(document)
    return key is not None and (key.kind, key.owner) == (kind, owner)


def names_foreign_blob(document: bytes, store_id: str) -> bool:
    """Whether a reference names a blob of another store than this."""
    key = _key_in(document)
    return key is not None and key.store_id != store_id


def _key_in(document: bytes) -> BlobKey | None:
    try:
        return parse_key(decode_reference(document).key)
    except BlobDamagedError:
        return None


class BlobKey(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a blob, taken apart."""

    store_id: str
    """The store it belongs to: stores may share a bucket, and none cleans up another's blobs."""
    kind: OwnerKind
    owner: str
    """The id of the job, or the name of the schedule."""
    version: int = 0
    """For a result, the lease under which it was made."""
    made_at: int
    """When it was made by the store's clock, in microseconds since 1970."""
    nonce: str
    is_unfinished: bool = False
    """Whether it is still being written, or was left by a writer that died."""

    @property
    def text(self) -> str:
        """The key itself.

        >>> BlobKey(
        ...     store_id="5e1f", kind="result", owner="Job 1", version=7, made_at=0, nonce="ab"
        ... ).text
        '5e1f/1970-01-01/!4aob!201.result.7.0.ab'
        """
        name = _escaped(self.owner)
        segments = [
            name[start : start + _SEGMENT_LENGTH_MAX]
            for start in range(0, len(name), _SEGMENT_LENGTH_MAX)
        ]
        day = from_micros(self.made_at).date().isoformat()
        rest = f"{self.kind}.{self.version}.{self.made_at}.{self.nonce}"
        return f"{self.store_id}/{day}/{'/'.join(segments)}.{rest}"


def parse_key(text: str) -> BlobKey | None:
    """A key taken apart; None for a key that is not ours."""
    found = _KEY.fullmatch(text)
    if found is None:
        return None
    owner = _unescaped(found["owner"].replace("/", ""))
    if owner is None:
        return None
    kind: OwnerKind = found["kind"]  # type: ignore[assignment]  # The pattern names all three.
    key = BlobKey(
        store_id=found["store"],
        kind=kind,
        owner=owner,
        version=int(found["version"]),
        made_at=int(found["made"]),
        nonce=found["nonce"],
        is_unfinished=found["unfinished"] is not None,
    )
    # Each name has one form: a path with unusual segments is not a key.
    try:
        return key if key.text == text.removesuffix(".part") else None
    except (OverflowError, ValueError):
        return None


def _escaped(name: str) -> str:
    # Capitals are escaped too, since some file systems ignore case.
    return "".join(chr(byte) if byte in _PLAIN else f"!{byte:02x}" for byte in name.encode("utf-8"))


def _unescaped(name: str) -> str | None:
    plain, *escaped = name.split("!")
    try:
        data = plain.encode() + b"".join(
            bytes.fromhex(part[:2]) + part[2:].encode() for part in escaped
        )
        return data.decode("utf-8")
    except ValueError:
        return None
