"""Payloads and results as plain data, without a task that says which types they have."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from leasehold.core.model.blob import BLOB_CODEC
from leasehold.errors import PayloadError

LEFT_OUT: Final = "left out"
"""The codec of a payload or a result that a search was asked to leave out."""


def plain(data: bytes, codec: str, job_id: str, what: str) -> Any:
    """Decode JSON; raises PayloadError, with advice, for every other codec."""
    if codec == LEFT_OUT:
        raise PayloadError(f"the {what} of job {job_id} was left out of this search: get the job")
    if codec == BLOB_CODEC:
        raise PayloadError(
            f"the {what} of job {job_id} is kept in a blob store: read it with queue.{what}_of(job)"
        )
    if codec == "pickle":
        raise PayloadError(
            f"the {what} of job {job_id} is a signed pickle: only a TaskQueue with its key reads it"
        )
    if codec != "json":
        raise PayloadError(
            f"the {what} of job {job_id} is encoded as {codec!r}, which nothing here reads"
        )
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PayloadError(f"the {what} of job {job_id} is not JSON: {error}") from None
