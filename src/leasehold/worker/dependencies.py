"""The results of a job's dependencies: read from the store, and decoded on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from leasehold.codec import CallCodec
from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.durations import duration_text
from leasehold.core.model.refusals import no_job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.errors import ResultExpiredError
from leasehold.worker.large import LargeData, fetch

if TYPE_CHECKING:
    from leasehold.core.contract.store import Store

READ_AT_ONCE: Final = 500


class DependencyResult(msgspec.Struct, frozen=True):
    """The result of a completed dependency, not yet decoded."""

    job_id: str
    task: str
    data: bytes | None
    codec: str


FetchResults = Callable[[str], list[DependencyResult]]
"""Gets the results of a job's dependencies by the job's id."""


def fetch_results(
    store: Store, job_id: str, large: LargeData | None = None
) -> list[DependencyResult]:
    """The results of a job's completed dependencies, in the order in which it names them.

    A dependency that did not complete is left out. One whose result is gone, with or without its
    job, raises: a task could not tell it from one that failed or returned None.
    """
    job = store.get(job_id)
    if job is None:
        raise no_job(job_id)
    found: dict[str, DependencyResult] = {}
    incomplete: set[str] = set()
    for start in range(0, len(job.depends_on), READ_AT_ONCE):
        ids = job.depends_on[start : start + READ_AT_ONCE]
        for each in store.search(JobFilter(ids=ids), limit=READ_AT_ONCE).jobs:
            if each.status is not Status.COMPLETED:
                incomplete.add(each.id)
                continue
            if each.result_expired:
                # A task could not tell it from a result that is None.
                raise ResultExpiredError(
                    f"job {job_id} depends on job {each.id} ({each.task}), whose result was "
                    f"only kept for {duration_text(each.result_ttl_seconds or 0)} "
                    f"(result_ttl_seconds) and is gone: replay job {each.id} first, then this one"
                )
            data, codec = each.result_data, each.result_codec
            if data is not None and codec == BLOB_CODEC:
                data, codec = fetch(large, data)
            found[each.id] = DependencyResult(each.id, each.task, data, codec)
    for needed in job.depends_on:
        if needed not in found and needed not in incomplete:
            _check_did_not_complete(store, job_id, needed)
    return [found[needed] for needed in job.depends_on if needed in found]


def _check_did_not_complete(store: Store, job_id: str, needed: str) -> None:
    """Raise unless a job that no longer exists is known to have failed."""
    archived = store.archived(needed)
    if archived is None or archived.status is Status.COMPLETED:
        raise ResultExpiredError(
            f"job {job_id} depends on job {needed}, whose result cannot be read: that job was "
            "pruned or discarded, or is in a queue that this token is not valid for. Submit both "
            "again, and keep results for as long as a dependent may wait (docs/retention.md)"
        )


def decode_results(
    results: Sequence[DependencyResult], codec_for: Callable[[str], CallCodec]
) -> dict[str, Any]:
    """Results by job id, each decoded by its own task's codec."""
    return {
        each.job_id: None
        if each.data is None
        else codec_for(each.task).decode_result(each.data, each.codec)
        for each in results
    }


def plain_codec(task: str) -> CallCodec:
    """A codec for a task whose code, and so its type hints, may not be available here."""
    return CallCodec(_anything, title=task)


def _anything(*args: Any, **kwargs: Any) -> Any:
    """Stands in for a task whose signature is unknown here."""
