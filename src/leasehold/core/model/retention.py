"""Retention: how long ended jobs are kept, and the rules by which a clean-up works.

A clean-up is a series of small writes. Each one holds the store's write lock about 20 ms on any
machine, and between them the lock is free for nineteen times as long: workers hardly notice.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from leasehold.core.model.durations import Seconds, read_seconds
from leasehold.core.model.job import Job
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.status import Status
from leasehold.core.model.text import make_plain
from leasehold.errors import InvalidRetentionError

DAY_SECONDS: Final = 24 * 3600.0
BATCH_MAX: Final = 1000
"""Jobs per write, at most."""
BATCH_MIN: Final = 10
"""If even these take longer on a machine, going lower would only add commits."""
BATCH_START: Final = 200
"""How many jobs the first write of a clean-up takes, before anything has been measured."""
LOCK_SECONDS: Final = 0.020
"""How long one write of a clean-up should hold the write lock."""
LOCK_SHARE: Final = 0.05
"""The part of the time for which a clean-up may hold the write lock."""
ABANDONED_SECONDS: Final = 60.0
"""A clean-up that was silent for this long was abandoned, or its process died."""
SLOW_SECONDS: Final = 60.0
"""A clean-up that takes longer is worth a warning."""
CLEANUP_RECORDS_MAX: Final = 1000
"""Kept in a store; the oldest are dropped first."""


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long ended jobs and records are kept, in seconds; None keeps them for ever.

    >>> RetentionPolicy(completed_seconds=3600).cancelled_seconds
    86400.0
    """

    completed_seconds: float | None = 7 * DAY_SECONDS
    cancelled_seconds: float | None = 1 * DAY_SECONDS
    dead_seconds: float | None = None
    """By default, dead letters wait for a person."""
    archive_seconds: float | None = 90 * DAY_SECONDS
    """Whole days, counted from the day on which a job was archived; 0 keeps no archive."""
    audit_seconds: float | None = 90 * DAY_SECONDS
    """Audit records; older ones go to the archive."""
    audit_archive_seconds: float | None = 365 * DAY_SECONDS
    """How long audit records stay in the archive; 0 keeps none."""
    history_events_max: int | None = 100_000
    """History events of all completed jobs together. Beyond that, the oldest jobs lose theirs as a
    whole.
    """
    interval_seconds: float | None = 1 * DAY_SECONDS
    """How often a worker cleans up automatically; None for never."""
    worth_cleaning: int = 100
    """With fewer ended jobs than this in the store, no automatic clean-up runs."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            completed_seconds: Seconds | None = ...,
            cancelled_seconds: Seconds | None = ...,
            dead_seconds: Seconds | None = ...,
            archive_seconds: Seconds | None = ...,
            audit_seconds: Seconds | None = ...,
            audit_archive_seconds: Seconds | None = ...,
            history_events_max: int | None = ...,
            interval_seconds: Seconds | None = ...,
            worth_cleaning: int = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        make_plain(self)
        for name in self.__struct_fields__:
            if name.endswith("_seconds"):
                read_limit(self, name)
        _check_count("history_events_max", self.history_events_max, optional=True)
        _check_count("worth_cleaning", self.worth_cleaning, optional=False)

    def seconds_by_status(self) -> dict[Status, float]:
        """The limits that are set."""
        limits = {
            Status.COMPLETED: self.completed_seconds,
            Status.CANCELLED: self.cancelled_seconds,
            Status.DEAD: self.dead_seconds,
        }
        return {status: seconds for status, seconds in limits.items() if seconds is not None}

    def cutoffs(self, now: datetime, scope: Scope) -> dict[Status, datetime]:
        """By status, the time before which jobs must have ended to be pruned now.

        A missing status is not pruned at all; by default, dead letters are missing.
        """
        found = {
            status: now - timedelta(seconds=seconds)
            for status, seconds in self.seconds_by_status().items()
        }
        if scope.emergency:
            found |= {Status.COMPLETED: now, Status.CANCELLED: now}
            if scope.dead:
                found[Status.DEAD] = now
        return found

    def audit_cutoff(self, now: datetime) -> datetime | None:
        """Audit records up to this time are due for the archive; None if none ever are."""
        return None if self.audit_seconds is None else now - timedelta(seconds=self.audit_seconds)

    def audit_archive_cutoff(self, now: datetime) -> datetime | None:
        """Archived audit records up to this time are dropped; None if none ever are."""
        if self.audit_seconds is None or self.audit_archive_seconds is None:
            return None
        # Ten years each at most: their sum is within the range of a datetime.
        return now - timedelta(seconds=self.audit_seconds + self.audit_archive_seconds)

    def oldest_day(self, now: datetime) -> int | None:
        """The first day (counted from 1970) that the archive keeps; None if it keeps all."""
        if self.archive_seconds is None:
            return None
        if self.archive_seconds == 0:
            return day_of(now) + 1
        return day_of(now - timedelta(seconds=self.archive_seconds))


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a clean-up other than the daily one."""

    force: bool = False
    """Clean up now, even if it is not due or not worth it."""
    emergency: bool = False
    """Prune completed and cancelled jobs of any age, without waiting for a turn."""
    dead: bool = False
    """With `emergency`, also prune dead letters, which nothing else does."""

    def __post_init__(self) -> None:
        if self.dead and not self.emergency:
            raise InvalidRetentionError(
                "dead=True is part of an emergency clean-up: give emergency=True as well, set "
                "dead_seconds in the policy, or use dead_letters.purge()"
            )

    @property
    def mode(self) -> CleanUpMode:
        """The name under which it is recorded."""
        if self.emergency:
            return CleanUpMode.EMERGENCY
        return CleanUpMode.FORCE if self.force else CleanUpMode.DAILY


