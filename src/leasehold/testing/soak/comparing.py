"""Comparing: the same call to two stores must have the same answer and leave the same behind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.history import HistoryEvent
from leasehold.errors import LeaseholdError
from leasehold.testing.soak.calls import Described, Followed
from leasehold.testing.soak.observing import Snapshot

FREE: Final = frozenset(
    {
        "next_due_at",  # a hint
        "next_cursor",  # opaque
        "cursor",
        "scan_ms",
        "lock_seconds",
        "writes",
        "results_dropped",  # or their jobs go before it comes to them
        "taken",
        "defaults",  # each store may have its own
        "operation_id",  # of a plan: made by the store
        "oldest_pending_age_seconds",  # MET-7: in strict order a store may tell that of another job
    }
)
"""Fields that depend on how a store works, not on the data it keeps."""


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
    """Plain data, errors with their words, without parts that a store may do in its own way."""
    if isinstance(answer, LeaseholdError):
        return f"{type(answer).__name__}: {answer}"
    if isinstance(answer, Followed):
        # In which order jobs of one write are told of, and whether deleted ones are, is its own.
        return answer.gap
    if isinstance(answer, Described):
        return "described"
    if isinstance(answer, list | tuple):
        return [comparable(each, now) for each in answer]
    if isinstance(answer, Mapping):
        return {key: comparable(value, now) for key, value in answer.items() if key not in FREE}
    if isinstance(answer, msgspec.Struct):
        return _fields(answer, now)
    return answer


def _fields(answer: msgspec.Struct, now: datetime) -> dict[str, Any]:
    return {
        name: comparable(getattr(answer, name), now)
        for name in answer.__struct_fields__
        if name not in FREE
    }


def difference_of_snapshots(one: Snapshot, other: Snapshot) -> str | None:
    """Where two stores show something else, in words; None if they agree."""
    ids, theirs = list(one.jobs), list(other.jobs)
    if ids != theirs:
        return f"jobs: {ids} or {theirs}"
    pairs: list[tuple[str, Any, Any]] = [
        ("settings", one.settings.values, other.settings.values),
        *((f"job {each}", one.jobs[each], other.jobs[each]) for each in ids),
        *(
            (name, getattr(one, name), getattr(other, name))
            for name in ("now", "queues", "schedules", "stats")
        ),
    ]
    for what, mine, yours in pairs:
        # Most of it is the same to the last field, and that is quickly seen.
        if mine != yours:
            found = difference(comparable(mine, one.now), comparable(yours, one.now), what)
            if found is not None:
                return found
    return None


def by_job(events: list[HistoryEvent]) -> dict[str, list[HistoryEvent]]:
    """Per job: the order of events of several jobs within one write is a store's own."""
    found: dict[str, list[HistoryEvent]] = {}
    for event in events:
        found.setdefault(event.job_id, []).append(event)
    return found
