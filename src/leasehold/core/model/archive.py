"""The archive: the record of a job after it has left the store."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model import checked
from leasehold.core.model.job import MetadataValue
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.numbers import plain_number
from leasehold.core.model.outcome import JobError
from leasehold.core.model.refusals import not_a_cursor
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.text import mentions
from leasehold.errors import InvalidFilterError

RESULT_SUMMARY_CHARS: Final = 200
ERROR_CHARS: Final = 500
SUMMARY_BYTES: Final = 4 * RESULT_SUMMARY_CHARS
"""Enough bytes for a summary, whatever its characters take in UTF-8."""

_NOT_KEPT: Final = (
    "priority_min", "priority_max", "idempotency_key", "limit_key", "text", "has_parent",
    "finished_from", "finished_before",
)  # fmt: skip


class ArchivedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a job that ended and was pruned. Payload, history and log are gone."""

    id: str
    queue: str
    task: str
    status: Status
    created_at: datetime
    started_at: datetime | None = None
    """The start of its latest attempt."""
    completed_at: datetime
    """When it ended, well or badly."""
    archived_at: datetime
    """When it left the store; the day of it is the archive's partition."""
    attempts: int = 0
    failure_count: int = 0
    first_failed_at: datetime | None = None
    last_failed_at: datetime | None = None
    error: JobError | None = None
    """Its latest error, the message cut to 500 characters, without the traceback."""
    reason: str | None = None
    result_summary: str | None = None
    """The first 200 characters of the result's JSON; None where there was none."""
    metadata: dict[str, MetadataValue] | None = None
    parent_id: str | None = None

    @property
    def retries(self) -> int:
        """Attempts after the first."""
        return max(0, self.attempts - 1)

    @property
    def run_seconds(self) -> float | None:
        """How long its latest attempt ran; None if it was never run."""
        if self.started_at is None:
            return None
        # If the clock was repaired meanwhile, the end may lie before the start.
        return max(0.0, (self.completed_at - self.started_at).total_seconds())


class ArchivePage(msgspec.Struct, frozen=True):
    """One page of a search in the archive, the latest day first, and where the next one starts."""

    jobs: list[ArchivedJob]
    next_cursor: str | None = None


class ArchiveSpan(msgspec.Struct, frozen=True, kw_only=True):
    """When archived jobs ended, and how long they ran; all bounds are included."""

    first_day: date | None = None
    last_day: date | None = None
    run_seconds_min: float | None = None
    run_seconds_max: float | None = None

    def __post_init__(self) -> None:
        for name in ("first_day", "last_day"):
            checked.instance_or_none(name, getattr(self, name), date)
        for name in ("run_seconds_min", "run_seconds_max"):
            value = getattr(self, name)
            if value is not None and plain_number(value) is None:
                raise InvalidFilterError(
                    f"{name} must be seconds from 0 to ten years, not {value!r}"
                )
            # The comparison also refuses NaN, which is neither above nor below anything.
            if value is not None and not 0 <= value <= SECONDS_MAX:
                raise InvalidFilterError(
                    f"{name} must be seconds from 0 to ten years, not {value!r}"
                )

    def has(self, job: ArchivedJob) -> bool:
        """Whether a job matches. SQL stores do the same in SQL; a test compares the two."""
        day, least, most = job.completed_at.date(), self.run_micros_min, self.run_micros_max
        ran = None if job.run_seconds is None else round(job.run_seconds * 1e6)
        return (
            (self.first_day is None or day >= self.first_day)
            and (self.last_day is None or day <= self.last_day)
            and (least is None or (ran is not None and ran >= least))
            and (most is None or (ran is not None and ran <= most))
        )

    @property
    def run_micros_min(self) -> int | None:
        return None if self.run_seconds_min is None else round(self.run_seconds_min * 1e6)

    @property
    def run_micros_max(self) -> int | None:
        return None if self.run_seconds_max is None else round(self.run_seconds_max * 1e6)


EVERYTHING: Final = ArchiveSpan()


class ArchivePlace(NamedTuple):
    """The position of an archived job in the search order, last first."""

    ran: int
    """The run time in microseconds if the slowest come first, otherwise 0."""
    day: int
    """The day of archiving, counted from 1970."""
    seq: int

    @classmethod
    def at(cls, cursor: str) -> ArchivePlace:
        """The position that a cursor stands for: that of the last job shown."""
        numbers = cursor.split(".")
        # No more digits than a store's numbers have: no page returned a longer cursor.
        if len(numbers) != 3 or not all(
            each.isascii() and each.isdecimal() and len(each) <= 18 for each in numbers
        ):
            raise not_a_cursor(cursor)
        return cls(*map(int, numbers))

    @property
    def cursor(self) -> str:
        return f"{self.ran}.{self.day}.{self.seq}"


def check_filter(where: JobFilter) -> None:
    """Refuse a search by fields that the archive does not keep."""
    for name in _NOT_KEPT:
        if getattr(where, name) is not None:
            raise InvalidFilterError(
                f"the archive keeps no {name.removesuffix('_min').removesuffix('_max')}: search it "
                "by ids, queue, status, task, created_from, created_before, metadata, parent_id "
                "or error_text"
            )


def fits(where: JobFilter, job: ArchivedJob) -> bool:
    """Whether an archived job matches. SQL stores do the same in SQL; a test compares the two."""
    error = f"{job.error.type}: {job.error.message}" if job.error else ""
    metadata = job.metadata or {}
    return (
        (where.ids is None or job.id in where.ids)
        and (where.queues is None or job.queue in where.queues)
        and (where.statuses is None or job.status in where.statuses)
        and (where.tasks is None or job.task in where.tasks)
        and (where.created_from is None or job.created_at >= where.created_from)
        and (where.created_before is None or job.created_at < where.created_before)
        and all(
            key in metadata and metadata[key] == value
            for key, value in (where.metadata or {}).items()
        )
        and (where.parent_id is None or job.parent_id == where.parent_id)
        and (where.error_text is None or mentions(error, where.error_text))
    )


def summary_of(result: bytes | None, codec: str) -> str | None:
    """The beginning of a result, for people; a pickled one has nothing to show."""
    if result is None or codec != "json":
        return None
    return result[:SUMMARY_BYTES].decode(errors="replace")[:RESULT_SUMMARY_CHARS]


def error_summary(error: JobError | None) -> JobError | None:
    """An error without its traceback, cut to the size that the archive keeps."""
    return None if error is None else JobError(error.type, error.message[:ERROR_CHARS])
