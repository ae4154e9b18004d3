"""Comparing: the same call to two stores must have the same answer and leave the same behind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.job import HistoryEvent, Job
from leasehold.core.metrics import Figures
from leasehold.errors import LeaseholdError
from leasehold.testing.soak.observing import Snapshot

_TRY_AGAIN: Final = re.compile(r"try again in \d+\.\d s")

FREE: Final = frozenset(
    {
        "next_due_at",  # a hint
        "next_cursor",  # opaque
        "updated_at",
        "scan_ms",
        "lock_seconds",
        "writes",
        "rejected",  # stores do not agree yet about schedules that are run out of turn
        "results_dropped",  # or their jobs go before it comes to them
        "ended_by",  # of several dependencies that ended in one write, either
        "taken",
        "defaults",  # each store may have its own
    }
)
"""Fields that depend on how a store works, not on what it keeps."""


def difference(one: Any, other: Any, where: str = "") -> str | None:
    """Where two answers differ first, in words; None if they agree."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted({*one, *other}, key=str):
            if name not in one or name not in other:
                return f"{where}: only one has {name!r}"
            found = difference(one[name], other[name], f"{where}.{name}")
            if found is not None:
                return found
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            found = difference(mine, theirs, f"{where}[{index}]")
            if found is not None:
                return found
        return None
    return None if one == other else f"{where}: {one!r} or {other!r}"


def comparable(answer: Any, now: datetime) -> Any:
    """Plain data, errors with their words, without what a store may do in its own way."""
    if isinstance(answer, str) and answer.startswith("dependency "):
        # Of several that ended in one write, either may be named.
        return "dependency"
    if isinstance(answer, LeaseholdError):
        # How long it will take until there is room is an estimate.
        return _TRY_AGAIN.sub("try again", f"{type(answer).__name__}: {answer}")
    if isinstance(answer, Job):
        return _job(answer, now)
    if isinstance(answer, Figures):
        return "figures"
    if isinstance(answer, list | tuple):
        return [comparable(each, now) for each in answer]
    if isinstance(answer, Mapping):
        return {key: comparable(value, now) for key, value in answer.items()}
    if isinstance(answer, msgspec.Struct):
        return _fields(answer, now)
    return answer


def _fields(answer: msgspec.Struct, now: datetime) -> dict[str, Any]:
    return {
        name: comparable(getattr(answer, name), now)
        for name in answer.__struct_fields__
        if name not in FREE
    }


def _job(job: Job, now: datetime) -> dict[str, Any]:
    fields = _fields(job, now)
    # A time before its submission is kept or not: either way it is due from the beginning.
    fields["run_at"] = max(job.run_at, job.created_at)
    return fields


def comparable_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "now": snapshot.now,
        "jobs": [comparable(job, snapshot.now) for job in snapshot.jobs.values()],
        "queues": comparable(snapshot.queues, snapshot.now),
        "schedules": comparable(snapshot.schedules, snapshot.now),
        "settings": comparable(snapshot.settings.values, snapshot.now),
        "stats": comparable(snapshot.stats, snapshot.now),
    }


def comparable_events(events: list[HistoryEvent], now: datetime) -> dict[str, list[Any]]:
    """Per job: the order of events of several jobs within one write is a store's own."""
    found: dict[str, list[Any]] = {}
    for event in events:
        found.setdefault(event.job_id, []).append(comparable(event, now))
    return found
