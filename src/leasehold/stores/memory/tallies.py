"""Counts kept beside the queues: failures by fingerprint, and the totals of each worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import WorkerTotals
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.rules.failures import ErrorType, StandingFailure
from leasehold.core.rules.measuring import WORKER_COUNTERS
from leasehold.env import from_micros, to_micros


class FailureBook:
    """The failures, for core.rules.failures."""

    def __init__(self) -> None:
        self.by_fingerprint: dict[str, Failure] = {}
        self.attempts_by_type: dict[ErrorType, int] = {}
        self._last_at: dict[ErrorType, datetime] = {}

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        kept = self.by_fingerprint
        return {each: kept[each] for each in fingerprints if each in kept}

    def keep(self, failures: Sequence[Failure]) -> None:
        self.by_fingerprint.update((failure.fingerprint, failure) for failure in failures)

    def size(self) -> int:
        return len(self.by_fingerprint)

    def standing(self) -> Iterator[StandingFailure]:
        for each in self.by_fingerprint.values():
            yield StandingFailure(each.fingerprint, each.count, to_micros(each.last_at))

    def forget(self, fingerprints: Sequence[str]) -> None:
        for each in fingerprints:
            del self.by_fingerprint[each]

    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]:
        return types & self.attempts_by_type.keys()

    def types_counted(self) -> int:
        return len(self.attempts_by_type)

    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None:
        for each, more in attempts.items():
            self.attempts_by_type[each] = self.attempts_by_type.get(each, 0) + more
            self._last_at[each] = at

    def forget_types(self, before: datetime) -> None:
        for each in [each for each, at in self._last_at.items() if at < before]:
            del self.attempts_by_type[each], self._last_at[each]


_COUNTED: Final = frozenset(WORKER_COUNTERS)


class WorkerTally(msgspec.Struct):
    """The totals of one worker in one queue; minutes are in microseconds."""

    first_at: int
    last_at: int
    counts: dict[str, int] = msgspec.field(
        default_factory=lambda: dict.fromkeys(WORKER_COUNTERS, 0)
    )


class WorkerTallies:
    """The totals of each worker in each queue."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], WorkerTally] = {}

    def did(self, worker: str, queue: str, names: Sequence[str], now: int, jobs: int = 1) -> None:
        """Count jobs of a queue for a worker, under the names that are counted by worker."""
        tally = self._tallies.get((queue, worker))
        if tally is None or now - tally.last_at >= MINUTE_MICROS:
            if _COUNTED.isdisjoint(names):
                return  # For example, a job that was handed back does not count.
            now -= now % MINUTE_MICROS
            if tally is None:
                tally = self._tallies[queue, worker] = WorkerTally(now, now)
            tally.last_at = now
        counts = tally.counts
        for name in names:
            if name in counts:
                counts[name] += jobs

    def forget(self, kept: int) -> None:
        """Keep a bounded number of workers: those that worked last."""
        surplus = len(self._tallies) - kept
        if surplus > 0:
            by_age = sorted(self._tallies, key=lambda each: self._tallies[each].last_at)
            for each in by_age[:surplus]:
                del self._tallies[each]

    def leased(self) -> dict[tuple[str, str], int]:
        """How many jobs were leased, by queue and worker."""
        return {each: tally.counts["leased"] for each, tally in self._tallies.items()}

    def totals(self) -> Iterator[tuple[str, WorkerTotals]]:
        """The totals of each worker, by queue."""
        for (queue, worker), tally in self._tallies.items():
            yield (
                queue,
                WorkerTotals(
                    worker=worker,
                    **tally.counts,
                    first_at=from_micros(tally.first_at),
                    last_at=from_micros(tally.last_at),
                ),
            )
