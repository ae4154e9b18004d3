"""The end of a job: its row in `finished`, its counters, and the news for those who wait."""

from __future__ import annotations

from typing import Final

from leasehold.core.status import Event, Status
from leasehold.stores.sqlite.schema.codes import STATUS_CODE
from leasehold.stores.sqlite.writing.step import Step

INSERT_FINISHED: Final = f"INSERT INTO finished VALUES ({', '.join('?' * 11)})"  # noqa: S608  # placeholders

_EVENT = {Status.CANCELLED: Event.CANCELLED, Status.DEAD: Event.DEAD}


def end_waiting(
    step: Step,
    *,
    seq: int,
    job_id: str,
    lane: int,
    before: Status,
    after: Status,
    version: int,
    attempts: int,
    events: int,
    available_at: int,
    reason: str,
) -> None:
    """End a job that is not running: cancelled, or dead. Its row is already out of its table."""
    n = events + 1
    step.execute(
        INSERT_FINISHED,
        (
            seq,
            STATUS_CODE[after],
            step.now,
            None,
            available_at,
            version,
            attempts,
            n,
            None,
            None,
            reason,
        ),
    )
    step.record(
        seq, n, _EVENT[after], before, after, attempts=attempts, version=version, message=reason
    )
    step.move(lane, before, after)
    step.count(lane, f"total_{after.value}")
    step.job_ended(job_id)
