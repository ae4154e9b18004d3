"""Payloads and results too large for a row, during an attempt.

Both are transferred where the task's code runs, or beside it, never in the worker's loop. A payload
is fetched before the task begins, and a result is written before it is settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeGuard

import msgspec

from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.lease import Lease
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Complete, Outcome
from leasehold.errors import BlobUnavailableError

if TYPE_CHECKING:
    from leasehold.worker.context import JobContext
    from leasehold.worker.task import TaskDefinition


class LargeData(Protocol):
    """Keeps large data for an attempt: `Blobs`, or in a child process its worker."""

    @property
    def bytes_max(self) -> int:
        """The largest result that it accepts."""

    def fetch(self, document: bytes) -> tuple[bytes, str]:
        """The data that a reference stands for, and its codec."""

    def keep_result(self, lease: Lease, data: bytes, codec: str) -> tuple[bytes, str]:
        """Store a result; returns the reference to settle in its place."""


def fetch(large: LargeData | None, document: bytes) -> tuple[bytes, str]:
    """The data that a reference stands for, and its codec; raises if there is no blob store."""
    if large is None:
        raise BlobUnavailableError(
            "a payload or a result is kept in a blob store, and this TaskQueue has blobs=False: "
            "leave that out"
        )
    return large.fetch(document)


def with_payload(lease: Lease, context: JobContext) -> Lease:
    """The lease with its payload fetched; raises BlobError if that fails."""
    if lease.codec != BLOB_CODEC:
        return lease
    payload, codec = fetch(context.large, lease.payload)
    return msgspec.structs.replace(lease, payload=payload, codec=codec)


def is_large(outcome: Outcome) -> TypeGuard[Complete]:
    """Whether an outcome has a result that no row can hold."""
    return (
        type(outcome) is Complete
        and outcome.result is not None
        and len(outcome.result) > PAYLOAD_BYTES_MAX
    )


def with_result_kept(
    outcome: Complete, lease: Lease, task: TaskDefinition, context: JobContext
) -> Outcome:
    """The outcome with its large result stored, or the failure to store it; never raises."""
    from leasehold.worker.attempt import outcome_of_error

    if context.large is None or outcome.result is None:
        return outcome
    try:
        result, codec = context.large.keep_result(lease, outcome.result, outcome.codec)
    except Exception as error:  # noqa: BLE001 - any error fails the attempt.
        return outcome_of_error(error, lease, task, context)
    return msgspec.structs.replace(outcome, result=result, codec=codec)
