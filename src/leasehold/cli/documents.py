"""A job as a document for programs, with data from the blob store included."""

from __future__ import annotations

from typing import Any

import msgspec

from leasehold.cli.session import Session
from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.job import Job
from leasehold.documents.jobs import job_document, plain
from leasehold.errors import BlobError


def full_document(session: Session, job: Job) -> dict[str, Any]:
    """A job, with payload and result also where they are kept as blobs, which it fetches.

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
        session.tell(f"the {what} of job {job.id} cannot be read: {error}")
        return None
    return plain(msgspec.structs.replace(job, payload_data=data, codec=codec), "payload")
