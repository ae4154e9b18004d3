"""The base of every part of the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.text import is_text
from leasehold.core.rules.tokens import token_has_ended
from leasehold.env import Env
from leasehold.errors import JobNotFoundError
from leasehold.queue.large import inline
from leasehold.service.caller import Caller
from leasehold.service.lease_lines import LeaseLines
from leasehold.service.lease_secret import LeaseSecrets

T = TypeVar("T")


class CallStore(Protocol):
    """Carries a short blocking call to another thread."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


class ApiPart:
    """A part of the API: some operations on one store."""

    def __init__(
        self,
        store: Store,
        env: Env,
        blobs: Blobs | None,
        secrets: LeaseSecrets,
        lines: LeaseLines,
        call_store: CallStore,
    ) -> None:
        self.store = store
        self.env = env
        self.blobs = blobs
        self.secrets = secrets
        self.lines = lines
        self.call_store = call_store

    def check_token(self, caller: Caller) -> None:
        """Refuse a caller whose token has ended meanwhile: the caller may have waited long."""
        if caller.digest is not None and self.store.find_token(caller.digest) is None:
            raise token_has_ended()

    def job_of(self, caller: Caller, job_id: str) -> Job:
        """A job that the caller may see; raises JobNotFoundError for any other."""
        return caller.check_job(self.store.get(checked_id(job_id)), job_id)

    def check_job(self, caller: Caller, job_id: str) -> str:
        """The id of a job that the caller may touch; costs nothing if they may touch all."""
        if caller.queues is None:
            return checked_id(job_id)
        return self.job_of(caller, job_id).id

    def inlined(self, job: Job) -> Job:
        """A job with its payload and result, wherever they are stored."""
        payload, codec = inline(self.blobs, job.payload_data, job.codec)
        result, result_codec = job.result_data, job.result_codec
        if result is not None:
            result, result_codec = inline(self.blobs, result, result_codec)
        return msgspec.structs.replace(
            job, payload_data=payload, codec=codec, result_data=result, result_codec=result_codec
        )


def checked_id(job_id: str) -> str:
    """The id, or JobNotFoundError if no job can have it."""
    if not is_text(job_id):
        raise JobNotFoundError(f"there is no job {job_id!r}: ids are UTF-8 text")
    return job_id


def encoded(value: Any) -> bytes:
    """A value that came as JSON, encoded as JSON again."""
    return msgspec.json.encode(value)
