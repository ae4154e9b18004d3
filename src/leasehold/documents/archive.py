"""Archived jobs."""

from __future__ import annotations

from typing import Any

from leasehold.core.model.archive import ArchivedJob
from leasehold.documents.records import document_of


def archived_document(job: ArchivedJob) -> dict[str, Any]:
    """The archive's record of a job, and how long it ran."""
    return {**document_of(job), "retries": job.retries, "run_seconds": job.run_seconds}
