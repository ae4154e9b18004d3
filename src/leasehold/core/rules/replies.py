"""Requests that may be sent twice because a reply was lost, and the record of the first reply.

A caller across a network cannot know whether a request whose reply never came was carried out. It
sends it again under the same id, and gets the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from leasehold.core.model.error_documents import error_document, error_from
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import Exchange, Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.limits import NAME_LENGTH_MAX
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.core.model.text import is_text
from leasehold.errors import InvalidJobError, LeaseholdError

REPLIES_KEPT_SECONDS: Final = 600.0
"""How long a request may be repeated; a caller that retries for longer has to look first."""
REPLIES_MAX: Final = 100_000
"""The most replies remembered; the oldest are forgotten first."""


class RepeatableStore(Protocol):
    """The part of a store for callers whose replies may be lost.

    - RPT-1  A request with an id that was carried out before, within REPLIES_KEPT_SECONDS, changes
             nothing and gets the same answer. The reply is stored in the same write as its effects:
             after a crash both exist, or neither.
    - RPT-2  A request that was refused as a whole, with an error raised, has changed nothing and is
             not remembered: a repeat is tried again.
    - RPT-3  An id that was used for another request, of another kind or with other contents, raises
             InvalidJobError and changes nothing, as does an id that is empty, too long or not text.
    - RPT-4  A renewal may be repeated without an id: it is granted again, and never for less.
    """

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        """`submit`, carried out once however often it is sent."""

    def exchange_once(
        self,
        request_id: str,
        settlements: Sequence[Settlement] = (),
        request: LeaseRequest | None = None,
    ) -> Exchange:
        """`exchange`, carried out once however often it is sent.

        - RPT-5  A repeated exchange returns the leases of the first one with their present expiry;
                 leases that have ended meanwhile are left out.
        """


class LeaseKept(msgspec.Struct, frozen=True, array_like=True):
    """The fields of a lease that a job's own row does not have."""

    job_id: str
    version: int
    lease_seconds: float


class ExchangeReply(msgspec.Struct, frozen=True, tag="exchange"):
    """An exchange as it is remembered: payloads stay where they are."""

    settled: list[Settled | tuple[str, str, dict[str, Any]]]
    leases: list[LeaseKept]
    next_due_at: datetime | None
    next_tick_at: datetime | None
    settings_generation: int
    at: datetime | None
    digest: bytes


class SubmitReply(msgspec.Struct, frozen=True, tag="submit"):
    """A submit as it is remembered."""

    answers: list[Submitted | tuple[str, str, dict[str, Any]]]
    digest: bytes


_reply: Final = msgspec.msgpack.Decoder(ExchangeReply | SubmitReply)


def check_request_id(request_id: str) -> None:
    """Refuse an id that cannot be stored."""
    if not (0 < len(request_id) <= NAME_LENGTH_MAX and is_text(request_id)):
        raise InvalidJobError(f"a request id is text of 1 to {NAME_LENGTH_MAX} characters")


def check_reply(data: bytes) -> None:
    """Raise a ValueError for a value that is not a stored reply."""
    _reply.decode(data)


def digest_of_submit(drafts: Sequence[Draft], *, partial: bool) -> bytes:
    """A digest that tells a repeated submit from a different one under its id."""
    return _digest(drafts, partial)


def digest_of_exchange(settlements: Sequence[Settlement], request: LeaseRequest | None) -> bytes:
    """The same for an exchange."""
    return _digest(settlements, request)


def _digest(*asked: Any) -> bytes:
    # A draft that was refused may hold values that are not data.
    data = msgspec.msgpack.encode(asked, order="deterministic", enc_hook=_name_of_type)
    return hashlib.blake2b(data, digest_size=16).digest()


def _name_of_type(value: object) -> str:
    return type(value).__name__


def keep_exchange(answer: Exchange, digest: bytes) -> bytes:
    """What to remember of an exchange."""
    reply = ExchangeReply(
        [_as_data(each) for each in answer.settled],
        [LeaseKept(each.job_id, each.version, each.lease_seconds) for each in answer.leases],
        answer.next_due_at,
        answer.next_tick_at,
        answer.settings_generation,
        answer.at,
        digest,
    )
    return msgspec.msgpack.encode(reply)


def exchange_again(data: bytes, digest: bytes, get: Callable[[str], Job | None]) -> Exchange:
    """The answer to a repeated exchange."""
    reply = _reply.decode(data)
    if not isinstance(reply, ExchangeReply):
        raise _used_before("a submit")
    if reply.digest != digest:
        raise _used_before("an exchange with other contents")
    kept = ((each, get(each.job_id)) for each in reply.leases)
    return Exchange(
        [_from_data(each) for each in reply.settled],
        [_lease_again(each, job) for each, job in kept if job is not None and _holds(each, job)],
        reply.next_due_at,
        reply.next_tick_at,
        reply.settings_generation,
        reply.at,
    )


def keep_submit(answers: Sequence[Submitted | LeaseholdError], digest: bytes) -> bytes:
    """What to remember of a submit."""
    return msgspec.msgpack.encode(SubmitReply([_as_data(each) for each in answers], digest))


def submit_again(data: bytes, digest: bytes) -> list[Submitted | LeaseholdError]:
    """The answer to a repeated submit."""
    reply = _reply.decode(data)
    if not isinstance(reply, SubmitReply):
        raise _used_before("an exchange")
    if reply.digest != digest:
        raise _used_before("a submit of other drafts")
    return [_from_data(each) for each in reply.answers]


def _as_data(answer: Any) -> Any:
    """An error as the values of its document; anything else unchanged."""
    return tuple(error_document(answer).values()) if isinstance(answer, LeaseholdError) else answer


def _from_data(answer: Any) -> Any:
    if not isinstance(answer, tuple):
        return answer
    code, message, fields = answer
    return error_from({"code": code, "message": message, "fields": fields})


def _holds(kept: LeaseKept, job: Job) -> bool:
    return job.status is Status.RUNNING and job.lease_version == kept.version


def _lease_again(kept: LeaseKept, job: Job) -> Lease:
    assert job.worker is not None
    assert job.lease_acquired_at is not None
    assert job.lease_expires_at is not None
    return Lease(
        job_id=job.id,
        version=kept.version,
        worker=job.worker,
        queue=job.queue,
        task=job.task,
        payload=job.payload_data,
        codec=job.codec,
        priority=job.priority,
        attempt=job.attempts,
        allowance=job.allowance,
        acquired_at=job.lease_acquired_at,
        expires_at=job.lease_expires_at,
        lease_seconds=kept.lease_seconds,
        timeout_seconds=job.timeout_seconds,
        deadline=job.deadline,
        retry=job.retry,
        metadata=job.metadata,
        parent_id=job.parent_id,
    )


def _used_before(request: str) -> InvalidJobError:
    return InvalidJobError(
        f"this request id was used for {request}: send the same request again, or another one "
        "under an id of its own"
    )
