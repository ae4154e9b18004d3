"""What is counted beside the queues: the failures by fingerprint, and what each worker did."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import WorkerTotals
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.rules.failures import StandingFailure
from leasehold.env import from_micros, to_micros


class Failures:
    """The failures, as core.rules.failures asks for them."""

    def __init__(self) -> None:
        self.by_fingerprint: dict[str, Failure] = {}

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


class WorkerTally(msgspec.Struct):
    """What one worker did; the minutes in microseconds."""

    first_at: int
    last_at: int
    leased: int = 0
    completed: int = 0
    failed: int = 0
    lost: int = 0


class Workers:
    """What each worker did."""

    def __init__(self) -> None:
        self._tallies: dict[str, WorkerTally] = {}

    def did(self, worker: str, names: Sequence[str], now: int, jobs: int = 1) -> None:
        """Count so many jobs for a worker, under each of the names that are counted of workers."""
        now -= now % MINUTE_MICROS
        tally = self._tallies.get(worker)
        if tally is None:
            tally = self._tallies[worker] = WorkerTally(now, now)
        tally.last_at = now
        for name in names:
            if name == "completed":
                tally.completed += jobs
            elif name == "leased":
                tally.leased += jobs
            elif name == "failed":
                tally.failed += jobs
            elif name == "lost":
                tally.lost += jobs

    def forget(self, kept: int) -> None:
        """Keep so many of those that did something last."""
        surplus = len(self._tallies) - kept
        if surplus > 0:
            for worker in sorted(self._tallies, key=lambda each: self._tallies[each].last_at)[
                :surplus
            ]:
                del self._tallies[worker]

    def totals(self) -> Iterator[WorkerTotals]:
        for worker, tally in self._tallies.items():
            yield WorkerTotals(
                worker=worker,
                leased=tally.leased,
                completed=tally.completed,
                failed=tally.failed,
                lost=tally.lost,
                first_at=from_micros(tally.first_at),
                last_at=from_micros(tally.last_at),
            )
