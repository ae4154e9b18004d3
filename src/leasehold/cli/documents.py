"""What programs are told, under names that stay the same."""

from __future__ import annotations

from typing import Any

import msgspec

from leasehold.core.job import Job
from leasehold.errors import PayloadError


def job_document(job: Job) -> dict[str, Any]:
    """A job, every field of it; payload and result as plain data where they can be read."""
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


def document_of(struct: msgspec.Struct) -> dict[str, Any]:
    """Any other record, field by field."""
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def _read(get: Any) -> Any:
    try:
        return get()
    except PayloadError:
        return None  # A signed pickle, which only its own queue can read.
