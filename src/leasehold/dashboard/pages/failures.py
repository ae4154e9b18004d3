"""Failures by fingerprint: one bug or many? And the jobs that died of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from leasehold.core.model.failure import HOURS_KEPT, FailedAttempt, Failure, what_failed
from leasehold.core.model.job import Job
from leasehold.core.model.pins import Pin
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import FAILURES_MAX
from leasehold.dashboard.deploys import is_growing, since, version_at
from leasehold.dashboard.tracebacks import shown_traceback
from leasehold.dashboard.trend import Trend, trend_of
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.errors import InvalidRequestError
from leasehold.queue.filters import found

NEW_SECONDS: Final = 3600
QUIET_SECONDS: Final = 24 * 3600
SHOWN_MAX: Final = 100
MARKS_SHOWN: Final = 5
COUNTED_MAX: Final = 2_000
"""How many dead letters of a group its page counts, reading each of them; a plan counts all."""


@dataclass(frozen=True)
class Row:
    """A failure, the effect of a deploy on it, and in which versions it was seen."""

    group: Failure
    age: str
    trend: Trend
    first_version: str | None
    last_version: str | None


def _row(group: Failure, now: datetime, marks: Sequence[Pin], mark: Pin | None) -> Row:
    return Row(
        group,
        age_of_group(group, now, mark),
        trend_of(group, now),
        version_at(marks, group.first_at),
        version_at(marks, group.last_at),
    )


def failures(desk: Desk, visit: Visit) -> FilledPage:
    now = desk.queue.now()
    known = desk.queue.failures(visit.text("queue") or None, limit=FAILURES_MAX)
    order = visit.text("by") if visit.text("by") in ("new", "count") else "last"
    keys = {
        "last": lambda each: each.last_at,
        "new": lambda each: each.first_at,
        "count": lambda each: each.count,
    }
    known.sort(key=keys[order], reverse=True)
    marks = desk.queue.deploys()
    mark = _chosen_mark(marks, visit)
    return FilledPage(
        "failures.html",
        {
            "title": "Failures",
            "page": "failures",
            "now": now,
            "groups": [_row(each, now, marks, mark) for each in known[:SHOWN_MAX]],
            "marks": marks[::-1][:MARKS_SHOWN],
            "mark": mark,
            "since": Counter(since(each, mark, now) for each in known) if mark else {},
            "left_out": max(0, len(known) - SHOWN_MAX),
            "by": order,
            "queue": visit.text("queue"),
        },
    )


def failure(desk: Desk, visit: Visit) -> FilledPage:
    now = desk.queue.now()
    group = group_of(desk, visit.text("fingerprint"))
    marks = desk.queue.deploys()
    jobs = [each for each in (desk.store.get(job_id) for job_id in group.jobs) if each is not None]
    latest = next((each for each in jobs if each.error is not None), None)
    dead = list(islice(dead_jobs(desk, group), COUNTED_MAX + 1))
    return FilledPage(
        "failure.html",
        {
            "title": f"{group.error_type} in {group.task}",
            "page": "failures",
            "now": now,
            "group": group,
            "age": age_of_group(group, now, marks[-1] if marks else None),
            "trend": trend_of(group, now, HOURS_KEPT),
            "first_version": version_at(marks, group.first_at),
            "last_version": version_at(marks, group.last_at),
            "jobs": jobs,
            "error": latest.error if latest else None,
            "trace": shown_traceback(latest.error.traceback) if latest and latest.error else None,
            "latest": latest,
            "dead": len(dead),
            "counted_max": COUNTED_MAX,
        },
    )


def age_of_group(group: Failure, now: datetime, mark: Pin | None = None) -> str:
    """The effect of a deploy on a failure; if none is marked, whether it is new, is growing this
    hour, continues, or has not been seen for a day.
    """
    if mark is not None:
        return since(group, mark, now)
    if now - group.first_at < timedelta(seconds=NEW_SECONDS):
        return "new"
    if now - group.last_at > timedelta(seconds=QUIET_SECONDS):
        return "quiet"
    return "growing" if is_growing(group, now, now) else "recurring"


def _chosen_mark(marks: Sequence[Pin], visit: Visit) -> Pin | None:
    """The deploy since which failures are shown: the chosen one, or the latest."""
    asked = visit.text("since")
    return next((each for each in marks if each.name == asked), marks[-1] if marks else None)


def group_of(desk: Desk, fingerprint: str) -> Failure:
    """The failure with this fingerprint; raises InvalidRequestError if none has it."""
    for each in desk.queue.failures(limit=FAILURES_MAX):
        if each.fingerprint == fingerprint:
            return each
    raise InvalidRequestError(
        "no failure has this fingerprint: the 1,000 most significant ones are kept"
    )


def dead_jobs(desk: Desk, group: Failure) -> Iterator[Job]:
    """The dead letters whose latest error is exactly this failure, the newest first."""
    where = JobFilter(
        queues=(group.queue,),
        tasks=(group.task,),
        statuses=(Status.DEAD,),
        error_text=group.error_type,
    )
    for job in found(desk.store, where, ("payload", "result", "metadata")):
        if job.error is not None:
            what = what_failed(FailedAttempt(job.queue, job.task, job.id, job.error))
            if what.fingerprint == group.fingerprint:
                yield job
