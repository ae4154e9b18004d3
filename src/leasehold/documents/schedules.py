"""Schedules, with their next runs."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.durations import duration_text
from leasehold.core.model.job import Draft
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.timing import Cron, Every, Timing
from leasehold.documents.records import in_utc

NEXT_RUNS: Final = 3


def schedule_document(known: Schedule, now: datetime) -> dict[str, Any]:
    """A schedule, the job it submits, and when."""
    draft, timing = known.draft, known.timing
    return {
        "name": known.name,
        "state": "paused" if known.paused else "active",
        "timing": _timing_text(timing),
        "cron": timing.expression if isinstance(timing, Cron) else None,
        "zone": timing.zone if isinstance(timing, Cron) else None,
        "every_seconds": timing.seconds if isinstance(timing, Every) else None,
        "starting": in_utc(timing.starting) if isinstance(timing, Every) else None,
        "task": known.task,
        "queue": known.queue,
        **_job_options(known),
        "misfire": draft.misfire,
        "catch_up_max": draft.catch_up_max,
        "grace_seconds": draft.grace_seconds,
        "overlap": draft.overlap,
        "declared_in": draft.declared_in,
        "orphaned": draft.orphaned,
        "next_at": known.next_at,
        "overdue": not known.paused and known.next_at is not None and known.next_at < now,
        "next_runs": next_runs(known, now),
        "last_at": known.last_at,
        "last_job_id": known.last_job_id,
        "fired": known.fired,
        "missed": known.missed,
        "missed_at": known.missed_at,
        "error": known.error,
        "created_at": known.created_at,
        "updated_at": known.updated_at,
    }


def _job_options(known: Schedule) -> dict[str, Any]:
    """The fields of each tick's job."""
    job = known.draft.job
    return {
        "payload": _plain(job),
        "priority": job.priority,
        "max_retries": job.max_retries,
        "timeout_seconds": job.timeout_seconds,
        "metadata": job.metadata,
    }


def _plain(job: Draft) -> Any:
    """The payload as data; None if only its own queue can read it."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(job.payload) if job.codec == "json" else None
    return None


def _timing_text(timing: Timing) -> str:
    """A timing in a few words."""
    if isinstance(timing, Cron):
        return timing.expression + ("" if timing.zone == "UTC" else f" {timing.zone}")
    return f"every {duration_text(timing.seconds)}"


def next_runs(known: Schedule, now: datetime, count: int = NEXT_RUNS) -> list[datetime]:
    """The next ticks that will be fired, the due one included."""
    runs: list[datetime] = []
    following = known.next_at
    while following is not None and len(runs) < count:
        runs.append(following)
        following = known.timing.next_after(max(following, now))
    return runs
