"""Filters: one way to select jobs, the same for search, cancel, replay, purge and export."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, get_args

import msgspec

from leasehold.core.model import checked
from leasehold.core.model.job import Job, MetadataValue
from leasehold.core.model.numbers import whole_number
from leasehold.core.model.phrases import listed
from leasehold.core.model.plain_data import LEFT_OUT
from leasehold.core.model.status import Status
from leasehold.core.model.text import mentions
from leasehold.errors import InvalidFilterError

SEARCH_TEXT_LENGTH_MAX: Final = 4096
"""Searching every payload for a longer text would take seconds, and nobody needs it."""


def _whole(name: str, value: int | None) -> None:
    if value is not None and whole_number(value) is None:
        checked.whole(name, value)


def _texts(name: str, value: Iterable[str] | None) -> None:
    if value is not None:
        checked.each(name, value, str)


_CHECKS: Final[Mapping[str, Callable[[str, Any], object]]] = {
    **dict.fromkeys(("ids", "queues", "tasks"), _texts),
    **dict.fromkeys(("priority_min", "priority_max"), _whole),
    **dict.fromkeys(
        ("created_from", "created_before", "finished_from", "finished_before"),
        checked.moment_or_none,
    ),
    **dict.fromkeys(
        ("idempotency_key", "parent_id", "limit_key", "error_text", "text"), checked.text_or_none
    ),
}


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs for which everything given here holds. An empty filter means all jobs."""

    ids: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    statuses: tuple[Status, ...] | None = None
    tasks: tuple[str, ...] | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    created_from: datetime | None = None
    """Inclusive."""
    created_before: datetime | None = None
    """Exclusive."""
    finished_from: datetime | None = None
    """Completed, cancelled or dead at this time or later."""
    finished_before: datetime | None = None
    """Exclusive. Jobs that have not ended match neither."""
    metadata: dict[str, MetadataValue] | None = None
    """Every given key must be present with an equal value."""
    idempotency_key: str | None = None
    parent_id: str | None = None
    has_parent: Literal[True] | None = None
    """Only jobs that belong to a workflow, or to another job."""
    limit_key: str | None = None
    error_text: str | None = None
    """Part of the latest error's type or message, ignoring case."""
    text: str | None = None
    """Part of the payload (as JSON text) or of the latest error, ignoring case."""

    def __post_init__(self) -> None:
        try:
            for name, check in _CHECKS.items():
                check(name, getattr(self, name))
        except (TypeError, ValueError) as error:
            raise InvalidFilterError(str(error)) from None
        for priority in (self.priority_min, self.priority_max):
            if priority is not None and not -(2**63) <= priority < 2**63:
                raise InvalidFilterError(f"priorities are from 0 to 100, not {priority}")
        for part in (self.text, self.error_text):
            if isinstance(part, str) and len(part) > SEARCH_TEXT_LENGTH_MAX:
                raise InvalidFilterError(
                    f"a text to search for has at most {SEARCH_TEXT_LENGTH_MAX:,} characters, not "
                    f"{len(part):,}: give a part of it"
                )

    def _fits_end(self, at: datetime | None) -> bool:
        first, last = self.finished_from, self.finished_before
        if at is None:
            return first is None and last is None
        return (first is None or at >= first) and (last is None or at < last)

    def matches(self, job: Job) -> bool:
        """Whether a job matches. SQL stores do the same in SQL; a test compares the two."""
        error = f"{job.error.type}: {job.error.message}" if job.error else ""
        metadata = job.metadata or {}
        return (
            (self.ids is None or job.id in self.ids)
            and (self.queues is None or job.queue in self.queues)
            and (self.statuses is None or job.status in self.statuses)
            and (self.tasks is None or job.task in self.tasks)
            and (self.priority_min is None or job.priority >= self.priority_min)
            and (self.priority_max is None or job.priority <= self.priority_max)
            and (self.created_from is None or job.created_at >= self.created_from)
            and (self.created_before is None or job.created_at < self.created_before)
            and self._fits_end(job.completed_at)
            and all(
                key in metadata and metadata[key] == value
                for key, value in (self.metadata or {}).items()
            )
            and (self.idempotency_key is None or job.idempotency_key == self.idempotency_key)
            and (self.parent_id is None or job.parent_id == self.parent_id)
            and not (self.has_parent and job.parent_id is None)
            and (self.limit_key is None or job.limit_key == self.limit_key)
            and (self.error_text is None or mentions(error, self.error_text))
            and (
                self.text is None
                or mentions(job.payload_data.decode(errors="replace"), self.text)
                or mentions(error, self.text)
            )
        )


HeavyField = Literal["payload", "result", "metadata"]
"""The fields that a search may leave out of its results."""


