"""What programs are told, under names that stay the same."""

from __future__ import annotations

from typing import Any

import msgspec

from leasehold.cli.session import Session
from leasehold.core.blob import BLOB_CODEC
from leasehold.core.job import Job
from leasehold.errors import BlobError, PayloadError


def job_document(job: Job) -> dict[str, Any]:
    """A job, every field of it; payload and result as plain data where they are at hand."""
    document: dict[str, Any] = {
        name: getattr(job, name)
        for name in job.__struct_fields__
        if name not in ("payload_data", "result_data", "codec", "result_codec")
    }
    document["payload"] = _read(lambda: job.payload)
    document["result"] = _read(lambda: job.result)
    document["stdout_path"] = job.stdout_path
    document["stderr_path"] = job.stderr_path
    return document


def full_document(session: Session, job: Job) -> dict[str, Any]:
    """The same, with payload and result also where they are kept as blobs, which it fetches.

    What cannot be had is told, and left out.
    """
    document = job_document(job)
    if job.codec == BLOB_CODEC:
        document["payload"] = _fetched(session, job, "payload", job.payload_data)
    if job.result_codec == BLOB_CODEC and job.result_data is not None:
        document["result"] = _fetched(session, job, "result", job.result_data)
    return document


def _fetched(session: Session, job: Job, what: str, reference: bytes) -> Any:
    from leasehold.queue.large import inline

    try:
        data, codec = inline(session.queue.blobs, reference, BLOB_CODEC)
    except BlobError as error:
        session.tell(f"the {what} of job {job.id} cannot be had: {error}")
        return None
    at_hand = msgspec.structs.replace(job, payload_data=data, codec=codec)
    return _read(lambda: at_hand.payload)


def document_of(struct: msgspec.Struct) -> dict[str, Any]:
    """Any other record, field by field."""
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def _read(get: Any) -> Any:
    try:
        return get()
    except PayloadError:
        return None  # A blob, or a signed pickle, which only its own queue can read.
