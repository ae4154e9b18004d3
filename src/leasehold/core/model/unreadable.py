"""Rows that cannot be read: how they are reported, and how they are treated.

A row may have been written by a newer version during a rolling upgrade, or be damaged. It must not
stop the others: a job that cannot be read is set aside as a dead letter, its row untouched, so that
a version that understands it can replay it.

- A job whose row cannot be read becomes `dead`, with a reason that names the unreadable fields,
  as soon as a lease, a settlement or a sweep meets it. Its payload is kept unchanged.
- Replaying it is refused as long as it cannot be read; discarding it is not.
- Other jobs, schedules and queues continue as if it did not exist.
- People see its readable fields and an error that names the rest; `check` names it as long as it
  exists.
- A schedule that cannot be read is not fired, says why and is looked at again later. A queue
  whose rules cannot be read is neither leased from nor submitted to until its rules are set
  again. A setting that cannot be read counts as not set.
"""

from __future__ import annotations

from typing import Final

from leasehold.errors import StoreCorruptError

ERROR_TYPE: Final = "UnreadableRow"
"""The type of the error that such a job shows."""


def cannot_be_read(job_id: str, problem: str) -> StoreCorruptError:
    """The refusal of an order that needs the whole row of a job."""
    return StoreCorruptError(
        f"job {job_id} cannot be read: {problem}; it may have been written by a newer version: "
        "upgrade, then try again, or discard it"
    )


def set_aside_reason(problem: str) -> str:
    """Why a job became a dead letter, and what to do about it.

    >>> set_aside_reason("unknown retry policy 'fibonacci'")
    "its row cannot be read: unknown retry policy 'fibonacci'; it may have been written by a newer \
version: upgrade, then replay it"
    """
    return (
        f"its row cannot be read: {problem}; it may have been written by a newer version: upgrade, "
        "then replay it"
    )
