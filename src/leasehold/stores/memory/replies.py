"""Replies to requests that may be sent twice."""

from __future__ import annotations

from leasehold.core.rules.replies import REPLIES_KEPT_SECONDS, REPLIES_MAX
from leasehold.stores.memory.state import State


def find(state: State, request_id: str) -> bytes | None:
    """The reply to a request that was carried out recently."""
    at, data = state.replies.get(request_id, (0, b""))
    return data if data and at >= state.now - REPLIES_KEPT_SECONDS * 1e6 else None


def keep(state: State, request_id: str, data: bytes) -> None:
    """Store the reply to a request for a while."""
    replies = state.replies
    replies.pop(request_id, None)
    replies[request_id] = (state.now, data)
    oldest = state.now - REPLIES_KEPT_SECONDS * 1e6
    while len(replies) > REPLIES_MAX or next(iter(replies.values()))[0] < oldest:
        replies.popitem(last=False)
