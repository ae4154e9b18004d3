"""Blobs of a store behind a service: carried by it, or written and read by URLs that it signs."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.blob_calls import CARRIED_BYTES_MAX, BlobCarrier
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BlobReference, OwnerKind
from leasehold.env import SYSTEM, Env
from leasehold.errors import BlobUnavailableError, PayloadTooLargeError

_REQUEST_SECONDS: Final = 600.0
"""A gigabyte through a slow line."""


class CarriedBlobs(Blobs):
    """The same to its users; blobs without a job are the service's to delete."""

    def __init__(self, store: Store, carrier: BlobCarrier, *, env: Env = SYSTEM) -> None:
        super().__init__(store, False, env=env)
        self._carrier = carrier

    def put(self, kind: OwnerKind, owner: str, data: bytes, codec: str, version: int = 0) -> bytes:
        self.check_size(len(data))
        digest = hashlib.sha256(data).hexdigest()
        put = self._carrier.put_blob(
            kind, owner, codec, size=len(data), sha256=digest, version=version
        )
        if put.url is not None:
            _request("PUT", put.url, data)
        elif len(data) > CARRIED_BYTES_MAX:
            raise PayloadTooLargeError(
                f"{len(data):,} bytes exceed the limit of a service, {CARRIED_BYTES_MAX:,}: let "
                "it keep large payloads on S3 (queuectl serve --blobs s3://bucket/prefix), or "
                "store the data elsewhere and pass its address"
            )
        else:
            put = self._carrier.put_blob(
                kind, owner, codec, size=len(data), sha256=digest, version=version, data=data
            )
        return put.reference

    def _read(self, reference: BlobReference, document: bytes) -> tuple[bytes | None, str]:
        fetched = self._carrier.get_blob(document)
        data = fetched.data
        if fetched.url is not None:
            data = _request("GET", fetched.url, None, bytes_max=reference.size + 1)
        return data, f"the blob store of {self._carrier!r}"


def _request(method: str, url: str, data: bytes | None, bytes_max: int = 0) -> bytes | None:
    """Write or read a blob where a URL says; None if nothing is there.

    The URL is a secret: no error has more of it than where it leads.
    """
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme not in ("http", "https"):
        raise BlobUnavailableError(
            f"the service sent no signed web address for a blob, but {place}"
        )
    # Without a type urllib says that it is a form, which was not signed.
    headers = {"Content-Type": "application/octet-stream"} if data is not None else {}
    request = Request(url, data, headers, method=method)  # noqa: S310  # checked above
    try:
        with urlopen(request, timeout=_REQUEST_SECONDS) as answer:  # noqa: S310
            read: bytes = answer.read(bytes_max)
            return read
    except HTTPError as error:
        told = error.read(4096)
        # The storage says 404 for both; a bucket that is missing is no proof of a loss.
        if error.code == HTTPStatus.NOT_FOUND and method == "GET" and b"NoSuchBucket" not in told:
            return None
        raise BlobUnavailableError(
            f"a blob cannot be moved to or from {place}: it answered with HTTP {error.code}. "
            "Check the bucket and the clocks of both machines."
        ) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise BlobUnavailableError(
            f"a blob cannot be moved to or from {place}, where the service keeps blobs: {reason}"
        ) from None
