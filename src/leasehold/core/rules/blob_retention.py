"""Which blobs no longer belong to anything.

The rule looks at the state of the store *after* the blob was listed, so that every reference made
before the blob was seen is known.
"""

from __future__ import annotations

from typing import Final

from leasehold.core.model.blob import BLOB_CODEC, BlobKey, decode_reference, parse_key
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.errors import BlobDamagedError

GRACE_SECONDS: Final = 3600.0
"""A payload is written before its job is submitted, so a young one may be about to be used. The two
are one call to the store apart: an hour is longer than any such call should take. If the call is
made in an application's transaction, the job is seen with the commit: the clean-up of the store,
which runs first, is a write, and fails while a transaction is open.
"""


def belongs_to_job(key: BlobKey, text: str, job: Job | None, now_micros: int) -> bool:
    """Whether a payload or a result is needed, or may be soon, given the job with its id.

    A result that no row names is needed only while its own lease runs: a settlement under any other
    version is refused, and no version is granted twice.
    """
    if job is not None:
        if text in references_of(job):
            return True
        if key.kind == "result":
            return job.status is Status.RUNNING and job.lease_version == key.version
    return key.kind == "payload" and is_young(key, now_micros)


def is_young(key: BlobKey, now_micros: int) -> bool:
    """Whether a blob without references may be about to be used."""
    return now_micros - key.made_at < GRACE_SECONDS * 1_000_000


def references_of(job: Job) -> set[str]:
    """The keys that a job's row names."""
    documents = ((job.payload_data, job.codec), (job.result_data, job.result_codec))
    return {
        key
        for document, codec in documents
        if codec == BLOB_CODEC and document is not None
        for key in _keys(document)
    }


def own_blobs(job: Job) -> set[str]:
    """The keys of blobs that were written for this job, which no other job can name.

    All jobs of a schedule share the blobs that were written for it.
    """
    return {
        text
        for text in references_of(job)
        if (key := parse_key(text)) is not None and key.kind != "schedule" and key.owner == job.id
    }


def _keys(document: bytes) -> tuple[str, ...]:
    try:
        return (decode_reference(document).key,)
    except BlobDamagedError:
        return ()
