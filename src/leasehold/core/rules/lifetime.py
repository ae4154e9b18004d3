"""Lifetimes: the counts and measurements of each queue since the store was made.

These figures only grow, whichever processes come and go: a monitoring system computes rates and
percentiles from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

import msgspec

from leasehold.core.model.span import Span
from leasehold.core.rules.failures import ErrorType
from leasehold.core.rules.metrics import MetricsReader, active_by_queue
from leasehold.core.rules.sampling import last_looks


class QueueLifetime(msgspec.Struct, frozen=True, kw_only=True):
    """One queue, from its first job until now."""

    queue: str
    ever: Span
    """All counts and measurements."""
    leased_by: dict[str, int] = {}
    """How many jobs each worker leased, for recently active workers (MET-23)."""
    failed_with: dict[str, int] = {}
    """How many attempts failed or were lost, by type of error."""
    oldest_pending_age_seconds: float | None = None
    """How long the longest-waiting available job has waited; None if none waits."""
    active_workers: int = 0
    """Workers of this queue that gave a sign of life within the last two minutes."""


class LifetimeReader(MetricsReader, Protocol):
    """The present state of a store. Nothing here scans jobs."""

    def leased_by(self) -> Mapping[tuple[str, str], int]:
        """By queue and worker, how many jobs were leased."""

    def failed_with(self) -> Mapping[ErrorType, int]:
        """How many attempts failed, by type of error."""


def lifetimes(reader: LifetimeReader) -> list[QueueLifetime]:
    """The lifetime figures of each queue, by name."""
    now = reader.now
    looks = last_looks(reader, None)
    leased_by: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (queue, worker), leased in reader.leased_by().items():
        leased_by[queue][worker] = leased
    failed_with: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (queue, error_type), failed in reader.failed_with().items():
        failed_with[queue][error_type] = failed
    active = active_by_queue(reader.workers(), now)
    standings = reader.standings(None)
    totals = reader.totals(None)
    found = []
    for queue in sorted(reader.queues()):
        oldest = standings[queue].oldest_available_at if queue in standings else None
        found.append(
            QueueLifetime(
                queue=queue,
                ever=totals.get(queue, Span()).with_measures_of(looks.get(queue, Span())),
                leased_by=leased_by[queue],
                failed_with=failed_with[queue],
                oldest_pending_age_seconds=None if oldest is None else (now - oldest) / 1e6,
                active_workers=active[queue],
            )
        )
    return found
