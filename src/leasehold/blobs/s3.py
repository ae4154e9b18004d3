"""Blobs on S3-compatible storage, through obstore (the extra `leasehold[s3]`).

s3://bucket/prefix                                    credentials and region as AWS tools find them
s3://bucket/prefix?endpoint=http://minio:9000&region=us-east-1
s3://bucket?access_key_id=...&secret_access_key=...   better left to the environment
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from leasehold.core.model.phrases import listed
from leasehold.errors import BlobError, BlobUnavailableError, UnsupportedError

PARAMETERS: Final = (
    "endpoint",
    "region",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "virtual_hosted_style_request",
)
KEY_BYTES_MAX: Final = 1024
_CONNECT: Final = timedelta(seconds=10)
_REQUEST: Final = timedelta(minutes=10)
"""A gigabyte through a slow line."""
_SIGNED: Final = timedelta(minutes=15)
"""How long a signed URL lets somebody in: it is used at once, but a machine's clock may be off."""
_RETRY: Final = timedelta(seconds=30)
"""Then the job's own backoff is the better way to wait."""


class S3Blobs:
    """Objects in a bucket; see `BlobStore`. One request writes a blob, which S3 makes atomic."""

    kind = "s3"

    def __init__(self, url: str, *, retries: int = 3) -> None:
        parts = urlsplit(url)
        self._prefix = unquote(parts.path).strip("/")
        self._store = _open(parts.netloc, dict(parse_qsl(parts.query)), retries)
        self._place = f"s3://{parts.netloc}/{self._prefix}".rstrip("/")

    @property
    def place(self) -> str:
        return self._place

    def put(self, key: str, data: bytes) -> None:
        path = self._path_for_writing(key)
        try:
            # Not in parts, whatever its size: an upload that was given up would stay for ever.
            self._store.put(path, data, use_multipart=False)
        except Exception as error:
            raise self._unavailable("written", key, error) from error

    def get(self, key: str, bytes_max: int) -> bytes | None:
        try:
            found = self._store.get(self._path(key))
            if found.meta["size"] <= bytes_max:
                return bytes(found.bytes())
            return bytes(self._store.get_range(self._path(key), start=0, end=bytes_max))
        except FileNotFoundError as error:
            # The storage says 404 for both; a bucket that is missing is no proof of a loss.
            if "NoSuchBucket" in str(error):
                raise self._unavailable("read", key, error) from error
            return None
        except Exception as error:
            raise self._unavailable("read", key, error) from error

    def list(self, store_id: str, after: str, limit: int) -> list[str]:
        found: list[str] = []
        try:
            pages = self._store.list(
                self._path(store_id), offset=self._path(after) if after else None, chunk_size=1000
            )
            for page in pages:
                found += [meta["path"] for meta in page]
                if len(found) >= limit:
                    break
        except Exception as error:
            raise self._unavailable("listed", store_id, error) from error
        start = len(self._prefix) + 1 if self._prefix else 0
        return sorted(path[start:] for path in found)[:limit]

    def delete(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        try:
            self._store.delete([self._path(key) for key in keys])
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._unavailable("deleted", keys[0], error) from error

    def sign(self, method: Literal["GET", "PUT"], key: str) -> str:
        from obstore import sign

        path = self._path_for_writing(key)
        try:
            return sign(self._store, method, path, _SIGNED)
        except Exception as error:
            raise self._unavailable("signed", key, error) from error

    def _path_for_writing(self, key: str) -> str:
        path = self._path(key)
        if len(path) > KEY_BYTES_MAX:
            raise BlobError(
                f"blob {key} cannot be kept in {self.place}: its key has {len(path)} characters, "
                f"and S3 takes {KEY_BYTES_MAX}. Use shorter job ids, of plain letters and digits."
            )
        return path

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def _unavailable(self, done: str, key: str, error: Exception) -> BlobUnavailableError:
        # The first line says what happened; what follows may quote the request.
        reason = str(error).partition("\n")[0][:300]
        return BlobUnavailableError(
            f"blob {key} cannot be {done} in {self.place}: {reason}. Check the bucket, the "
            "credentials and the network."
        )


def _open(bucket: str, options: dict[str, str], retries: int) -> Any:
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise UnsupportedError(
            "blobs on s3:// need the extra 's3': pip install 'leasehold[s3]' (it brings obstore)"
        ) from error
    unknown = sorted(options.keys() - set(PARAMETERS))
    if not bucket or unknown:
        # The parameters may hold a secret, and errors end up in logs: only names are told.
        raise UnsupportedError(
            f"blobs at s3://{bucket}: "
            + (f"unknown parameter {unknown[0]!r}" if unknown else "there is no bucket")
            + f"; give s3://bucket/prefix, and if need be {listed(PARAMETERS)}"
        )
    config: Any = options
    variables = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    named = filter(None, (options.get("endpoint"), *map(os.environ.get, variables)))
    plain_http = next(named, "").startswith("http://")
    return S3Store(
        bucket,
        config=config,
        client_options={
            "connect_timeout": _CONNECT,
            "timeout": _REQUEST,
            **({"allow_http": True} if plain_http else {}),
        },
        retry_config={"max_retries": retries, "retry_timeout": _RETRY},
    )
