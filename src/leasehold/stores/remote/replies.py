"""The meaning of an HTTP reply: an answer, or an error."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from leasehold.core.contract.wire import MEDIA_TYPE
from leasehold.core.model.error_documents import error_from
from leasehold.error_codes import CodedError
from leasehold.errors import StoreError, UnsupportedError
from leasehold.stores.remote.address import Address
from leasehold.stores.remote.carrying import FailedError

_AWAY: Final = frozenset({502, 503, 504})
"""The answers of a balancer while the service is away."""


class Reply(NamedTuple):
    """The reply."""

    status: int
    media_type: str
    body: bytes


def answer_of(reply: Reply, address: Address) -> bytes:
    """The body of an answer; raises the error in the reply, or FailedError."""
    if reply.status == 200 and reply.media_type == MEDIA_TYPE:
        return reply.body
    problem = _problem(reply)
    if problem is not None:
        raise problem
    if reply.status in _AWAY:
        raise FailedError(f"HTTP {reply.status}", was_sent=reply.status != 503)
    if reply.status >= 500:
        raise StoreError(f"{address} failed with HTTP {reply.status}; its log says why")
    raise UnsupportedError(
        f"{address} is not a Leasehold service, or runs another version: it answered with HTTP "
        f"{reply.status} ({reply.media_type or 'no type'})"
    )


def _problem(reply: Reply) -> CodedError | None:
    if reply.media_type != "application/problem+json":
        return None
    told: dict[str, Any] = json.loads(reply.body)
    if told.get("code") == "internal":
        return None
    return error_from({**told, "message": told.get("detail", "")})
