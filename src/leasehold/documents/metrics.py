"""Metrics of queues, flat: a window, or minute by minute and day by day."""

from __future__ import annotations

from typing import Any

from leasehold.core.model.histogram import Durations
from leasehold.core.model.span import COUNTED, SUBMITTED_IN
from leasehold.core.model.status import Status
from leasehold.core.rules.metrics import DayPoint, Figures, MinutePoint, QueueMetrics
from leasehold.core.rules.timeline import Timeline

STANDING = (Status.PENDING, Status.RUNNING, Status.SCHEDULED, Status.BLOCKED)
"""Statuses of which it is told how many jobs stand in them; in the others they only arrive."""


def metrics_document(metrics: QueueMetrics, state: str | None) -> dict[str, Any]:
    """How a queue, or the whole store, stands, and what happened in the window before."""
    return {
        "queue": metrics.queue,
        "state": state,
        "at": metrics.at,
        "since": metrics.since,
        **{status.value: metrics.counts[status] for status in STANDING},
        **{f"pending_{band}": count for band, count in metrics.pending_by_priority.items()},
        "oldest_pending_age_seconds": metrics.oldest_pending_age_seconds,
        "active_workers": metrics.active_workers,
        "throughput_per_second": metrics.throughput_per_second,
        **_happened(metrics),
    }


def point_document(queue: str | None, point: MinutePoint | DayPoint) -> dict[str, Any]:
    """What happened to a queue, or in the whole store, in one minute or on one day."""
    begin = {"at": point.at} if isinstance(point, MinutePoint) else {"day": point.day}
    return {"queue": queue, **begin, "pending": point.pending, **_happened(point)}


def _happened(figures: Figures) -> dict[str, Any]:
    return {
        **{name: getattr(figures, name) for name in COUNTED},
        "deepest": figures.deepest,
        "error_rate": figures.error_rate,
        **_flat("wait", figures.wait),
        **_flat("run", figures.run),
        **_flat("held", figures.held),
        **{SUBMITTED_IN[band]: jobs for band, jobs in figures.submitted_by_priority.items()},
        **{
            field: value
            for band, waits in figures.wait_by_priority.items()
            for field, value in _flat(f"wait_{band}", waits).items()
        },
        "retries": {str(attempt): times for attempt, times in figures.retries.items()},
    }


def timeline_documents(timeline: Timeline) -> list[dict[str, Any]]:
    """One document for each minute or day, with the value of each metric."""
    return [
        {
            "queue": timeline.queue,
            "at": at,
            "known": at >= timeline.known_since,
            **{name: values[step] for name, values in timeline.values.items()},
        }
        for step, at in enumerate(timeline.at)
    ]


def _flat(name: str, durations: Durations) -> dict[str, Any]:
    return {f"{name}_{field}": getattr(durations, field) for field in durations.__struct_fields__}