class CleanUpMode(StrEnum):
    """Why a clean-up was made."""

    DAILY = "daily"
    FORCE = "force"
    EMERGENCY = "emergency"


DAILY: Final = Scope()


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """How much was cleaned up, of each kind."""

    completed: int = 0
    cancelled: int = 0
    dead: int = 0
    archived: int = 0
    results_dropped: int = 0
    """Results whose own time to live was over; their jobs stay."""
    histories_dropped: int = 0
    """Completed jobs that lost their history to the bound; the jobs stay."""
    archive_dropped: int = 0
    """Archived jobs whose day was over."""
    audit_archived: int = 0
    """Audit records that went to the archive."""
    audit_dropped: int = 0
    """Archived audit records whose time was over."""

    @property
    def pruned(self) -> int:
        """Jobs that left the store."""
        return self.completed + self.cancelled + self.dead


class PruneReport(Cleaned, frozen=True, kw_only=True):
    """The report of one write of a clean-up, and whether there is more to do."""

    run: int | None = None
    """The number of the clean-up; None if none was begun because it is not due or not worth it."""
    more: bool = False
    """Whether to call again, with this `run`."""
    next_due_at: datetime | None = None
    """When the next daily clean-up may begin, if this one is over or was not begun; None if never.
    """
    taken: int = 0
    """How much of the limit was used; its unit depends on the phase."""
    lock_seconds: float = 0.0
    """How long the write lock was held for it."""


class CleanUp(Cleaned, frozen=True, kw_only=True):
    """The record of one clean-up: who, when, how many, how long."""

    run: int
    mode: CleanUpMode
    actor: str
    started_at: datetime
    active_at: datetime
    """Its latest write."""
    ended_at: datetime | None = None
    """None while it runs, or if it was abandoned half-way: the next one does the rest."""
    writes: int = 0
    lock_seconds: float = 0.0
    """How long it held the write lock in total."""

    @property
    def duration_seconds(self) -> float:
        """From its start to its latest write, pauses included."""
        return (self.active_at - self.started_at).total_seconds()

    @property
    def is_slow(self) -> bool:
        """Whether it took (or is taking) unusually long."""
        return self.duration_seconds > SLOW_SECONDS

    def __str__(self) -> str:
        done = [(name, getattr(self, name)) for name in COUNTED]
        counted = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in done if n)
        return (
            f"clean-up {self.run} ({self.mode}, by {self.actor}): {counted or 'nothing to do'}, in "
            f"{self.duration_seconds:,.1f} s and {self.writes:,} writes, which held the write lock "
            f"for {self.lock_seconds:,.1f} s"
        )


COUNTED: Final = (
    "completed",
    "cancelled",
    "dead",
    "archived",
    "results_dropped",
    "histories_dropped",
    "archive_dropped",
    "audit_archived",
    "audit_dropped",
)
"""The counts shared by reports and records."""


