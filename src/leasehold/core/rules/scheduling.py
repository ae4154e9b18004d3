"""Changing and firing schedules, inside one write of whichever store keeps them.

`core.model.schedule` decides about one schedule, this module about all of them: which are fired in
one write, and what is written, audited and reported. A store implements `ScheduleShelf`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, Protocol

from leasehold.core.model.budget import SCHEDULED_JOBS_AT_ONCE, SCHEDULES_AT_ONCE
from leasehold.core.model.job import Draft, Job, MetadataValue
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.schedule import (
    REFUSED_AGAIN_SECONDS,
    Firing,
    Schedule,
    ScheduleDraft,
    declared,
    fire,
    not_found,
    paused,
    resumed,
)
from leasehold.core.model.timing import Every
from leasehold.env import EPOCH
from leasehold.errors import InvalidScheduleError, LeaseholdError, QueueFullError


class UnreadableSchedule(NamedTuple):
    """A schedule that cannot be read on this machine: its time zone may be missing here, or it is
    damaged.
    """

    key: int
    """The store's key for it, even if its name cannot be read."""
    name: str
    error: InvalidScheduleError

    def shown(self) -> Schedule:
        """Something to show in its place, with the error."""
        job = Draft(id="unreadable", task="unreadable")
        draft = ScheduleDraft(name=self.name, timing=Every(SECONDS_MAX), job=job)
        return Schedule(
            draft=draft, created_at=EPOCH, updated_at=EPOCH, next_at=None, due_at=None,
            error=str(self.error),
        )  # fmt: skip


class ScheduleShelf(Protocol):
    """The schedules of a store, inside one write."""

    @property
    def now(self) -> datetime:
        """The time of this write."""

    def find(self, name: str) -> Schedule | UnreadableSchedule | None:
        """One schedule, by its name."""

    def due(self, limit: int) -> Sequence[Schedule | UnreadableSchedule]:
        """At most `limit` due schedules, the longest due first, then by name."""

    def keep(self, schedule: Schedule) -> None:
        """Save a schedule, replacing the one with that name."""

    def move_on(self, schedule: Schedule) -> None:
        """Save what firing has changed: the ticks, the latest job, the count and the error."""

    def postpone(self, key: int, until: datetime, error: str, /) -> None:
        """Save when to look at an unreadable schedule again, and why it was not fired."""

    def remove(self, name: str) -> None:
        """Forget a schedule."""

    def not_ended(self, job_ids: Sequence[str]) -> Collection[str]:
        """The given jobs that are unfinished; a deleted job counts as ended."""

    def schedule_of(self, job_id: str) -> str | None:
        """The schedule that a job names as its own; None if it names none or does not exist."""

    def submit(self, drafts: Sequence[Draft]) -> Sequence[LeaseholdError | None]:
        """Submit jobs independently; returns the error of each that is refused."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        """Write an audit record."""

    def wake(self) -> None:
        """Tell workers to look when the next tick is."""


class FiringShelf(ScheduleShelf, Protocol):
    """The same, as a store fires what is due and tells what became of it."""

    def fire_due(self) -> tuple[int, int | None]:
        """Fire due schedules; answers how many jobs that submitted, and when to look again."""

    def read_job(self, job_id: str) -> Job | None: ...


def set_schedule(shelf: ScheduleShelf, draft: ScheduleDraft, actor: str) -> Schedule:
    """Add a schedule, or change the one with that name. An unreadable one is repaired."""
    found = shelf.find(draft.name)
    known = found if isinstance(found, Schedule) else None
    answer = declared(known, draft, shelf.now)
    if answer is not known:
        _change(shelf, answer, "set_schedule", actor)
    return answer


def pause_schedule(shelf: ScheduleShelf, name: str, rest: bool, actor: str) -> Schedule:
    """Pause a schedule, or resume it."""
    known = _readable(shelf, name)
    if known.paused == rest:
        return known
    answer = paused(known, shelf.now) if rest else resumed(known, shelf.now)
    _change(shelf, answer, "pause_schedule" if rest else "resume_schedule", actor)
    return answer


def remove_schedule(shelf: ScheduleShelf, name: str, actor: str) -> Schedule:
    """Forget a schedule; its jobs stay. An unreadable one can be removed too."""
    found = _found(shelf, name)
    shelf.remove(name)
    shelf.audit(actor, "remove_schedule", 0, {"schedule": name})
    return found.shown() if isinstance(found, UnreadableSchedule) else found


def schedule_in(metadata: Mapping[str, MetadataValue] | None) -> str | None:
    """The schedule whose job it is, by a job's metadata."""
    named = (metadata or {}).get("schedule")
    return named if isinstance(named, str) else None


