"""From JSON data to the request of an operation; of a partial batch, the jobs that make sense."""

from __future__ import annotations

from typing import Any

import msgspec

from leasehold.errors import LeaseholdError
from leasehold.service.explaining import refusal
from leasehold.service.new_job import NewJob
from leasehold.service.operation import ApiOperation
from leasehold.service.producers import SortedBatch, SubmitBatch


def request_from(operation: ApiOperation, given: dict[str, Any], *, strict: bool = True) -> Any:
    """The request to an operation; raises InvalidJobError for data that is none."""
    try:
        return msgspec.convert(given, operation.request, strict=strict)
    except msgspec.ValidationError as error:
        if operation.request is SubmitBatch and given.get("partial") is True:
            return _sorted_batch(given, error)
        raise refusal(error, operation.request) from None


def _sorted_batch(given: dict[str, Any], error: msgspec.ValidationError) -> SortedBatch:
    jobs = given.get("jobs")
    if not isinstance(jobs, list):
        raise refusal(error, SubmitBatch) from None
    sorted_jobs: list[NewJob | LeaseholdError] = []
    for job in jobs:
        try:
            sorted_jobs.append(msgspec.convert(job, NewJob))
        except msgspec.ValidationError as fault:
            sorted_jobs.append(refusal(fault, NewJob))
    try:
        # Whatever else is wrong with the batch is no fault of a job.
        rest = msgspec.convert({**given, "jobs": [{} for _ in jobs]}, SubmitBatch)
    except msgspec.ValidationError as fault:
        raise refusal(fault, SubmitBatch) from None
    return SortedBatch(jobs=[], partial=True, request_id=rest.request_id, sorted_jobs=sorted_jobs)