def due_at(policy: RetentionPolicy, last: CleanUp | None, now: datetime) -> datetime | None:
    """When the next daily clean-up may begin, given the latest record; None for never.

    Clean-ups run one at a time: while one runs, others wait until it is over or abandoned.
    """
    if policy.interval_seconds is None:
        return None
    if last is None:
        return now
    if last.ended_at is None:
        return last.active_at + timedelta(seconds=ABANDONED_SECONDS)
    return last.started_at + timedelta(seconds=policy.interval_seconds)


def records_told(limit: int) -> int:
    """How many records of clean-ups are told to who asks for this many."""
    return max(0, min(limit, CLEANUP_RECORDS_MAX))


def check_limit(limit: int) -> None:
    """Refuse a limit with which a write would hold the lock for too long or do nothing."""
    if not 1 <= limit <= BATCH_MAX:
        raise InvalidRetentionError(
            f"one write of a clean-up takes from 1 to {BATCH_MAX} jobs, not {limit}: call again "
            "while the report says that there is more"
        )


def next_batch_size(size: int, taken: int, lock_seconds: float) -> int:
    """How many rows the next write should take, given the size and duration of the last one.

    >>> next_batch_size(200, 200, 0.040), next_batch_size(200, 200, 0.001)
    (100, 400)
    """
    if taken <= 0:
        return size
    # At most twice as many: one quick write may have been luck.
    most = min(2 * size, BATCH_MAX)
    fitting = most if lock_seconds <= 0 else min(most, taken * LOCK_SECONDS / lock_seconds)
    return max(BATCH_MIN, int(fitting))


def pause_seconds(lock_seconds: float, scope: Scope) -> float:
    """How long to leave the lock to others after it was held for this long.

    >>> round(pause_seconds(0.020, DAILY), 3)
    0.38
    """
    return 0.0 if scope.emergency else max(0.0, lock_seconds) * (1 / LOCK_SHARE - 1)


def result_is_over(job: Job, now: datetime) -> bool:
    """Whether the time to live of a job's result is over."""
    if job.result_ttl_seconds is None or job.status is not Status.COMPLETED:
        return False
    assert job.completed_at is not None
    return now >= job.completed_at + timedelta(seconds=job.result_ttl_seconds)


def without_old_result(job: Job, now: datetime) -> Job:
    """The job as a caller may see it: without a result whose time to live is over."""
    if result_is_over(job, now):
        return msgspec.structs.replace(
            job, result_data=None, result_codec="json", result_expired=True
        )
    return job


def day_of(moment: datetime) -> int:
    """The UTC day of a moment, counted from 1970: one partition of the archive."""
    return day_number(moment.astimezone(UTC).date())


def day_number(day: date) -> int:
    """A day, counted from 1970.

    >>> day_number(date(1970, 1, 2))
    1
    """
    return day.toordinal() - date(1970, 1, 1).toordinal()


def read_limit(policy: msgspec.Struct, name: str) -> None:
    """Convert a limit to seconds from any accepted form; refuse an invalid value."""
    given = getattr(policy, name)
    value = read_seconds(given)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRetentionError(
            f'{name} must be seconds, a timedelta or text such as "7d", or None for ever, '
            f"not {value!r}"
        )
    if value is not given:
        msgspec.structs.force_setattr(policy, name, value)
    # The comparison also refuses NaN, which is neither above nor below anything.
    if not 0 <= value <= SECONDS_MAX:
        raise InvalidRetentionError(
            f"{name} must be from 0 to ten years in seconds, or None for ever, not {value!r}"
        )
    if name == "interval_seconds" and value < 1:
        raise InvalidRetentionError(
            f"interval_seconds must be at least 1, or None for never, not {value!r}"
        )


def _check_count(name: str, value: object, *, optional: bool) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        unlimited = ", or None for no limit" if optional else ""
        raise InvalidRetentionError(
            f"{name} must be a whole number from 0{unlimited}, not {value!r}"
        )


MEMORY_RETENTION: Final = RetentionPolicy(
    completed_seconds=3600.0, dead_seconds=7200.0, cancelled_seconds=1800.0
)
"""The default of a memory store: it has no disk to grow into."""