def run_schedule(shelf: ScheduleShelf, name: str, job_id: str, actor: str) -> QueueFullError | None:
    """Submit the schedule's job out of turn, once per id.

    A full queue is returned as an answer, not raised, because the refusal must be written.
    """
    if shelf.schedule_of(job_id) == name:
        return None
    draft = _readable(shelf, name).draft.job_now(job_id)
    draft.check(schedule=name)
    [refusal] = shelf.submit([draft])
    if isinstance(refusal, QueueFullError):
        return refusal
    if refusal is not None:
        raise refusal
    shelf.audit(actor, "run_schedule", 1, {"schedule": name, "job": job_id})
    return None


def fire_due(shelf: ScheduleShelf) -> int:
    """Fire due schedules, as many as one write may; returns how many jobs were submitted."""
    now = shelf.now
    due = shelf.due(SCHEDULES_AT_ONCE)
    not_ended = _jobs_in_the_way(shelf, due)
    firings: list[Firing] = []
    jobs: list[Draft] = []
    for found in due:
        if isinstance(found, UnreadableSchedule):
            # Leasing must continue; another machine may be able to read the schedule.
            again = now + timedelta(seconds=REFUSED_AGAIN_SECONDS)
            shelf.postpone(found.key, again, str(found.error))
            continue
        firing = fire(
            found,
            now,
            has_ended=lambda job_id: job_id not in not_ended,
            jobs_max=SCHEDULED_JOBS_AT_ONCE - len(jobs),
        )
        if isinstance(firing, Schedule):
            shelf.move_on(firing)
            continue
        firings.append(firing)
        jobs += firing.jobs
        if len(jobs) >= SCHEDULED_JOBS_AT_ONCE:
            break
    # One submit for all: hundreds of ticks one by one would keep other writers waiting.
    refusals = iter(shelf.submit(jobs) if jobs else ())
    submitted = 0
    for firing in firings:
        settled = firing.settled(list(islice(refusals, len(firing.ticks))), now)
        shelf.move_on(settled)
        submitted += settled.fired - firing.schedule.fired
    return submitted


def next_tick_from(found: Schedule | UnreadableSchedule, now: datetime) -> datetime | None:
    """The next tick of a schedule whose ticks were computed with a clock that was ahead.

    An unreadable schedule is looked at again at once.
    """
    return now if isinstance(found, UnreadableSchedule) else found.timing.next_after(now)


def _jobs_in_the_way(
    shelf: ScheduleShelf, due: Sequence[Schedule | UnreadableSchedule]
) -> Collection[str]:
    latest = [
        found.last_job_id
        for found in due
        if isinstance(found, Schedule) and found.draft.overlap == "skip" and found.last_job_id
    ]
    return shelf.not_ended(latest) if latest else ()


def _change(shelf: ScheduleShelf, schedule: Schedule, action: str, actor: str) -> None:
    shelf.keep(schedule)
    shelf.audit(actor, action, 0, {"schedule": schedule.name})
    shelf.wake()


def _found(shelf: ScheduleShelf, name: str) -> Schedule | UnreadableSchedule:
    found = shelf.find(name)
    if found is None:
        raise not_found(name)
    return found


def _readable(shelf: ScheduleShelf, name: str) -> Schedule:
    found = _found(shelf, name)
    if isinstance(found, UnreadableSchedule):
        raise found.error
    return found
