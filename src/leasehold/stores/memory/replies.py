"""Replies to requests that may be sent twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.core.model.records import Submitted
from leasehold.core.rules.replies import (
    REPLIES_KEPT_SECONDS,
    REPLIES_MAX,
    digest_of_exchange,
    exchange_again,
    keep_exchange,
    keep_submit,
    submit_again,
)
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import reading
from leasehold.stores.memory.leasing import exchange
from leasehold.stores.memory.state import State

Answers = list[Submitted | LeaseholdError]


def exchange_once(
    state: State, request_id: str, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """An exchange, or the answer to it when it was carried out before."""
    digest = digest_of_exchange(settlements, request)
    before = _find(state, request_id)
    if before is not None:
        return exchange_again(before, digest, lambda job_id: reading.get(state, job_id))
    answer = exchange(state, settlements, request)
    _keep(state, request_id, keep_exchange(answer, digest))
    return answer


def submit_once(
    state: State, request_id: str, digest: bytes, submit: Callable[[State], Answers]
) -> Answers:
    """A submit, or the answer to it when it was carried out before."""
    before = _find(state, request_id)
    if before is not None:
        return submit_again(before, digest)
    answers = submit(state)
    _keep(state, request_id, keep_submit(answers, digest))
    return answers


def _find(state: State, request_id: str) -> bytes | None:
    at, data = state.replies.get(request_id, (0, b""))
    return data if data and at >= state.now - REPLIES_KEPT_SECONDS * 1e6 else None


def _keep(state: State, request_id: str, data: bytes) -> None:
    replies = state.replies
    replies.pop(request_id, None)
    replies[request_id] = (state.now, data)
    oldest = state.now - REPLIES_KEPT_SECONDS * 1e6
    while len(replies) > REPLIES_MAX or next(iter(replies.values()))[0] < oldest:
        replies.popitem(last=False)
