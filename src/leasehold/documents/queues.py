"""Queues: their state, their rules, and their lifetime counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.status import Status
from leasehold.documents.records import document_of, in_utc


def queue_figures(info: QueueInfo) -> dict[str, Any]:
    """A queue, its state, and how many jobs stand in each status."""
    counts = {status.value: info.counts.get(status, 0) for status in Status}
    return {"queue": info.name, "state": info.state.value, **counts}


def queue_document(info: QueueInfo) -> dict[str, Any]:
    """The same, with its rules, until when breakers hold it, and when the next job may start."""
    return {
        **queue_figures(info),
        "config": document_of(info.config),
        "held_until": in_utc(info.held_until),
        "next_start_at": in_utc(info.next_start_at),
        "created_at": in_utc(info.created_at),
        "created_by": info.created_by,
        "changed_at": in_utc(info.changed_at),
        "changed_by": info.changed_by,
    }


def totals_document(
    queue: str | None, state: str | None, stats: Mapping[str, int]
) -> dict[str, Any]:
    """The lifetime counts of a queue, or (None) of the whole store, with the share of failures.

    `stats` are those of `Stats.as_mapping`.
    """
    attempts = stats["total_completed"] + stats["total_failed"]
    failed = 100 * stats["total_failed"] / attempts if attempts else None
    return {"queue": queue, "state": state, **stats, "failure_percent": failed}