def check_left_out(without: Collection[str]) -> None:
    """Refuse to leave out fields that every result has."""
    unknown = set(without) - set(get_args(HeavyField))
    if unknown:
        names = listed(get_args(HeavyField))
        raise InvalidFilterError(f"a search can leave out {names}, not {min(unknown)!r}")


def lightened(job: Job, without: Collection[HeavyField]) -> Job:
    """A job without these fields. SQL stores do not even fetch them; a test compares the two."""
    changes: dict[str, Any] = {}
    if "payload" in without:
        changes.update(payload_data=b"", codec=LEFT_OUT)
    if "result" in without and job.result_data is not None:
        changes.update(result_data=b"", result_codec=LEFT_OUT)
    if "metadata" in without:
        changes["metadata"] = None
    return msgspec.structs.replace(job, **changes) if changes else job


COUNTED_MAX: Final = 10_000
"""The most jobs that are counted one by one."""


class Count(msgspec.Struct, frozen=True):
    """How many jobs match a filter.

    >>> print(Count(1234)), print(Count(10_000, is_exact=False))
    1,234
    at least 10,000
    (None, None)
    """

    jobs: int
    is_exact: bool = True
    """Whether the number is exact; otherwise the count stopped there, and there may be more."""

    def __str__(self) -> str:
        return f"{self.jobs:,}" if self.is_exact else f"at least {self.jobs:,}"


def must_be_read(where: JobFilter) -> bool:
    """Whether each job has to be read to decide if it matches: no index helps."""
    given = msgspec.structs.asdict(where)
    led_to = {"ids", "queues", "statuses", "tasks", "parent_id", "has_parent"}
    if where.ids is not None or where.parent_id is not None:
        return False
    return any(value is not None for name, value in given.items() if name not in led_to)


PASSED_FOR_ONE_READ: Final = 10
"""To pass over a job of another queue or task costs a tenth of what it costs to read one."""


def looked_through(where: JobFilter, read_max: int | None) -> int | None:
    """How many jobs a search looks through that may read so many; None where nothing bounds it.

    >>> looked_through(JobFilter(text="a"), 50), looked_through(JobFilter(tasks=("t",)), 50)
    (50, 500)
    >>> looked_through(JobFilter(ids=("a",)), 50), looked_through(JobFilter(), 50)
    (None, None)
    """
    if read_max is None:
        return None
    if must_be_read(where):
        return read_max
    is_led = where.ids is not None or where.parent_id is not None or where.has_parent
    is_of_lanes = where.queues is not None or where.tasks is not None
    return read_max * PASSED_FOR_ONE_READ if is_of_lanes and not is_led else None


def check_read(read_max: int | None) -> None:
    """Refuse a bound of less than one job to read."""
    if read_max is not None and read_max < 1:
        raise InvalidFilterError(f"a search reads one job or more, not {read_max}")


def check_count(counted_max: int) -> None:
    """Refuse an invalid bound of a count."""
    if not 1 <= counted_max <= COUNTED_MAX:
        raise InvalidFilterError(
            f"jobs are counted up to a number from 1 to {COUNTED_MAX:,}, not {counted_max}"
        )


def counted_up_to(found: int, counted_max: int, *, read_all: bool = True) -> Count:
    """The answer of a store that stopped one beyond the bound, or did not read all jobs."""
    return Count(min(found, counted_max), is_exact=read_all and found <= counted_max)


def is_of_lanes(where: JobFilter) -> bool:
    """Whether a filter asks for nothing but queues, tasks and statuses: every store knows exactly
    how many jobs that are.
    """
    return where == JobFilter(queues=where.queues, tasks=where.tasks, statuses=where.statuses)


def by_counters(
    where: JobFilter, counts: Callable[[str | None], Mapping[Status, int]]
) -> Count | None:
    """How many jobs match, if the filter uses only what the counters of queues hold.

    `counts` returns how many jobs of a queue, or of all, have each status.
    """
    known = by_status_counters(where, counts)
    return None if known is None else Count(sum(known.values()))


def by_status_counters(
    where: JobFilter, counts: Callable[[str | None], Mapping[Status, int]]
) -> dict[Status, int] | None:
    """How many jobs match by status, if the counters of queues hold it."""
    if where != JobFilter(queues=where.queues, statuses=where.statuses):
        return None
    queues = (None,) if where.queues is None else dict.fromkeys(where.queues)
    standing = [counts(queue) for queue in queues]
    statuses = set(Status if where.statuses is None else where.statuses)
    return {status: sum(each[status] for each in standing) for status in statuses}


class Page(msgspec.Struct, frozen=True):
    """One page of a search, newest first, and the cursor of the next (None at the end)."""

    jobs: list[Job]
    next_cursor: str | None = None
    total: Count | None = None
    """How many jobs match on all pages together, if requested."""
