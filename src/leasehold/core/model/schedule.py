"""The schedule: a job that is submitted again and again, once per tick of its timing.

`ScheduleDraft` is the request, `Schedule` a caller's view of it. The functions below decide about a
schedule; a store saves the decision in the same write in which it submits the jobs, so that every
tick runs once, however many processes look and wherever one of them dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from leasehold.core.model.durations import plain_seconds
from leasehold.core.model.job import Draft
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.numbers import plain_number, whole_number
from leasehold.core.model.phrases import did_you_mean, listed
from leasehold.core.model.ticks import latest_ticks, ticks_between
from leasehold.core.model.timing import Timing
from leasehold.errors import (
    DuplicateJobError,
    InvalidScheduleError,
    LeaseholdError,
    ScheduleNotFoundError,
)

Misfire = Literal["skip", "run_once", "catch_up"]
"""The treatment of ticks that were not fired in time: none of them is run, or the latest only, or
the latest `catch_up_max`.
"""
Overlap = Literal["allow", "skip"]
"""What becomes of a tick while the previous tick's job has not ended."""

SCHEDULE_NAME_LENGTH_MAX: Final = 200
"""Short enough for a name and a tick together to form a job id."""
CATCH_UP_MAX: Final = 1000
DEFAULT_CATCH_UP_MAX: Final = 100
DEFAULT_GRACE_SECONDS: Final = 300.0
MISSED_COUNTED_MAX: Final = 100
"""After a long downtime there may be millions of missed ticks: one look counts at most this many.
"""
REFUSED_AGAIN_SECONDS: Final = 10.0
"""How long a schedule whose job was refused waits before it is tried again."""

_INSTANT: Final = timedelta(microseconds=1)
_ONE_JOB_ONLY: Final = ("run_at", "deadline", "idempotency_key", "depends_on")
_OUR_TAGS: Final = ("schedule", "tick")


class ScheduleDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is ready to be stored."""

    name: str
    timing: Timing
    job: Draft
    """The job that each tick submits, under an id of its own."""
    misfire: Misfire = "run_once"
    catch_up_max: int = DEFAULT_CATCH_UP_MAX
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    """How late a tick may be before the policy `skip` passes over it."""
    overlap: Overlap = "allow"
    declared_in: str | None = None
    """The module that declares it on import; None if it was set by a call."""
    orphaned: bool = False
    """Whether that module was found to declare it no longer."""

    def __post_init__(self) -> None:
        for name in ("catch_up_max", "grace_seconds"):
            as_number = plain_seconds if name == "grace_seconds" else plain_number
            number = as_number(getattr(self, name))
            if number is not None:
                msgspec.structs.force_setattr(self, name, number)

    def check(self) -> None:
        """Raise InvalidScheduleError (or the error of the job's own check) for a bad draft.

        This checks names and numbers; a timing was checked when it was made.
        """
        _check_name(self.name)
        for what, value, choices in (
            ("misfire", self.misfire, get_args(Misfire)),
            ("overlap", self.overlap, get_args(Overlap)),
        ):
            if value not in choices:
                raise InvalidScheduleError(f"{what} must be {listed(choices, 'or')}, not {value!r}")
        if not isinstance(self.timing, Timing):
            raise InvalidScheduleError(f"a timing is Cron(...) or Every(...), not {self.timing!r}")
        catch_up_max = whole_number(self.catch_up_max)
        if catch_up_max is None or not 1 <= catch_up_max <= CATCH_UP_MAX:
            raise InvalidScheduleError(
                f"catch_up_max must be from 1 to {CATCH_UP_MAX}, not {self.catch_up_max!r}"
            )
        grace_seconds = plain_number(self.grace_seconds)
        if grace_seconds is None or not 0 <= grace_seconds <= SECONDS_MAX:
            raise InvalidScheduleError(
                f"grace_seconds must be from 0 to ten years in seconds, not {self.grace_seconds!r}"
            )
        for field in _ONE_JOB_ONLY:
            if getattr(self.job, field):
                raise InvalidScheduleError(
                    f"schedule {self.name!r}: {field} fits one job only, not every tick's"
                )
        for tag in _OUR_TAGS:
            if tag in (self.job.metadata or {}):
                raise InvalidScheduleError(
                    f"schedule {self.name!r}: the metadata {tag!r} is set by the schedule itself"
                )
        self.job_now("job").check(schedule=self.name)

    def detached(self) -> ScheduleDraft:
        """A copy that shares nothing its owner could still change."""
        if self.job.metadata is None:
            return self
        job = msgspec.structs.replace(self.job, metadata=dict(self.job.metadata))
        return msgspec.structs.replace(self, job=job)

    def job_at(self, tick: datetime) -> Draft:
        """The job of one tick. Its id names the tick, so there can be no second one."""
        text = tick.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"
        metadata = {**(self.job.metadata or {}), "schedule": self.name, "tick": text}
        return msgspec.structs.replace(self.job, id=f"{self.name}@{text}", metadata=metadata)

    def job_now(self, job_id: str) -> Draft:
        """A job out of turn."""
        metadata = {**(self.job.metadata or {}), "schedule": self.name}
        return msgspec.structs.replace(self.job, id=job_id, metadata=metadata)


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it was at one moment. Changing it changes nothing in the store."""

    draft: ScheduleDraft
    created_at: datetime
    updated_at: datetime
    """When somebody last changed it."""
    next_at: datetime | None
    """The next tick that was not fired yet; None when no more come, or while it is paused."""
    due_at: datetime | None
    """When to look at it next: at the next tick, or later if its job was refused."""
    paused: bool = False
    last_at: datetime | None = None
    """The latest tick whose job was submitted."""
    last_job_id: str | None = None
    fired: int = 0
    """How many jobs its ticks have submitted."""
    missed: int = 0
    """How many ticks submitted no job, because no worker fired them in time or the previous job had
    not ended. One look counts at most MISSED_COUNTED_MAX.
    """
    missed_at: datetime | None = None
    """The latest missed tick."""
    error: str | None = None
    """Why its latest tick could not be fired yet."""

    @property
    def name(self) -> str:
        return self.draft.name

    @property
    def timing(self) -> Timing:
        return self.draft.timing

    @property
    def task(self) -> str:
        return self.draft.job.task

    @property
    def queue(self) -> str:
        return self.draft.job.queue

    def detached(self) -> Schedule:
        """A copy that shares nothing its owner could still change."""
        return msgspec.structs.replace(self, draft=self.draft.detached())


class Fired(msgspec.Struct, frozen=True):
    """The report of one look at the schedules."""

    jobs: int = 0
    """How many jobs it submitted."""
    next_tick_at: datetime | None = None
    """When to look again; None while no schedule ticks."""


# -- what becomes of a schedule ----------------------------------------------------------------


def declared(known: Schedule | None, draft: ScheduleDraft, now: datetime) -> Schedule:
    """A new schedule, or a known one declared again.

    Due ticks stay due unless the timing changes: a program that was down and declares its schedules
    on start must not lose the ticks it has missed.
    """
    if known is not None and known.draft == draft:
        return known
    if known is not None and (known.paused or known.timing == draft.timing):
        return msgspec.structs.replace(known, draft=draft, updated_at=now)
    first = draft.timing.next_after(now)
    if known is None:
        return Schedule(draft=draft, created_at=now, updated_at=now, next_at=first, due_at=first)
    return msgspec.structs.replace(
        known, draft=draft, updated_at=now, next_at=first, due_at=first, error=None
    )


def paused(schedule: Schedule, now: datetime) -> Schedule:
    """The schedule while paused: nothing is due."""
    return msgspec.structs.replace(
        schedule, paused=True, next_at=None, due_at=None, error=None, updated_at=now
    )


def resumed(schedule: Schedule, now: datetime) -> Schedule:
    """The schedule resumed at the next tick: ticks that passed meanwhile were not wanted."""
    if not schedule.paused:
        return schedule
    following = schedule.timing.next_after(now)
    return msgspec.structs.replace(
        schedule, paused=False, next_at=following, due_at=following, updated_at=now
    )


class Firing(NamedTuple):
    """The ticks of a due schedule that one write runs."""

    schedule: Schedule
    ticks: Sequence[datetime]
    following: datetime | None
    """The tick after them; if it is due as well, the next write runs it."""

    @property
    def jobs(self) -> list[Draft]:
        return [self.schedule.draft.job_at(tick) for tick in self.ticks]

    def settled(self, refusals: Sequence[LeaseholdError | None], now: datetime) -> Schedule:
        """The schedule after its jobs were submitted, given the error of each that was refused.

        The tick of a refused job stays due, and is tried again a little later.
        """
        schedule = self.schedule
        for tick, job, refusal in zip(self.ticks, self.jobs, refusals, strict=True):
            if refusal is not None and not isinstance(refusal, DuplicateJobError):
                return refused(msgspec.structs.replace(schedule, next_at=tick), now, refusal)
            schedule = msgspec.structs.replace(
                schedule, last_at=tick, last_job_id=job.id, fired=schedule.fired + (refusal is None)
            )
        return msgspec.structs.replace(
            schedule, next_at=self.following, due_at=self.following, error=None
        )


def fire(
    schedule: Schedule, now: datetime, *, has_ended: Callable[[str], bool], jobs_max: int
) -> Firing | Schedule:
    """Decide which ticks of a due schedule are run now, at most `jobs_max`.

    A schedule whose ticks cannot be computed is returned as refused, to be tried again later.
    """
    try:
        ticks = ticks_to_run(schedule, now, has_ended)
        schedule = _without(schedule, ticks, now)
        if len(ticks) > jobs_max:
            return Firing(schedule, ticks[:jobs_max], ticks[jobs_max])
        return Firing(schedule, ticks, schedule.timing.next_after(now))
    except Exception as error:  # noqa: BLE001 - one schedule must not stop all the others.
        return refused(schedule, now, error)


def ticks_to_run(
    schedule: Schedule, now: datetime, has_ended: Callable[[str], bool]
) -> tuple[datetime, ...]:
    """Which of the due ticks are run, by the schedule's policies, oldest first."""
    draft = schedule.draft
    if schedule.next_at is None or schedule.next_at > now:
        return ()
    limit = draft.catch_up_max if draft.misfire == "catch_up" else 1
    if draft.overlap == "skip":
        if schedule.last_job_id is not None and not has_ended(schedule.last_job_id):
            return ()
        limit = 1
    ticks = latest_ticks(draft.timing, schedule.next_at, now, limit)
    if draft.misfire == "skip":
        oldest = now - timedelta(seconds=draft.grace_seconds)
        return tuple(tick for tick in ticks if tick >= oldest)
    return ticks


def _without(schedule: Schedule, run: tuple[datetime, ...], now: datetime) -> Schedule:
    """The schedule with the due ticks that are not run counted as missed.

    The ticks to run are the latest ones, without a gap.
    """
    due = schedule.next_at
    if due is None or due > now or (run and run[0] == due):
        return schedule
    until = run[0] - _INSTANT if run else now
    others = islice(ticks_between(schedule.timing, due, until), MISSED_COUNTED_MAX - 1)
    [latest] = latest_ticks(schedule.timing, due, until, 1)
    missed = schedule.missed + 1 + sum(1 for _ in others)
    return msgspec.structs.replace(schedule, missed=missed, missed_at=latest)


def refused(schedule: Schedule, now: datetime, error: Exception) -> Schedule:
    """The schedule after a tick could not be fired: still due, but not retried at once."""
    again = now + timedelta(seconds=REFUSED_AGAIN_SECONDS)
    return msgspec.structs.replace(schedule, due_at=again, error=f"{type(error).__name__}: {error}")


def not_found(name: str, known: Iterable[str] = ()) -> ScheduleNotFoundError:
    """The error for an unknown schedule; it names a known one with a similar name."""
    meant = did_you_mean(name, known) or ": it never existed, or was removed"
    return ScheduleNotFoundError(f"there is no schedule {name!r}{meant}")


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidScheduleError(
            f"a schedule's name is text without control characters, not {name!r}"
        )
    if len(name) > SCHEDULE_NAME_LENGTH_MAX:
        raise InvalidScheduleError(
            f"a schedule's name has at most {SCHEDULE_NAME_LENGTH_MAX} characters, not {len(name)}"
        )
